"""A study on a terminal, and in plain lines."""

import contextlib
import io
import os
import re
import signal

import pytest
from rich.console import Console

from fathometer.study.journal import read_journal
from fathometer.study.live.board import Board, BoardRow
from fathometer.study.live.follow import StudyFollower
from fathometer.study.live.happenings import Happening
from fathometer.study.lock import locked
from fathometer.study.watch.table import picture
from fathometer.study.watch.terminal import _drawing
from fathometer.study.watch.words import line, progress
from support.command_line import run as command
from support.growing import StudyDirectory
from support.recordings import START
from support.terminal import CURSOR_OFF, CURSOR_ON, OTHER_PAGE, OWN_PAGE, Terminal
from support.watched import PROGRAM, run_command, running, study_file

SECOND = 1_000_000_000
SHORT = {"probe": "every = '5ms'\ncount = 10", "top": "repetitions = 2"}


def row(number, state="waiting", **more):
    fields = {
        "directory": f"label=a-scenario-of-some-length-{number:02}",
        "state": state,
        "done": 3,
        "of": 20,
        "failed": 0,
        "within": 0.5 if state in {"running", "stalled"} else None,
        "count": 123_456,
        "unanswered": 7,
        "last_ns": 1_234_567,
        "p50_ns": 999_600,
        "p99_ns": None,
        "happened": Happening(
            START, "note", None, None, "something of many words that goes on and on", "warn"
        ),
        "short_pauses": 0,
        "longest_short_ns": 0,
    }
    return BoardRow(**{**fields, **more})


def board(rows, state="running", **more):
    told = tuple(
        Happening(START + i * SECOND, "note", "label=x", "run=01", f"told {i}", "bad") for i in range(9)
    )
    fields = {
        "study": "a-study",
        "state": state,
        "rows": tuple(rows),
        "happenings": told,
        "done": 7,
        "of": 40,
        "failed": 1,
        "share": 0.2,
        "began_ns": START,
        "ended_ns": None,
        "left_ns": 90 * SECOND,
        "hours": False,
    }
    return Board(**{**fields, **more})


def drawn(shown, width, height):
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    console.print(picture(shown, START + 60 * SECOND, width, height, "words of the runner " * 9))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("height", [10, 24, 60])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_picture_fits_the_screen(width, height, count):
    states = ["running", "stalled", "waiting", "finished"]
    lines = drawn(board(row(i, states[i % 4]) for i in range(count)), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    # However narrow: which scenario, how far, its round trips, its state.
    found = next(li for li in lines if li.startswith("a-sc"))
    assert re.search(r"(running|stalled)", found)
    assert re.search(r"3/20 .*1\.23 ms +1\.00 ms +– ", found)
    assert "7 of 40 runs, 1 failed, about 1 min 30 s left, until 00:02" in text or width < 60


def test_small_screen_shows_active_rows():
    states = {20: "running", 37: "stalled"}
    rows = [row(i, states.get(i, "waiting"), directory=f"label=s-{i:02}") for i in range(40)]
    lines = drawn(board(rows), 80, 16)
    shown = [i for i in range(40) if any(f"-{i:02} " in li for li in lines)]
    # In their order, though the stalled one was chosen first.
    assert shown == [0, 1, 2, 3, 20, 37]
    assert any(li.startswith("and 3") and li.endswith("waiting") for li in lines)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "7 of 40 runs, 1 failed, about 1 min 30 s left, until 00:02 UTC"),
        ({"failed": 0, "hours": True}, "7 of 40 runs, about 1 min 30 s left, and the waits for its hours"),
        (
            {"left_ns": 12 * 86_400 * SECOND},
            "7 of 40 runs, 1 failed, about 12 d 0 h left, until Tue 01 Apr 00:01 UTC",
        ),
        (
            {"state": "gone", "failed": 0},
            "7 of 40 runs, its runner is gone; the same `fathom study run` goes on",
        ),
        (
            {"state": "finished", "ended_ns": START + 61 * SECOND, "failed": 0},
            "7 of 40 runs, took 1 min 1 s",
        ),
    ],
)
def test_progress_in_words(more, words):
    assert progress(board([], **more), START + 60 * SECOND) == words


