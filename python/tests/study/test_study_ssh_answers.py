"""Answers of hosts: what is one is read, and whatever is not is a `BadAnswer`, never another error."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.study.ssh import answers
from fathometer.study.ssh.answers import BadAnswer, RefusedByHost, State

BEGIN = b'\n{"is":"fathom-host","format":1}\n'
READERS = [
    answers.read_jobs,
    answers.read_started,
    answers.read_look,
    answers.read_said,
    answers.read_sums,
    answers.read_cleared,
    answers.read_done,
]
FILE = {"is": "file", "name": "events.jsonl", "inode": 1, "size": 5, "modified_ns": 9}
PIECE = {**FILE, "is": "piece", "offset": 2, "length": 3}
STATE = {"is": "state", "state": "running"}


def said(*lines, end=b'{"is":"end"}\n'):
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    return BEGIN + b"".join(parts) + end


def test_what_is_an_answer():
    look = answers.read_look(said(STATE, FILE, PIECE, b"cde"))
    assert (look.state, look.ended) == (State("running"), False)
    assert [(f.name, f.size, f.grows) for f in look.files] == [("events.jsonl", 5, True)]
    assert [(p.offset, p.data) for p in look.pieces] == [(2, b"cde")]
    jobs = [{"is": "job", "name": f"run,{n}", **state} for n, state in enumerate(STATES)]
    assert list(answers.read_jobs(said(*jobs)).values()) == [
        State("running"), State("exited", 3), State("killed", 9), State("expired"), State("lost")
    ]  # fmt: skip
    assert answers.read_started(said({"is": "started", "age_s": 7, "state": "lost"})) == (State("lost"), 7)
    assert answers.read_cleared(said({"is": "cleared", "processes": 2})) == 2
    answers.read_done(said())
    with pytest.raises(RefusedByHost, match=r"^no room$"):
        answers.read_done(said({"is": "error", "message": "no room"}, end=b""))
    with pytest.raises(RefusedByHost) as refused:
        answers.read_done(said({"is": "error", "message": "x" * 3000}, end=b""))
    assert len(str(refused.value)) == 400


STATES = [
    {"state": "running"},
    {"state": "exited", "code": 3},
    {"state": "killed", "signal": 9},
    {"state": "expired"},
    {"state": "lost"},
]
NAMES = [
    "../owned",
    "/tmp/owned",
    "a/b",
    "..",
    ".",
    "",
    ".lock",
    ".bashrc",
    "-rf",
    "journal.jsonl",
    "recording.json\n",
    "recording.json\0",
    "events.jsonl\u2028",
    "samples-0.parquet",
    "samples-00000.parquet/..",
    "samples-00000.parquet\x1b[2J",
    "samples-00000.parquet.tmp",
    "samples-\u0661\u0661\u0661\u0661\u0661.parquet",
    "samples-" + "0" * 300 + ".arrows",
]


@pytest.mark.parametrize("name", NAMES)
def test_invalid_file_name_is_bad_answer(name):
    lies = [
        (answers.read_look, said(STATE, {**FILE, "name": name})),
        (answers.read_look, said(STATE, {**PIECE, "name": name}, b"cde")),
        (answers.read_sums, said({"is": "sum", "name": name, "sha256": "0" * 64})),
        (answers.read_said, said({**PIECE, "name": name}, b"cde")),
    ]
    for read, lie in lies:
        with pytest.raises(BadAnswer):
            read(lie)


LIES = [
    b"",
    b"\x00\xff",
    BEGIN,
    said(STATE, end=b""),
    said(STATE, end=b'{"is":"end"}'),
    said(STATE) + b"more",
    said(STATE, STATE),
    said(FILE),
    said(STATE, FILE, FILE),
    said(STATE, {**FILE, "size": -1}),
    said(STATE, {**FILE, "size": 1 << 63}),
    said(STATE, {**FILE, "size": 1.5}),
    said(STATE, {**FILE, "size": "5"}),
    said(STATE, {**FILE, "size": None}),
    said(STATE, {**FILE, "size": True}),
    said(STATE, {**FILE, "more": 1}),
    said(STATE, b'{"is":"file","size":' + b"9" * 3000 + b"}\n"),
    said(STATE, b"[" * 4000 + b"\n"),
    said(STATE, b" " * 5000 + b"\n"),
    said(STATE, b"null\n"),
    said(STATE, b"{}\n"),
    said(STATE, b'{"is":["file"]}\n'),
    said(STATE, {**PIECE, "length": 4}, b"cdef"),
    said(STATE, {**PIECE, "length": 1 << 62}, b"cde"),
    said(STATE, {**PIECE, "name": "out"}, b"cde"),
    said({"is": "state", "state": "exited"}),
    said({"is": "state", "state": "exited", "code": 256}),
    said({"is": "state", "state": "exited", "signal": 9}),
    said({"is": "state", "state": "running", "code": 0}),
    said({"is": "state", "state": "dead"}),
    said(*[{**FILE, "name": f"samples-{n:05d}.arrows"} for n in range(10_001)]),
    b"\nfathom-host 1\n0\n",
    BEGIN.replace(b"1", b"2") + b'{"is":"end"}\n',
]


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_look(lie):
    with pytest.raises(BadAnswer):
        answers.read_look(lie)


@pytest.mark.parametrize("read", READERS)
@given(
    garbage=st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.one_of(
                st.sampled_from([FILE, PIECE, STATE, *STATES]),
                st.dictionaries(st.sampled_from(["is", "name", "size", "state"]), st.text() | st.integers()),
                st.binary(max_size=20),
            ),
            max_size=5,
        ),
    )
)
def test_any_answer_is_read_or_refused(read, garbage):
    raw = BEGIN + garbage if isinstance(garbage, bytes) else said(*garbage)
    with contextlib.suppress(BadAnswer, RefusedByHost):
        read(raw)
