"""Queries of a database in a study: what the file says is what `fathom sql` is asked and records."""

from pathlib import Path

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.sweeps import sweeps
from fathometer.study.commands import query_command
from fathometer.study.deadlines import most_bytes
from fathometer.study.plan import plan
from fathometer.study.read import parse
from fathometer.study.run import run_study
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
name = "plain"
rows = 300
count = 8
packet-sizes = [4096, 8192]
[[query]]
name = "encrypted"
encrypt = true
rows = 300
count = 2
packet-sizes = [4096, 32767]
"""


def problems(text):
    return [p.what for p in parse(text)[1]]


def test_it_says_what_fathom_sql_is_asked():
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
    ],
)
def test_what_fathom_sql_would_refuse(line, what):
    key = line.split(" = ")[0]
    kept = "\n".join(x for x in STUDY.splitlines() if not x.startswith(key))
    assert any(what in told for told in problems(f"{kept}\n{line}\n"))


def test_queries_for_a_time_have_room_in_what_may_be_fetched():
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
    assert {r.queries.number for r in recordings} == {16, 4}
    plain, encrypted = sorted(sweeps(analyse(recordings).scenarios), key=lambda s: -s.each[1].ratio.count)
    assert [one.words for one in plain.each] == ["packets of 4,096 bytes", "packets of 8,192 bytes"]
    assert encrypted.each[1].words == "packets of 16,383 bytes, 32,767 bytes asked for"
    assert plain.each[1].ratio.count == 7
