# ruff: noqa: E501 - events, one a line
"""Issue 16, row 13: text from outside (labels, paths, hosts, events, figures of others) through every command.
Nothing of it that a terminal obeys may come out, and nothing that a browser takes for markup.
"""

import json

import pytest
from markdown_it import MarkdownIt

from fathometer.clean import cleaned
from support import programs
from support.command_line import run
from support.growing import StudyDirectory
from support.hostile_recordings import TEXT, dangerous
from support.measured import Ended, measured
from support.outputs import ECHO, ECHO_LOG, ETHR_RIGHT, FLENT, IPERF3
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


@pytest.fixture
def fathom():
    return programs.fathom()


def events():
    """Every kind that holds text, and one that nobody knows."""
    because = {"because": [TEXT], "fresh": TEXT, "verdict": "unknown", "confidence": "low"}
    opened = {"target": TEXT, "local": TEXT, "remote": TEXT, "connect_ns": 1000}
    every = [
        {"kind": "note", "text": TEXT},
        {"kind": "connection.opened", "connection": 0, **opened},
        {"kind": "connection.opening", "connection": 1, "target": TEXT, "remote": TEXT, "attempt": 1},
        {"kind": "connection.refused", "connection": 1, "target": TEXT, "remote": TEXT, "error": TEXT, "errno": 111},
        {"kind": "pause", "host": "local", "duration_ns": SECOND, "reason": TEXT},
        {"kind": "maintenance", "cloud": "aws", "id": TEXT, "what": TEXT, "state": "scheduled", "notice": {TEXT: TEXT}},
        {"kind": "address.changed", "what": TEXT, "from": TEXT, "to": TEXT},
        {"kind": "echo.foreign", "connection": 0, "count": 1, "first": TEXT},
        {"kind": "stall.began", "connection": 0, "seq": 1, "outstanding": 1, "threshold_ns": SECOND},
        {"kind": "connection.explained", "connection": 0, "about": "stall", **because},
        {"kind": "stall.ended", "connection": 0, "duration_ns": 3 * SECOND, "samples": 3, "recovered": False},
        {"kind": "connection.closed", "connection": 0, "cause": "reset", "age_ns": 9 * SECOND, "verdict": TEXT,
         "errno": 104, "evidence": {"error": TEXT, TEXT: TEXT, "sent": 9, "answered": 9, "outstanding": 0}},
        {"kind": "connection.explained", "connection": 0, "about": "closing", **because},
        {"kind": "recording.overflowed", "lost": 1, "reason": TEXT},
        {"kind": TEXT, "text": TEXT},
    ]  # fmt: skip
    return [e | {"at_ns": START + (9 + n) * SECOND} for n, e in enumerate(every)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two recordings with hostile text wherever there is room for it, and whatever else a command reads."""
    root = tmp_path_factory.mktemp("text")
    path = {"from": TEXT, "to": TEXT, "via": TEXT, "tags": {TEXT: TEXT}}
    reflector = {"address": TEXT, "resolved": TEXT, "software": TEXT, "stamps": None}
    host = {"os": TEXT, "kernel": TEXT, "cpu": TEXT, "nic": {TEXT: TEXT}}
    for name, more in (("a", ""), ("b", " too")):
        manifest = {
            "label": TEXT + more,
            "path": path,
            "reflector": reflector,
            "host": host,
            "cloud": {TEXT: TEXT},
        }
        write(
            root / "r" / name,
            lognormal_ns(len(more), 400, 700 + 90 * len(more)),
            events=events(),
            manifest=manifest,
        )
    (root / "bad\x1b[31m\x9b\u202e").mkdir()
    (root / "bad\x1b[31m\x9b\u202e" / "recording.json").write_text(json.dumps({"format_version": TEXT}))
    cell = "".join(c for c in TEXT if c not in "|\r\n\x85\u2028")
    rows = "".join(f"| {cell} {n} | {100 + n} | 50 | 20 |\n" for n in range(3))
    (root / "table.md").write_text("| path | p50 | p95 | max |\n|---|---|---|---|\n" + rows)
    quoted = json.dumps(TEXT)
    (root / "study.toml").write_text(
        f"name = {quoted}\n[[scenario]]\nlabel = {quoted}\n[{quoted}]\n{quoted} = 1\n", encoding="utf-8"
    )
    study = StudyDirectory(root)
    plan = {"order": "one-by-one", "paths": [{"directory": f"label={TEXT}", "runs": 2, "run_ns": SECOND}]}
    study.note(START, "study.started", study=TEXT, runs=2, plan=plan)
    recording = study.begin(START, "label=near/run=01")
    recording.event(START + SECOND, "note", text=TEXT)
    study.note(START + 2 * SECOND, "run.failed", run=f"label={TEXT}/run=01", reason=TEXT)
    study.note(START + 3 * SECOND, "ssh.lost", host=TEXT)
    return root


IMPORTS = {
    "ethr.json": json.dumps(ETHR_RIGHT | {"Protocol": TEXT, "Time": TEXT}) + "\n",
    "iperf3.json": json.dumps(IPERF3 | {"error": TEXT}),
    "flent.json": json.dumps(FLENT | {"raw_values": {f"Ping {TEXT}": FLENT["raw_values"]["Ping (ms) ICMP"]}}),
    "broken.json": '{"irtt_version": ' + TEXT,
    "unknown.txt": TEXT,
    "cells.csv": f"send_time_ns,receive_time_ns,rtt_us\n{TEXT.split()[0]},1,2\n",
}
PYTHON = {
    "report": [
        "report",
        "r",
        "-o",
        "r.html",
        "--markdown",
        "r.md",
        "--json-file",
        "r.json",
        "--figures",
        "figures",
        "--slo",
        "p99<1us",
    ],
    "report of a rollup": ["report", "rolled", "--markdown", "-"],
    "report to a pipe": ["report", "r", "--markdown", "-"],
    "report to a program": ["report", "r", "--json"],
    "report of a bad one": ["report", "r", "bad\x1b[31m\x9b\u202e", "--json"],
    "compare": ["compare", "r/a", "r/b"],
    "compare for programs": ["compare", "r/a", "r/b", "--json"],
    "changes": ["changes", "r/a"],
    "check": ["check", "table.md"],
    "check for programs": ["check", "table.md", "--json"],
    "watch": ["study", "watch", "out"],
    "study check": ["study", "check", "study.toml"],
}
RUST = {
    "summary": ["summary", "r/a"],
    "summaries": ["summary", "--json", "r/a", "r/b"],
    "explain": ["explain", "r/a", "r/b"],
    "explain for programs": ["explain", "--json", "r/a"],
    "verify": ["verify", "r/a"],
    "verify for programs": ["verify", "--json", "r/a"],
    "recover": ["recover", "r/b"],
    "export": ["export", "r/a"],
    "echo client": ["export", "r/a", "--format", "echo-client-csv"],
    "sockperf": ["export", "r/a", "--format", "sockperf-log"],
    "latte": ["export", "r/a", "--format", "latte"],
    "psping": ["export", "r/a", "--format", "psping"],
    "summary of a bad one": ["summary", "bad\x1b[31m\x9b\u202e"],
    "verify of a bad one": ["verify", "bad\x1b[31m\x9b\u202e"],
}


def fit(name, done):
    assert done.code in {0, 1, 2, 3, 4}, (name, done.stderr)
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    for text in (done.stdout, done.stderr):
        assert dangerous(text.replace("\r\n", "\n")) == [], (name, text)


def fathometer(*words, cwd):
    done = run(*words, cwd=cwd)
    return Ended(done.returncode, done.stdout, done.stderr, 0, 0.0)


def told(done):
    return "alert(1)" in done.stdout + done.stderr


@pytest.mark.parametrize("name", PYTHON)
def test_a_command_of_the_python_half(name, place):
    if "rollup" in name:
        assert fathometer("rollup", "r", "-o", "rolled", cwd=place).code == 0
    done = fathometer(*PYTHON[name], cwd=place)
    fit(name, done)
    if name not in {"changes", "report of a bad one"}:
        assert told(done), (name, done.stdout, done.stderr)
    for file in [f for f in PYTHON[name] if f.endswith((".html", ".md", ".json")) and f != "table.md"]:
        # The runtime of the charts is no text from outside.
        shown = (place / file).read_bytes().decode().split("<script")[0]
        assert dangerous(shown) == []
        assert "alert(1)" in shown
        assert file.endswith(".json") or "<img src=x" not in _rendered(file, shown)
    if name == "report":
        for picture in (place / "figures").glob("*.svg"):
            assert dangerous(picture.read_text()) == []


def _rendered(file, text):
    return MarkdownIt("commonmark").enable("table").render(text) if file.endswith(".md") else text


@pytest.mark.parametrize("name", RUST)
def test_a_command_of_the_rust_half(name, place, fathom):
    fit(name, measured(fathom, "recording", *RUST[name], cwd=place))


def test_both_halves_clean_alike(place, fathom):
    done = measured(fathom, "recording", "summary", "r/a", cwd=place)
    assert done.stdout.startswith(cleaned(TEXT) + "  ")


@pytest.mark.parametrize("name", IMPORTS)
def test_another_tools_output(name, tmp_path):
    (tmp_path / name).write_text(IMPORTS[name])
    done = fathometer("import", name, "--record", "out", cwd=tmp_path)
    fit(name, done)
    for file in tmp_path.glob("out/**/*.json*"):
        assert dangerous(json.dumps(json.loads(file.read_text()), ensure_ascii=False)) == []


def test_the_log_of_another_tool(tmp_path, fathom):
    (tmp_path / "run.csv").write_text(ECHO)
    (tmp_path / "run.log").write_text(
        ECHO_LOG.replace("Socket timeout", TEXT.replace("\n", "").replace("\r", ""))
    )
    done = fathometer("import", "run.csv", "--record", "out", cwd=tmp_path)
    fit("import", done)
    assert done.code == 0, done.stderr
    fit("explain", measured(fathom, "recording", "explain", "out", cwd=tmp_path))


def test_the_view_of_a_study_on_a_terminal(place):
    from rich.console import Console

    from fathometer.study.live.follow import follow
    from fathometer.study.watch.table import picture

    follower = follow(place / "out")
    while follower.poll():
        pass
    board = follower.live.board(START, alive=False)
    console = Console(width=300, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(picture(board, START, 300, None, TEXT))
    assert dangerous(capture.get()) == []
    assert "owned" in capture.get()