def test_a_plain_line():
    told = Happening(START + 61 * SECOND, "pause", "label=a/size=64", "run=07", "pause", "warn")
    assert line(told) == "00:01:01  a  64 B  run 07: pause"


def test_without_terminal_study_prints_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    run = run_command(tmp_path, study_file(tmp_path, **SHORT))[len(PROGRAM) :]
    done = command(*run)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'out'}\n"
    err = done.stderr
    assert "\x1b" not in err
    # Each run begins before it ends, in the order of the journal.
    entries = [e for e in read_journal(tmp_path / "out") if e["kind"] in {"run.started", "run.finished"}]
    assert len(entries) == 8
    said = [li for li in err.splitlines() if li.endswith("begins") or re.match(r"\[\d/4\]", li)]
    assert len(said) == 8
    for entry, words in zip(entries, said, strict=True):
        label, number = re.match(r"label=(\w+)/run=(\d+)", entry["run"]).groups()
        assert f"{label}  run {number}: begins" in words or f"round {int(number)}/2  {label} " in words
        assert words.endswith("begins") == (entry["kind"] == "run.started")
    # What is over is told from the beginning, with its table.
    watched = command("study", "watch", tmp_path / "out")
    assert (watched.returncode, watched.stderr) == (0, "")
    assert [li.endswith("begins") for li in watched.stdout.splitlines()[1:9]] == [
        e["kind"] == "run.started" for e in entries
    ]
    assert re.search(r"^near +2/2 .* finished", watched.stdout, re.MULTILINE)
    # A study that goes on does not tell again what it told.
    again = command(*run)
    assert again.returncode == 0
    assert "begins" not in again.stderr


def test_missing_study_is_one_line(tmp_path):
    done = command("study", "watch", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"fathometer: cannot watch a study: {tmp_path} holds no study; ")


def shows(word):
    return lambda lines: any(word in li for li in lines)


def restored(written):
    """Whether the terminal was left as it was found: its own page, and a cursor."""
    pages = written.rfind(OTHER_PAGE) < written.rfind(OWN_PAGE)
    return pages and written.rfind(CURSOR_OFF) < written.rfind(CURSOR_ON)


def test_finished_study_leaves_its_last_picture(tmp_path):
    terminal = Terminal(run_command(tmp_path, study_file(tmp_path, **SHORT)), 80, 24)
    assert terminal.end() == 0
    assert restored(terminal.written)
    # The result comes after the picture.
    left = terminal.left()
    assert sum(bool(re.search(r"^(near|far) +2/2 .* finished", li)) for li in left) == 2
    assert left[-1] == str(tmp_path / "out")


def test_running_study_is_resized_and_interrupted(tmp_path):
    terminal = Terminal(run_command(tmp_path, study_file(tmp_path)), 120, 30)
    # The first picture may come before the plan, and have no rows.
    seen = terminal.read_until(lambda lines: any(re.search(r"0/20 .*[µm]s .* running", li) for li in lines))
    assert seen[0].startswith("watched  running")
    assert shows("0 of 40 runs, about ")(seen)
    assert shows("last event")(seen)
    assert max(map(len, seen)) <= 120
    assert len(seen) <= 30
    terminal.resize(60, 15)
    narrow = terminal.read_until(lambda lines: shows("near")(lines) and not shows("last event")(lines))
    assert max(map(len, narrow)) <= 60
    assert len(narrow) <= 15
    terminal.type(b"\x03")
    assert terminal.end() == 1
    assert restored(terminal.written)
    said = " ".join(terminal.left())
    assert "watched  interrupted" in said
    assert "the same command goes on from there" in said


