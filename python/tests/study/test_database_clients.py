"""studies/clients: the open loop, the law of ends, and the client of SQLAlchemy itself where it is built."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import ClassVar

import pytest

from support.programs import LIMIT, ROOT, fathom, free_port, need_fabrics, serving, until_it_answers

CLIENTS = ROOT / "studies" / "clients"
ENDS = ("answered", "failed", "ambiguous")


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(CLIENTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import run

    return run


@pytest.fixture
def open_loop(monkeypatch):
    monkeypatch.syspath_prepend(str(CLIENTS / "python"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import open_loop

    return open_loop


class Deadline:
    """Stands in for a timer, and runs out when a test says so."""

    of: ClassVar = {}

    def __init__(self, left_s, end, kwargs):
        assert left_s <= 5
        self.of[end.__self__] = lambda: end(**kwargs)

    def start(self):
        self.daemon = True


def test_each_request_ends_once_by_its_deadline(open_loop, capsys, monkeypatch):
    monkeypatch.setattr(open_loop.threading, "Timer", Deadline)
    monkeypatch.setattr(Deadline, "of", {})
    turns, lock = iter(range(1000)), threading.Lock()

    def ask(sent):
        with lock:
            turn = next(turns) % 6
        if turn in (0, 2, 4):
            sent()
        if turn in (3, 4):
            Deadline.of[sent.__self__]()  # The answer comes too late to be an end.
        return "refused" if turn in (1, 2, 5) else None

    total = open_loop.run(Namespace(rate=1000.0, lasts=0.03, deadline=5, begin=0), ask)
    # A deadline after the end is none.
    for runs_out in Deadline.of.values():
        runs_out()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert total == {"due": 30, "answered": 5, "failed": 15, "ambiguous": 10}
    assert sorted(row["n"] for row in rows) == list(range(30))
    assert all(list(row) == ["n", "due_ns", "end", "waited_ns", "error"] for row in rows)
    assert {row["due_ns"] for row in rows} == {n * 1_000_000 for n in range(30)}
    errors = sorted({(row["end"], row["error"]) for row in rows}, key=str)
    assert errors == [
        ("ambiguous", "deadline"), ("ambiguous", "refused"), ("answered", None),
        ("failed", "deadline"), ("failed", "refused"),
    ]  # fmt: skip


def a_clients_lines():
    ends = ["answered"] * 318 + ["failed", "ambiguous"]
    rows = [{"n": n, "due_ns": n, "end": end, "waited_ns": 1, "error": None} for n, end in enumerate(ends)]
    return [*rows, {"due": 320, "answered": 318, "failed": 1, "ambiguous": 1}]


def write(case, lines):
    case.output.write_text("".join(json.dumps(line) + "\n" for line in lines))


def a_request_is_lost(lines):
    del lines[7]


def a_request_ends_twice(lines):
    lines.insert(7, lines[7])


def a_sum_is_another(lines):
    lines[-1] = lines[-1] | {"answered": 317, "failed": 2}


def more_were_due(lines):
    lines[-1] = lines[-1] | {"due": 321}


def the_last_request_was_never_asked(lines):
    del lines[-2]
    lines[-1] = lines[-1] | {"due": 319, "ambiguous": 0}


def the_client_was_killed(lines):
    del lines[-1]


@pytest.mark.parametrize(
    "wrong",
    [
        a_request_is_lost,
        a_request_ends_twice,
        a_sum_is_another,
        more_were_due,
        the_last_request_was_never_asked,
        the_client_was_killed,
    ],
)
def test_wrong_client_output_breaks_the_law(harness, tmp_path, wrong):
    case = harness.Case("steady", "pgxpool", "default", tmp_path / "client.jsonl")
    case.output.with_suffix(".err").write_text("")
    lines = a_clients_lines()
    write(case, lines)
    assert len(harness.checked(case)[0]) == 320
    wrong(lines)
    write(case, lines)
    with pytest.raises(AssertionError, match="steady pgxpool default"):
        harness.checked(case)


def test_each_library_model_uses_harness_deadline(harness):
    for library in harness.LIBRARIES:
        for settings in harness.SETTINGS:
            policy = tomllib.loads((CLIENTS / "policies" / f"{library}-{settings}.toml").read_text())
            assert policy["request"]["deadline"] == f"{harness.DEADLINE}s", library


def test_idle_limit_lies_between_cut_and_pauses(harness):
    from lab import Plan

    plan = Plan()
    assert 1 / harness.APPLICATIONS["pauses"] > plan.idle_limit > plan.cut_lasts + int(plan.idle_limit / 2)
    last = plan.cut + plan.cut_lasts + harness.DEADLINE
    assert harness.BEGIN < plan.restart < plan.cut < last < harness.BEGIN + harness.LASTS


def test_durations_are_read_as_everywhere(harness):
    from lab import seconds

    assert [seconds(text) for text in ("1m30s", "250us", "1.5s")] == [90, 250e-6, 1.5]
    with pytest.raises(harness.UnusableError, match="soon"):
        seconds("soon")


@pytest.mark.parametrize("binary", ["/nowhere/fathom", "/etc/passwd", "/bin/true"])
def test_a_wrong_binary_is_one_line(binary):
    command = [sys.executable, "-B", CLIENTS / "run.py", "--no-build"]
    environment = os.environ | {"FATHOM": binary}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(binary)
    assert line.endswith("name the binary in FATHOM")


KILLED = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import lab
lab.LEFT = Path(sys.argv[2])
with lab.lab() as made:
    made.programs.start(["sleep", "60"], stdout=-3)
    print(made.name, made.directory, *(p.pid for p in made.programs.running), flush=True)
    sys.stdin.read()
"""


