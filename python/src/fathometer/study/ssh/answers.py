"""What a host answers, read strictly, and here alone. The protocol is written down in ``crates/fathom-host``.

A host may have been taken over by somebody else, so nothing in its answers is believed: a name must be one
that a recording's file has, a number one that it can be, a line one that the protocol knows. Whatever is not
is a `BadAnswer`, which becomes one line that names the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fathometer.counts import count
from fathometer.study.hosts import MOST_WORDS

FORMAT: Final = 1
OPEN_SEGMENT: Final = ".arrows"
_BEGIN: Final = b'\n{"is":"fathom-host","format":%d}\n' % FORMAT
_LONGEST_LINE: Final = 4096
_MOST_LINES: Final = 10_000
"""An answer's lines; an eleven-hour recording has some dozens of files."""
_RECORDING_FILE: Final = r"^(recording\.json|events\.jsonl|samples-[0-9]{5,12}\.(parquet|arrows))$"
_JOB: Final = r"^[A-Za-z0-9][A-Za-z0-9_.,=-]*$"


class BadAnswer(ValueError):  # noqa: N818 - that is what it is
    """An answer that is none, and why. Not cleaned: `FathometerError` does that for all text."""


class RefusedByHost(Exception):  # noqa: N818
    """What the host says that it could not do."""


@dataclass(frozen=True)
class State:
    """How a job is, or how it ended."""

    name: str
    """``running``, ``exited``, ``killed`` (by a signal), ``expired``, ``lost`` (it ended without a word)."""
    number: int | None = None
    """The exit code, or the signal."""

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self.name == "running"

    @property
    def succeeded(self) -> bool:
        """It ended by itself, and well."""
        return self == State("exited", 0)

    def __str__(self) -> str:
        words = {
            "running": "it runs",
            "exited": f"exit code {self.number}",
            "killed": f"killed by signal {self.number}",
            "expired": "its time limit ran out",
        }
        return words.get(self.name, "its supervisor was killed, or the host was restarted")


@dataclass(frozen=True)
class Seen:
    """A file as a host told of it."""

    name: str
    inode: int
    size: int
    modified_ns: int

    @property
    def grows(self) -> bool:
        """It is only ever appended to."""
        from fathometer.dataset.format import EVENTS  # only who fetches recordings pays for it

        return self.name == EVENTS or self.name.endswith(OPEN_SEGMENT)

    @property
    def identity(self) -> tuple[int, ...]:
        """What stays while it is the same file."""
        return (self.inode,) if self.grows else (self.inode, self.size, self.modified_ns)


@dataclass(frozen=True)
class FilePiece:
    """Bytes of a file."""

    file: Seen
    offset: int
    data: bytes


@dataclass(frozen=True)
class Look:
    """A job's state, and its recording's files."""

    state: State
    files: tuple[Seen, ...]
    pieces: tuple[FilePiece, ...]

    @property
    def ended(self) -> bool:
        """Nothing comes any more."""
        return not self.state.running


@dataclass(frozen=True)
class Said:
    """What a job wrote, the last of it."""

    out: str
    err: str


_Natural = Annotated[int, Field(ge=0, lt=1 << 63)]
_File = Annotated[str, Field(pattern=_RECORDING_FILE)]
_StateName = Literal["running", "exited", "killed", "expired", "lost"]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _OfState(_Line):
    state: _StateName
    code: Annotated[int, Field(ge=0, le=255)] | None = None
    signal: Annotated[int, Field(ge=1, le=127)] | None = None

    def taken(self) -> State:
        wanted = {"exited": {"code"}, "killed": {"signal"}}.get(self.state, set())
        if {name for name in ("code", "signal") if getattr(self, name) is not None} != wanted:
            raise BadAnswer(f"the state {self.state} does not go with its numbers")
        return State(self.state, self.signal if self.code is None else self.code)