def test_ended_view_leaves_the_study_running(tmp_path):
    with running(tmp_path) as study:
        terminal = Terminal([*PROGRAM, "study", "watch", str(tmp_path / "out")], 80, 24)
        terminal.read_until(shows("running"))
        terminal.type(b"\x03")
        assert terminal.end() == 0
        assert restored(terminal.written)
        assert study.poll() is None
        assert read_journal(tmp_path / "out")[-1]["kind"] == "run.started"


@pytest.fixture
def held(tmp_path):
    """A study that this process seems to run; what lets it go."""
    study = StudyDirectory(tmp_path)
    paths = [{"directory": "label=near", "runs": 2, "run_ns": 600 * SECOND}]
    study.note(START, "study.started", study="s", runs=2, plan={"order": "one-by-one", "paths": paths})
    study.begin(START, "label=near/run=01").samples([10**6] * 10)
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(study.output))
        yield study, stack.close


@pytest.fixture
def view(held):
    """The command line of its view."""
    return [*PROGRAM, "study", "watch", str(held[0].output)]


def test_watch_prints_lines_until_the_end(held, monkeypatch):
    study, let_go = held
    looks = []

    def between_looks(_):
        looks.append(study)
        if len(looks) == 2:
            study.note(START + 90 * SECOND, "study.interrupted", reason="interrupted after 0 of 2 runs")
            let_go()

    monkeypatch.setattr("fathometer.study.watch.terminal.time.sleep", between_looks)
    done = command("study", "watch", study.output)
    assert (done.returncode, done.stderr) == (1, "")
    assert len(looks) == 2
    assert re.search(r"near  run 01: begins$", done.stdout, re.MULTILINE)
    assert "interrupted after 0 of 2 runs" in done.stdout
    assert re.search(r"^near .* interrupted", done.stdout, re.MULTILINE)


def test_view_is_put_aside_and_resumed(view):
    terminal = Terminal(view, 80, 24)
    terminal.read_until(shows("running"))
    terminal.type(b"\x1a")
    assert os.WIFSTOPPED(os.waitpid(terminal.pid, os.WUNTRACED)[1])
    before = terminal.read_all()
    assert restored(before)
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.read_until(lambda _: OTHER_PAGE in terminal.written[len(before) :])
    terminal.type(b"\x03")
    assert terminal.end() == 0
    assert restored(terminal.written)


@pytest.mark.parametrize("time", [1, 2])
def test_ctrl_c_while_the_terminal_is_taken(tmp_path, monkeypatch, time):
    """The first time, or after Ctrl-Z. The interrupt came after the switch to the other page and before the
    screen was known to have begun, so nothing switched back."""
    written, taken = io.StringIO(), []
    console = Console(file=written, force_terminal=True)
    take = console.set_alt_screen

    def interrupted(enable=True):
        changed = take(enable)
        taken.extend([enable] * enable)
        if enable and len(taken) == time:
            signal.raise_signal(signal.SIGINT)
        return changed

    monkeypatch.setattr(console, "set_alt_screen", interrupted)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    # Spark, where a test of it ran in this process, left its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            _drawing(console, StudyFollower(tmp_path), "", own=True) as drawing,
        ):
            drawing.suspend()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(taken) == time
    assert restored(written.getvalue().encode())


@pytest.mark.parametrize("ignored", [True, pytest.param(False, marks=pytest.mark.acceptance)])
def test_view_ends_with_its_terminal(view, ignored):
    """SSH was cut: a view read the end of its terminal at full speed, for ever."""
    # With the hang-up ignored too: then nothing but the terminal itself tells.
    nohup = ["env", "--ignore-signal=HUP"] if ignored else []
    terminal = Terminal([*nohup, *view], 100, 30)
    terminal.read_until(shows("running"))
    terminal.go_away()
    assert terminal.ended() in {0, 1, -signal.SIGHUP, 128 + signal.SIGHUP}
