"""One runner a study, and any number who look."""

import os
import subprocess
import sys
import threading

import pytest

from fathometer.errors import FathometerError
from fathometer.study.live.follow import StudyFollower
from fathometer.study.lock import LOCK, locked

BEGINNINGS = 300


def test_runner_begins_while_views_look(tmp_path):
    """A view took the lock for some microseconds to see whether a study runs; a runner that began in these
    was told that its study is being run already.
    """
    (tmp_path / LOCK).touch()
    over = threading.Event()

    def look():
        while not over.is_set():
            StudyFollower(tmp_path).alive()

    views = [threading.Thread(target=look) for _ in range(4)]
    for view in views:
        view.start()
    refused = 0
    try:
        for _ in range(BEGINNINGS):
            try:
                with locked(tmp_path):
                    pass
            except FathometerError:
                refused += 1
    finally:
        over.set()
        for view in views:
            view.join()
    assert refused == 0


def test_second_runner_is_refused(tmp_path):
    with locked(tmp_path):
        assert StudyFollower(tmp_path).alive()
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
        with pytest.raises(FathometerError, match="is being run already"), locked(tmp_path):
            pass
        # Who was refused leaves the lock, and the name in it, as they were.
        assert StudyFollower(tmp_path).alive()
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
    assert not StudyFollower(tmp_path).alive()


def test_killed_runner_frees_the_lock(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from fathometer.study.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout.readline() == "held\n"
        assert StudyFollower(tmp_path).alive()
        with pytest.raises(FathometerError, match="is being run already"), locked(tmp_path):
            pass
        runner.kill()
        runner.wait()
    assert not StudyFollower(tmp_path).alive()
    with locked(tmp_path):
        pass


def test_reader_without_write_access_may_look(tmp_path):
    with locked(tmp_path):
        (tmp_path / LOCK).chmod(0o444)
        assert StudyFollower(tmp_path).alive()


def test_directory_without_lock_is_free(tmp_path):
    assert not StudyFollower(tmp_path).alive()
    assert not StudyFollower(tmp_path / "nowhere").alive()