class _JobLine(_OfState):
    is_: Literal["job"] = Field(alias="is")
    name: Annotated[str, Field(pattern=_JOB, max_length=255)]


class _StateLine(_OfState):
    is_: Literal["state"] = Field(alias="is")


class _StartedLine(_OfState):
    is_: Literal["started"] = Field(alias="is")
    age_s: _Natural


class _OfFile(_Line):
    inode: _Natural
    size: _Natural
    modified_ns: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]


class _FileLine(_OfFile):
    is_: Literal["file"] = Field(alias="is")
    name: _File


class _PieceLine(_OfFile):
    is_: Literal["piece"] = Field(alias="is")
    name: _File | Literal["out", "err"]
    offset: _Natural
    length: _Natural


class _SumLine(_Line):
    is_: Literal["sum"] = Field(alias="is")
    name: _File
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _ClearedLine(_Line):
    is_: Literal["cleared"] = Field(alias="is")
    processes: _Natural


class _ErrorLine(_Line):
    is_: Literal["error"] = Field(alias="is")
    message: str


class _EndLine(_Line):
    is_: Literal["end"] = Field(alias="is")


_Lines = (
    _JobLine
    | _StateLine
    | _StartedLine
    | _FileLine
    | _PieceLine
    | _SumLine
    | _ClearedLine
    | _ErrorLine
    | _EndLine
)
_ANY: Final[TypeAdapter[_Lines]] = TypeAdapter(Annotated[_Lines, Field(discriminator="is_")])


def begun(output: bytes) -> bool:
    """Whether an answer begins there; before it a login shell may have said other things."""
    return _BEGIN in output


def _read(output: bytes) -> Iterator[tuple[Any, bytes]]:
    """The lines of an answer, each with the bytes that belong to it. Raises `BadAnswer` and, when all is
    read, `RefusedByHost`.
    """
    at = output.find(_BEGIN) + len(_BEGIN)
    if at < len(_BEGIN):
        raise BadAnswer("it does not begin")
    for _ in range(_MOST_LINES):
        end = output.find(b"\n", at, at + _LONGEST_LINE)
        if end < 0:
            raise BadAnswer("it is cut" if len(output) - at < _LONGEST_LINE else "a line is too long")
        line = _line(output[at:end])
        at = end + 1
        if isinstance(line, _EndLine | _ErrorLine):
            if at != len(output):
                raise BadAnswer("it goes on after its end")
            if isinstance(line, _ErrorLine):
                raise RefusedByHost(line.message[:MOST_WORDS])
            return
        length = line.length if isinstance(line, _PieceLine) else 0
        if length > len(output) - at:
            raise BadAnswer(f"{line.name} is cut" if isinstance(line, _PieceLine) else "it is cut")
        yield line, output[at : at + length]
        at += length
    raise BadAnswer(f"it has more than {_MOST_LINES:,} lines")


def _line(raw: bytes) -> _Lines:
    try:
        return _ANY.validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        shown = raw[:60].decode(errors="replace")
        # Names and values of the line stand in it, and a line is long.
        what = f"{where or 'a line'}: {first['msg']}"[:MOST_WORDS]
        raise BadAnswer(f"{what} ({shown})") from None


def _all(output: bytes, *kinds: type[_Line]) -> list[tuple[Any, bytes]]:
    """The lines, which must be of these kinds."""
    lines = list(_read(output))
    for line, _ in lines:
        if not isinstance(line, kinds):
            raise BadAnswer(f"it has a line that answers something else ({line.is_})")
    return lines


def _one(output: bytes, kind: type[_Line]) -> Any:  # noqa: ANN401 - one of the lines
    lines = _all(output, kind)
    if len(lines) != 1:
        raise BadAnswer(f"it has {count(len(lines), 'line')} instead of one")
    return lines[0][0]


def read_jobs(output: bytes) -> dict[str, State]:
    """The answer to `hello`: what the study left there, by name."""
    return {line.name: line.taken() for line, _ in _all(output, _JobLine)}


