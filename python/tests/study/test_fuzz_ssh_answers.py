"""What a host that was taken over may answer: it is read, or refused in a line, and writes no other file.

A few seconds in `make test`; FATHOM_FUZZ_SECONDS goes on for so long with each (`make fuzz-python`). What was
found stays in `tests/corpora/ssh`.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from fathometer.errors import FathometerError
from fathometer.study.model import SshHost
from fathometer.study.ssh import answers
from fathometer.study.ssh.answers import BadAnswer, RefusedByHost
from fathometer.study.ssh.mirror import Mirror
from fathometer.study.ssh.trouble import HostError, explain
from support.damage_text import each_of, told_well

CORPORA = Path(__file__).parents[1] / "corpora" / "ssh"
FILES = re.compile(r"\.?(recording\.json|events\.jsonl|samples-[0-9]{5,12}\.(parquet|arrows))(\.part)?")
MOST_BYTES = 1 << 16


def said(*lines):
    begin = '\n{"is":"fathom-host","format":1}\n'
    text = "".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in (begin, *lines, {"is": "end"}))
    return text.encode()


def file(name, size=5, inode=1):
    return {"is": "file", "name": name, "inode": inode, "size": size, "modified_ns": 9}


def piece(name, offset, length, size=5, inode=1):
    return {**file(name, size, inode), "is": "piece", "offset": offset, "length": length}


LOOKS = [
    said({"is": "state", "state": "running"}, file("events.jsonl"), piece("events.jsonl", 0, 5), "abcde"),
    said(
        {"is": "state", "state": "running"},
        file("recording.json"),
        file("samples-00000.arrows", 9, 2),
        piece("recording.json", 0, 5),
        "{   }",
        piece("samples-00000.arrows", 0, 4, 9, 2),
        "wxyz",
    ),
    said(
        {"is": "state", "state": "exited", "code": 0},
        file("samples-00000.parquet", 4, 3),
        piece("samples-00000.parquet", 0, 4, 4, 3),
        "PAR1",
    ),
]
OTHERS = {
    answers.read_jobs: [
        said({"is": "job", "name": "run,1", "state": "running"}),
        said({"is": "job", "name": "run,2", "state": "killed", "signal": 9}),
    ],
    answers.read_started: [said({"is": "started", "age_s": 7, "state": "expired"})],
    answers.read_said: [said(piece("out", 0, 3), "abc", piece("err", 0, 2), "\x1b[")],
    answers.read_sums: [said({"is": "sum", "name": "events.jsonl", "sha256": "0" * 64})],
    answers.read_cleared: [said({"is": "cleared", "processes": 2})],
    answers.read_done: [
        said(),
        said().replace(b'{"is": "end"}', b'{"is": "error", "message": "no room"}'),
    ],
    answers.read_greeting: [
        b"Linux\nx86_64\n/dev/sda1 100 10 90 10% /\nnone\n",
        b"Linux\naarch64\n/dev/sda1 100 10 90 10% /home\n" + b"0" * 64 + b"\n",
    ],
}
TROUBLE = [
    b"No ED25519 host key is known for [h.example]:2222 and you have requested strict checking.\n",
    b"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key for h.example has changed\n",
    b"me@h.example: Permission denied (publickey,password).\n",
    b"ssh: Could not resolve hostname h.example: Name or service not known\n",
    b"Connection to h.example closed by remote host.\n",
]


def read_or_refused(read, data):
    """What is read, or None: it is refused, in a line as it is shown to people."""
    try:
        return read(data)
    except (BadAnswer, RefusedByHost) as error:
        shown = str(HostError("use a host", f'host "b": its answer is not understood ({error})', "update it"))
    assert told_well(shown)
    return None


def mirrored(data, home):
    """Takes one look after another into a directory, beside which is a file that is none of the host's."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / "mine").write_text("untouched")
    directory = home / "r"
    directory.mkdir()
    for name in ("events.jsonl", "samples-00000.arrows"):
        (directory / name).symlink_to(home / "mine")
    mirror = Mirror(directory, MOST_BYTES)
    for _ in range(3):
        look = read_or_refused(answers.read_look, data)
        if look is None:
            break
        assert all(FILES.fullmatch(f.name) for f in look.files)
        assert all(FILES.fullmatch(p.file.name) for p in look.pieces)
        refused = None
        try:
            mirror.take(look, MOST_BYTES)
        except BadAnswer as error:
            refused = str(HostError("copy a recording", str(error), "see what it does"))
        except FathometerError as error:
            refused = str(error)
        if refused is not None:
            assert told_well(refused)
            break
        assert all(offset >= 0 for _, offset in mirror.wants())
    assert (home / "mine").read_text() == "untouched"
    assert {p.name for p in home.iterdir()} == {"mine", "r"}
    for path in directory.iterdir():
        assert FILES.fullmatch(path.name)
        assert path.is_symlink() or path.stat().st_size <= MOST_BYTES


def test_a_look_is_mirrored_or_refused(tmp_path):
    each_of(LOOKS, lambda data: mirrored(data, tmp_path / "home"), examples=60)


@pytest.mark.parametrize("read", OTHERS, ids=lambda read: read.__name__)
def test_an_answer_is_read_or_refused(read):
    each_of(OTHERS[read], lambda data: read_or_refused(read, data), examples=60)


def told_in_a_line(data):
    error = explain("b", SshHost(address="h.example"), data.decode(errors="replace"))
    assert isinstance(error, HostError)
    assert told_well(str(error))
    assert 'host "b"' in str(error)


def test_ssh_error_becomes_one_line():
    each_of(TROUBLE, told_in_a_line, examples=60)


@pytest.mark.parametrize("path", sorted(CORPORA.iterdir()), ids=lambda p: p.name)
def test_earlier_findings_stay_fixed(path, tmp_path):
    data = path.read_bytes()
    mirrored(data, tmp_path / "home")
    told_in_a_line(data)
    for read in OTHERS:
        read_or_refused(read, data)
