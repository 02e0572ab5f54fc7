"""Files that only their owner reads, and that no link of another account can redirect."""

import asyncio
import os
import stat

import pytest

from fathometer.study.journal import Journal
from fathometer.study.lock import locked
from fathometer.study.processes import Processes
from fathometer.writing import append_to, create, make_directories, replace
from support.command_line import run
from support.recordings import lognormal_ns, write

NOBODY = 65534


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def precious(tmp_path):
    file = tmp_path / "precious"
    file.write_text("untouched")
    yield file
    assert file.read_text() == "untouched"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def all_private(directory):
    """Asserts that only the owner reads anything below a directory."""
    below = sorted(directory.rglob("*"))
    assert below
    assert {p.name: oct(mode(p)) for p in below if mode(p) & 0o077} == {}


def test_replaced_file_is_whole_and_private(tmp_path):
    file = tmp_path / "file"
    for content in (b"first", b"second, and longer", b""):
        replace(file, content)
        assert file.read_bytes() == content
    assert mode(file) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_shared_file_keeps_its_mode(tmp_path):
    file = tmp_path / "page.html"
    replace(file, b"one", shared=True)
    assert mode(file) == 0o644
    file.chmod(0o664)
    replace(file, b"two", shared=True, sync=True)
    assert (mode(file), file.read_bytes()) == (0o664, b"two")


@pytest.mark.parametrize("write_to", [create, append_to])
def test_planted_link_is_not_followed(tmp_path, precious, write_to):
    (tmp_path / "link").symlink_to(precious)
    with pytest.raises(OSError, match="link"):
        write_to(tmp_path / "link")


def test_own_link_stays_and_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("target")
    replace(tmp_path / "link", b"text")
    assert (tmp_path / "target").read_bytes() == b"text"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another account")
@pytest.mark.parametrize("command", ["page", "port file"])
def test_link_of_another_account_is_refused(tmp_path, precious, command):
    """The link's owner chose the file that the report replaced."""
    link = tmp_path / "planted"
    link.symlink_to(precious)
    os.lchown(link, NOBODY, NOBODY)
    if command == "page":
        write(tmp_path / "r", lognormal_ns(1, 200))
        done = run("report", tmp_path / "r", "-o", link)
        assert (done.returncode, "it is a link of another account" in done.stderr) == (1, True)
    else:
        with pytest.raises(PermissionError, match="another account"):
            replace(link, b"1", shared=True)


def test_imports_and_rollups_are_private(tmp_path):
    (tmp_path / "trace.csv").write_text("time,rtt\n" + "".join(f"{1.7e9 + n},1.5\n" for n in range(50)))
    options = ("--time", "time", "--rtt", "rtt", "--unit", "ms", "--record", tmp_path / "in")
    done = run("import", tmp_path / "trace.csv", *options)
    assert done.returncode == 0, done.stderr
    all_private(tmp_path / "in")
    assert run("rollup", tmp_path / "in", "--output", tmp_path / "rolled").returncode == 0
    all_private(tmp_path / "rolled")


def test_study_files_are_private(tmp_path):
    """In a directory that was there, and that others look into."""
    study = tmp_path / "study"
    study.mkdir(mode=0o755)
    with locked(study):
        journal = Journal(study)
        journal.note("study.started")
        journal.close()

        async def one():
            process = await Processes("id").start(["sh", "-c", "echo said >&2"], stderr=study / "probe.log")
            await process.wait()

        asyncio.run(one())
        make_directories(study / ".unfinished" / "label=a" / "run=01")
    assert (study / "probe.log").read_text() == "said\n"
    all_private(study)