def read_started(output: bytes) -> tuple[State, int]:
    """The answer to `start`: the job's state, and its age in seconds."""
    line = _one(output, _StartedLine)
    return line.taken(), line.age_s


def read_look(output: bytes) -> Look:
    """The answer to `look`."""
    (first, *rest) = _all(output, _StateLine, _FileLine, _PieceLine) or [(None, b"")]
    if not isinstance(first[0], _StateLine) or any(isinstance(line, _StateLine) for line, _ in rest):
        raise BadAnswer("it does not begin with the one state")
    files = tuple(_seen(line) for line, _ in rest if isinstance(line, _FileLine))
    pieces = tuple(_piece(line, data) for line, data in rest if isinstance(line, _PieceLine))
    if len({f.name for f in files}) != len(files):
        raise BadAnswer("it names a file twice")
    if any(p.file.name in {"out", "err"} for p in pieces):
        raise BadAnswer("it has bytes of no recording's file")
    return Look(first[0].taken(), files, pieces)


def read_said(output: bytes) -> Said:
    """The answer to `said`."""
    texts = {line.name: data.decode(errors="replace") for line, data in _all(output, _PieceLine)}
    if not texts.keys() <= {"out", "err"}:
        raise BadAnswer("it has bytes of something else")
    return Said(texts.get("out", ""), texts.get("err", ""))


def read_sums(output: bytes) -> dict[str, str]:
    """The answer to `sums`: the SHA-256 of files by name."""
    return {line.name: line.sha256 for line, _ in _all(output, _SumLine)}


def read_cleared(output: bytes) -> int:
    """The answer to `clear`: how many processes were ended."""
    processes: int = _one(output, _ClearedLine).processes
    return processes


def read_done(output: bytes) -> None:
    """The answer to `drop`: that it is done."""
    _all(output)


def _seen(line: _FileLine | _PieceLine) -> Seen:
    return Seen(line.name, line.inode, line.size, line.modified_ns)


def _piece(line: _PieceLine, data: bytes) -> FilePiece:
    if line.offset + len(data) > line.size:
        raise BadAnswer(f"{line.name} has more bytes than its size")
    return FilePiece(_seen(line), line.offset, data)


_SHELL: Final = b"\nfathom-shell 1\n"
_MACHINE: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_FREE: Final = re.compile(r".*\s\d+\s+\d+\s+(\d{1,18})\s+(?:\d+%|-)\s.*")
"""A line of ``df -P``: blocks, used, available, capacity (POSIX, df, "STDOUT")."""


@dataclass(frozen=True)
class Greeting:
    """What a host says of itself before it has a binary."""

    system: str
    """``uname -s``."""
    machine: str
    """``uname -m``."""
    free_kib: int
    """That a user may still write where binaries are."""
    sha256: str | None
    """Of the binary that is there; None: there is none."""


def shell_answer(output: bytes) -> bytes | None:
    """What the shell's lines said; None: they were not run."""
    _, found, rest = output.partition(_SHELL)
    return rest if found else None


def read_greeting(answer: bytes) -> Greeting:
    """The answer to ``shell.GREET``."""
    if len(answer) > _LONGEST_LINE:
        raise BadAnswer("it is too long")
    lines = answer.decode(errors="replace").splitlines()
    for word in lines[:2]:
        if not _MACHINE.fullmatch(word):
            raise BadAnswer(f"it is a machine of {word[:40]!r}")
    if lines[:1] not in ([], ["Linux"]):
        return Greeting(lines[0], "", 0, None)
    free = _FREE.fullmatch(lines[2]) if len(lines) == 4 else None
    sha256 = lines[3][:64] if free else ""
    if free is None or not re.fullmatch(r"[0-9a-f]{64}|none", sha256):
        raise BadAnswer("it does not say how much room there is, and which binary")
    return Greeting(lines[0], lines[1], int(free[1]), None if sha256 == "none" else sha256)
