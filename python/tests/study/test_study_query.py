"""Queries of a database in a study: what the file says is what `fathom sql` is asked and records."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fathometer.dataset import open_recordings
from fathometer.errors import FathometerError
from fathometer.findings.analyse import analyse
from fathometer.findings.sweeps import sweeps
from fathometer.report.databases_json import as_json
from fathometer.study.commands import query_command
from fathometer.study.deadlines import most_bytes
from fathometer.study.homes import Home, clear_homes
from fathometer.study.plan import plan
from fathometer.study.postgres import Postgres, _programs
from fathometer.study.read import parse
from fathometer.study.run import run_study
from fathometer.study.stop import stop_study
from support.programs import fathom, free_port

STUDY = """
format = 1
name = "q"
repetitions = 1
[[host]]
name = "here"
local = true
[[scenario]]
label = "loopback"
from = "here"
to = "here"
port = 21433
[[query]]
name = "encrypted"
encrypt = true
rows = 300
packet-sizes = [4096, 32767]
[[query]]
name = "plain"
rows = 300
count = 8
packet-sizes = [4096, 8192]
"""


def problems(text):
    return [p.what for p in parse(text)[1]]


def test_query_becomes_a_fathom_sql_command():
    study, wrong = parse(STUDY)
    assert wrong == []
    run = next(r for r in plan(study) if r.probe.name == "plain")
    assert query_command(run, "there")("fathom", "kept") == [
        *("fathom", "sql", "mssql://reader@there:21433/study?sslmode=disable", "--quiet", "--json"),
        *("--record", "kept", "--rows", "300", "--count", "8", "--packet-size", "4096,8192"),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("fetch-sizes = [0, 10]", "`fetch-sizes` are PostgreSQL's"),
        ('database = "postgres"', "PostgreSQL has no packets"),
        ('query = "SELECT 1"', "both `query` and `rows`"),
        ('for = "1s"', "both `for` and `count`"),
        ("packet-sizes = [100]", "packet-sizes"),
        ("connections = 4", "several connections ask with one setting"),
        ("connections = 65", "connections"),
        ("connections = 0", "connections"),
    ],
)
def test_invalid_query_is_refused(line, what):
    key = line.split(" = ")[0]
    kept = "\n".join(x for x in STUDY.splitlines() if not x.startswith(key))
    assert any(what in told for told in problems(f"{kept}\n{line}\n"))


def test_timed_queries_reserve_enough_fetch_space():
    """A minute of queries was taken for 21 of them, and what was more was not fetched over SSH."""
    held = {}
    for name, pace in [("paced", 'every = "10ms"'), ("unpaced", "")]:
        text = STUDY.replace("count = 8", f'for = "1m"\n{pace}')
        study, wrong = parse(text)
        assert wrong == []
        run = next(r for r in plan(study) if r.probe.name == "plain")
        held[name] = most_bytes(run) - (64 << 20)
    assert 6_000 * 512 <= held["paced"] <= 8_000 * 512
    # A query over loopback takes 45 microseconds.
    assert held["unpaced"] >= 60 * 22_000 * 512


def test_our_server_is_started_asked_and_ended(tmp_path):
    file = tmp_path / "q.toml"
    file.write_text(STUDY.replace("21433", str(free_port())))
    assert run_study(file, tmp_path / "out", Path(fathom()), False, print) == 2
    recordings = list(open_recordings([tmp_path / "out"]))
    assert {r.queries.number for r in recordings} == {16, 60}
    plain, encrypted = sorted(sweeps(analyse(recordings).scenarios), key=lambda s: s.each[1].ratio.count)
    assert [one.words for one in plain.each] == ["packets of 4,096 bytes", "packets of 8,192 bytes"]
    assert encrypted.each[1].words == "packets of 16,383 bytes, 32,767 bytes asked for"
    # Eight rounds are four logins.
    assert (plain.each[1].basis, plain.each[1].ratio.count) == ("logins", 4)
    # What nobody says how often to ask: ten logins of three rounds, of which the first finds nothing warm.
    assert (encrypted.each[1].ratio.count, int(encrypted.each[1].asked.counted.sum())) == (10, 20)


POSTGRES = """
format = 1
name = "pieces"
repetitions = 1
[[host]]
name = "here"
local = true
[[scenario]]
label = "loopback"
from = "here"
to = "here"
port = 21433
[[query]]
database = "postgres"
start = true
rows = 500
count = 9
fetch-sizes = [0, 10]
"""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('user = "app"', "a server that is started has its own"),
        ("encrypt = true", "a server that is started has its own"),
        ('name-of-database = "shop"', "a server that is started has its own"),
        ('database = "mssql"', '`start` is for `database = "postgres"`'),
    ],
)
def test_started_server_rejects_connection_settings(line, what):
    key = line.split(" = ")[0]
    kept = "\n".join(x for x in POSTGRES.splitlines() if not x.startswith(key))
    assert any(what in told for told in problems(f"{kept}\n{line}\n"))


def test_no_server_is_started_over_ssh():
    text = POSTGRES.replace("local = true", 'ssh = { address = "10.0.0.1", user = "me" }')
    assert any("is a host over SSH" in told for told in problems(text))


@pytest.fixture
def homes(monkeypatch):
    """Where servers have their data: what the user nobody can reach, unlike pytest's directories."""
    if _programs() is None:
        pytest.fail("no PostgreSQL server is installed (Debian: postgresql)")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def test_a_postgres_is_started_asked_and_ended(tmp_path, homes):
    file = tmp_path / "q.toml"
    file.write_text(POSTGRES.replace("21433", str(free_port())))
    assert run_study(file, tmp_path / "out", Path(fathom()), False, print) == 1
    (sweep,) = sweeps(analyse(list(open_recordings([tmp_path / "out"]))).scenarios)
    assert [one.words for one in sweep.each] == ["all rows at once", "10 rows a round trip"]
    # 500 rows by ten: 50 pieces, and one to learn that there are no more.
    assert set(sweep.each[1].asked.turns.tolist()) == {51}
    assert (sweep.each[1].basis, sweep.each[1].ratio.count) == ("rounds", 8)
    assert sweep.each[1].ratio.interval is not None
    assert list(homes.iterdir()) == []


