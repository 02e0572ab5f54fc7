"""Issue 15, Pipes: as root `report -o /dev/null` replaced the device by a file, and a symlink was replaced
instead of what it leads to.
"""

import os
import stat
import threading
from pathlib import Path

import pytest

from support.command_line import run
from support.recordings import lognormal_ns, write


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return write(tmp_path_factory.mktemp("one") / "r", lognormal_ns(1, 300, 500), label="near")


def test_a_pipe_is_written_through_and_stays_one(recording, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = []
    # Opened for both, so that neither side waits for the other to open.
    end = os.open(pipe, os.O_RDWR)

    def drain():
        while not content or not content[-1].endswith(b"\0"):
            content.append(os.read(end, 1 << 20))

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    ran = run("report", recording, "-o", pipe, cwd=tmp_path)
    # What no page holds: our end of it, as long as it is open, would never see the other one's.
    os.write(end, b"\0")
    reader.join(30)
    os.close(end)
    assert ran.returncode == 0, ran.stderr
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    page = b"".join(content)
    assert page.startswith(b"<!doctype html>")
    assert page.endswith(b"</html>\0")


def test_a_device_stays_a_device(recording, tmp_path):
    before = Path("/dev/null").stat()
    ran = run("report", recording, "-o", "/dev/null", "--markdown", "/dev/null", cwd=tmp_path)
    after = Path("/dev/null").stat()
    assert ran.returncode == 0, ran.stderr
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)


def test_a_full_device_is_one_line(recording, tmp_path):
    ran = run("report", recording, "-o", "/dev/full", cwd=tmp_path)
    assert ran.returncode == 1
    assert "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_symlink_is_followed(recording, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "page.html").write_text("old")
    (tmp_path / "kept" / "page.html").chmod(0o640)
    (tmp_path / "link.html").symlink_to("kept/page.html")
    (tmp_path / "new.md").symlink_to("kept/new.md")
    ran = run("report", recording, "-o", "link.html", "--markdown", "new.md", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "kept" / "page.html").read_text().startswith("<!doctype html>")
    assert stat.S_IMODE((tmp_path / "kept" / "page.html").stat().st_mode) == 0o640
    assert (tmp_path / "kept" / "new.md").read_text().startswith("# ")
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "no/such/r.html"),
        ("--json-file", "no/such/r.json"),
        ("--markdown", "no/r.md"),
        ("--figures", "no/f"),
    ],
)
def test_missing_output_directory_is_an_error(recording, tmp_path, options):
    ran = run("report", recording, *options, cwd=tmp_path)
    assert ran.returncode == 1
    assert f"cannot write: {options[1]}: No such file or directory" in ran.stderr.replace("\n", " ")
    assert not (tmp_path / "no").exists()


def test_symlink_loop_fails_without_traceback(recording, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    ran = run("report", recording, "-o", "a", cwd=tmp_path)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
