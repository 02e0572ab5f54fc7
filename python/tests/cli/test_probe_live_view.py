"""The live view of `fathom probe` on a terminal of its own: what its keys do, and what they do not touch."""

import json
import re
import subprocess

from support.echo import echo
from support.programs import LIMIT, fathom
from support.terminal import Screen, Terminal

COLUMNS, LINES = 120, 40


def recorded(directory):
    """What the recordings say of a run that may go on."""
    command = [fathom(), "recording", "summary", directory, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def samples(lines):
    """Of the path that is selected: what stands at the beginning of the line below its name."""
    found = re.search(r"^([0-9]+) samples?,", "\n".join(lines), re.MULTILINE)
    return int(found[1]) if found else 0


def paths(lines):
    """The paths in the order of their rows."""
    rows = (re.match(r"[> ] (localhost|127\.0\.0\.1):", line) for line in lines)
    return [row[1] for row in rows if row]


def test_sort_zoom_pause_reset_and_quit(tmp_path):
    with echo() as listening:
        port = listening["tcp"].rpartition(":")[2]
        command = [
            fathom(), "probe", f"localhost:{port}", f"127.0.0.1:{port}", "--every", "10ms",
            "--record", str(tmp_path / "recordings"),
        ]  # fmt: skip
        terminal = Terminal(command, COLUMNS, LINES)
        screen = Screen(terminal, COLUMNS, LINES)
        shown = screen.read_until(lambda lines: paths(lines) and samples(lines) > 0)
        assert paths(shown) == ["localhost", "127.0.0.1"], "as they were given"

        terminal.type(b"s")
        shown = screen.read_until(lambda lines: "by name" in lines[0])
        assert paths(shown) == ["127.0.0.1", "localhost"]
        assert any(line.startswith("> localhost:") for line in shown), "the selected path stays selected"

        screen.read_until(lambda lines: ", 1s a column" in "\n".join(lines))
        terminal.type(b"z")
        screen.read_until(lambda lines: ", 10s a column" in "\n".join(lines))

        # A picture is written from top to bottom: what stands at the bottom says that the rest is there.
        terminal.type(b"p?")
        shown = screen.read_until(lambda lines: "q, Ctrl-C: end the run" in " ".join(" ".join(lines).split()))
        assert "PAUSED, measuring goes on" in shown[0]
        for key in ("s: sort by", "z: 1 s, 10 s, 1 min a column", "p: pause", "q, Ctrl-C: end the run"):
            assert key in " ".join(" ".join(shown).split())
        still = samples(shown)
        while not all(one["samples"] > still for one in recorded(tmp_path / "recordings")):
            pass
        terminal.type(b"?")
        shown = screen.read_until(lambda lines: "begin the figures anew" not in "\n".join(lines))
        assert samples(shown) == still, "the display stands still, whatever else is drawn"
        terminal.type(b"p")
        screen.read_until(lambda lines: "PAUSED" not in lines[0] and samples(lines) > still)

        terminal.type(b"r")
        shown = screen.read_until(lambda lines: "round trips since" in "\n".join(lines))
        assert "figures since" in shown[0]
        anew = samples(shown)
        screen.read_until(lambda lines: samples(lines) > anew)
        terminal.type(b"q")
        assert terminal.end() == 0

    ended = {one["label"].rpartition(":")[0]: one for one in recorded(tmp_path / "recordings")}
    # What began anew on the screen is whole in the recording.
    assert ended["localhost"]["samples"] > still + anew
    assert ended["127.0.0.1"]["samples"] > still
    for directory in (tmp_path / "recordings").iterdir():
        command = [fathom(), "recording", "verify", directory]
        verified = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert verified.returncode == 0, verified.stdout + verified.stderr