SIDE_BY_SIDE = """
[[query]]
name = "alone"
database = "postgres"
start = true
query = "SELECT pg_sleep(0.05)"
count = 5
[[query]]
name = "beside"
database = "postgres"
start = true
query = "SELECT pg_sleep(0.05)"
count = 5
connections = 8
"""


def side_by_side(port):
    return POSTGRES.split("[[query]]", maxsplit=1)[0].replace("21433", str(port)) + SIDE_BY_SIDE


def test_eight_connections_are_planned():
    study, wrong = parse(side_by_side(21433))
    assert wrong == []
    by_name = {r.probe.name: r for r in plan(study)}
    words = query_command(by_name["beside"], "there")("fathom", "kept")
    assert words[words.index("--connections") + 1] == "8"
    assert "--connections" not in query_command(by_name["alone"], "there")("fathom", "kept")
    # They ask at the same time, and have eight times the rows.
    assert by_name["beside"].estimate_ns == by_name["alone"].estimate_ns
    rows = {name: most_bytes(run) - (64 << 20) for name, run in by_name.items()}
    assert rows["beside"] >= 8 * 5 * 512 > rows["alone"] - 5 * 50 * 512


@pytest.mark.acceptance
def test_eight_connections_run_and_report_separately(tmp_path, homes):
    file = tmp_path / "q.toml"
    file.write_text(side_by_side(free_port()))
    assert run_study(file, tmp_path / "out", Path(fathom()), False, print) == 2
    recordings = list(open_recordings([tmp_path / "out"]))
    assert sorted(r.queries.number for r in recordings) == [5, 40]
    each = {len(row["connections"] or ()): row for row in as_json(analyse(recordings))["databases"]}
    assert sorted(each) == [0, 8]
    assert [of["queries"] for of in each[8]["connections"]] == [5] * 8
    assert list(homes.iterdir()) == []