def test_next_run_clears_only_killed_run(harness, tmp_path):
    """Its servers, its network and its directory, by what it wrote down."""
    need_fabrics()
    import lab
    import left

    try:
        lab.postgres_programs()
    except harness.UnusableError as error:
        pytest.skip(str(error))
    known = tmp_path / "left"

    def a_run():
        command = [sys.executable, "-c", KILLED, CLIENTS, known]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        name, directory, *pids = process.stdout.readline().split()
        return process, name, Path(directory), [int(pid) for pid in pids]

    def is_up(name):
        command = [fathom(), "fabric", "status", name]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    killed, name, directory, pids = a_run()
    killed.kill()
    killed.wait()
    killed.stdin.close()
    killed.stdout.close()
    try:
        assert all(left.began(pid) for pid in pids), "or there is nothing to clear"
        assert is_up(name)
        # Of another's process only the id is the same.
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
            (file,) = known.glob("*.jsonl")
            line = {"kind": "process", "pid": other.pid, "began": left.began(other.pid) - 1}
            with file.open("a") as out:
                out.write(json.dumps(line) + "\n")
            told = left.clear(known, fathom())
            still = left.began(other.pid)
            other.kill()
    finally:
        left.clear(known, fathom())
    assert still
    assert told == [f"a run was killed: {len(pids)} of its programs and 1 of its networks were left"]
    assert not any(left.began(pid) for pid in pids)
    assert not is_up(name)
    assert not directory.exists()
    assert list(known.iterdir()) == []


@pytest.mark.usefixtures("harness")
def test_active_run_is_not_cleared(tmp_path):
    import left

    mine = left.Left(tmp_path)
    mine.note("directory", path=str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    assert left.clear(tmp_path, "/bin/false") == []
    assert (tmp_path / "kept").exists()
    mine.done()
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.fixture
def postgres(harness):
    """A database on loopback: its port, and its first process."""
    if not (harness.BUILT / "python" / "bin" / "python").exists():
        pytest.skip("the client of SQLAlchemy is not built here (make clients)")
    from lab import postgres_programs

    try:
        programs = postgres_programs()
    except harness.UnusableError as error:
        pytest.skip(str(error))
    # Not below pytest's own directory: only root may enter that.
    home = Path(tempfile.mkdtemp(prefix="fathom-clients-"))
    as_user = []
    if os.geteuid() == 0:
        who = pwd.getpwnam("nobody")
        as_user = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", "--"]
        os.chown(home, who.pw_uid, who.pw_gid)
    data = home / "data"
    try:
        initdb = [*as_user, programs / "initdb", "-D", data, "-U", "app", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
        port = free_port()
        command = [*as_user, programs / "postgres", "-D", data, "-k", home, "-p", str(port)]
        with serving(*command) as server:
            until_it_answers([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)])
            yield port, server
            if server.poll() is None:
                server.send_signal(signal.SIGQUIT)
                server.wait(LIMIT)
    finally:
        shutil.rmtree(home)


@pytest.mark.acceptance
def test_sqlalchemy_client_keeps_totals_when_database_stops(harness, postgres):
    port, server = postgres
    python, script = harness.LIBRARIES["sqlalchemy"][1]
    command = [python, script, "--port", str(port), "--rate", "10", "--for", "3", "--settings", "advised"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        lines = [client.stdout.readline() for _ in range(5)]
        server.send_signal(signal.SIGINT)
        server.wait(LIMIT)
        lines += client.stdout.readlines()
    *rows, total = [json.loads(line) for line in lines]
    assert sorted(row["n"] for row in rows) == list(range(30))
    assert [total[end] for end in ENDS] == [sum(row["end"] == end for row in rows) for end in ENDS]
    assert total["due"] == 30
    assert total["answered"] >= 5
    refused = [row for row in rows if row["end"] == "failed" and row["error"] != "deadline"]
    assert refused, "nothing listens any more"
    assert total["library"] == "sqlalchemy"
    assert total["settings"] == "advised"
    assert total["version"].startswith("SQLAlchemy ")