def test_postgres_error_comes_from_log():
    said = "LOG:  starting\nLOG:  could not bind IPv4 address: Address already in use\nFATAL:  no socket\n"
    error = str(Postgres(None, "here", 5432)._failed(said))
    assert "could not bind IPv4 address: Address already in use" in error
    assert "choose another `port`" in error


@pytest.mark.acceptance
def test_taken_port_error_comes_from_log(tmp_path, homes):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "q.toml"
        file.write_text(POSTGRES.replace("21433", str(taken.getsockname()[1])))
        with pytest.raises(FathometerError, match="could not bind"):
            run_study(file, tmp_path / "out", Path(fathom()), False, print)
    assert list(homes.iterdir()) == []


RUNS = """
import sys
from pathlib import Path
from fathometer.study.run import run_study
run_study(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), False, lambda s: print(s, flush=True))
"""


@pytest.fixture
def killed(tmp_path, homes):
    """A study that was killed while it asked; its directory, and the one that its server has its data in."""
    file = tmp_path / "q.toml"
    text = POSTGRES.replace("21433", str(free_port())).replace("count = 9", 'for = "10m"')
    file.write_text(text)
    argv = [sys.executable, "-c", RUNS, str(file), str(tmp_path / "out"), fathom()]
    environment = {**os.environ, "TMPDIR": str(homes)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as runner:
        assert any("reflectors listen" in line for line in runner.stdout)
        runner.kill()
    (home,) = homes.iterdir()
    assert (home / "data" / "postmaster.pid").exists()
    return tmp_path / "out", home


def serves(home):
    """Whether the server of a home is there."""
    lines = Path(home, "data", "postmaster.pid").read_text().splitlines()
    try:
        with socket.create_connection(("127.0.0.1", int(lines[3])), 5):
            return True
    except ConnectionRefusedError:
        return False


def test_stop_takes_away_what_a_killed_study_left(killed, homes):
    output, home = killed
    assert serves(home)
    stop_study(output, Path(fathom()))
    assert list(homes.iterdir()) == []


@pytest.mark.acceptance
def test_next_study_clears_only_killed_ones(tmp_path, killed, homes):
    _, home = killed
    port = int((home / "data" / "postmaster.pid").read_text().splitlines()[3])
    living = Home()
    (living.path / "data").mkdir()
    (homes / "fathometer-postgres-a-file").write_text("of somebody who is not us")
    # It needs the port that the other's server has.
    file = tmp_path / "next.toml"
    file.write_text(POSTGRES.replace("21433", str(port)))
    assert run_study(file, tmp_path / "next", Path(fathom()), False, print) == 1
    assert sorted(homes.iterdir()) == sorted([living.path, homes / "fathometer-postgres-a-file"])
    assert (living.path / "data").is_dir()
    living.take_away()
    assert clear_homes() == 0
    assert [p.name for p in homes.iterdir()] == ["fathometer-postgres-a-file"]


def test_home_of_another_user_stays(homes):
    if os.geteuid() != 0:
        pytest.skip("only root can make one")
    theirs = homes / "fathometer-postgres-theirs"
    theirs.mkdir()
    os.chown(theirs, 65_534, 65_534)
    ours = homes / "fathometer-postgres-ours"
    ours.mkdir()
    assert clear_homes() == 1
    assert list(homes.iterdir()) == [theirs]


def test_unresponsive_server_is_killed(homes, monkeypatch):
    monkeypatch.setattr("fathometer.study.homes.GRACE_S", 0.1)
    home = homes / "fathometer-postgres-deaf"
    home.mkdir()
    deaf = "from signal import *; signal(SIGTERM, SIG_IGN); print(1, flush=True); pause()"
    with subprocess.Popen([sys.executable, "-c", deaf], cwd=home, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"1\n"
            assert clear_homes() == 1
            assert process.wait(30) == -signal.SIGKILL
        finally:
            process.kill()
    assert list(homes.iterdir()) == []
