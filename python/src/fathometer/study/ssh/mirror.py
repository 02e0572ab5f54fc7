"""A recording that grows on a host, here: only what is new is fetched, so that a live view sees it grow.

Files that grow (events, the open segment) are fetched from where they ended; others (the manifest, closed
segments) take their place at once when they are whole. A file's inode, size and time tell whether it is still
the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fathometer.dataset.format import EVENTS, LOCK
from fathometer.errors import FathometerError

_PART: Final = ".part"
OPEN_SEGMENT: Final = ".arrows"


@dataclass(frozen=True)
class Seen:
    """A file as a host told of it."""

    name: str
    inode: str
    size: int
    modified: str

    @property
    def grows(self) -> bool:
        """It is only ever appended to."""
        return self.name == EVENTS or self.name.endswith(OPEN_SEGMENT)

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays while it is the same file."""
        return (self.inode,) if self.grows else (self.inode, str(self.size), self.modified)


@dataclass(frozen=True)
class FilePiece:
    """Bytes of a file."""

    file: Seen
    offset: int
    data: bytes


@dataclass(frozen=True)
class Look:
    """What a host answered: the job's state and its recording's files."""

    state: str
    """``running``, the exit code, or ``lost``: it ended and left no code, as its host was restarted or its
    supervisor killed."""
    files: tuple[Seen, ...]
    pieces: tuple[FilePiece, ...]

    @property
    def ended(self) -> bool:
        """Nothing comes any more."""
        return self.state != "running"


def read_look(answer: bytes) -> Look:
    """From the bytes of ``host.sh``'s `look`; raises ValueError where they are cut."""
    state, _, rest = answer.partition(b"\n")
    files, pieces = [], []
    while rest:
        head, end, rest = rest.partition(b"\n")
        words = head.decode().split(" ")
        if not end or words[0] not in ("file", "piece"):
            raise ValueError(f"no answer of a host: {head[:40]!r}")
        file = Seen(words[-1], words[1], int(words[2]), words[3])
        if words[0] == "file":
            files.append(file)
            continue
        length = int(words[5])
        if len(rest) < length:
            raise ValueError(f"{file.name} is cut")
        pieces.append(FilePiece(file, int(words[4]), rest[:length]))
        rest = rest[length:]
    return Look(state.decode(), tuple(files), tuple(pieces))


@dataclass
class _Have:
    identity: tuple[str, ...]
    size: int = 0
    """Bytes here, of the file itself or of its part."""
    whole: bool = False


@dataclass
class Mirror:
    """One recording's copy. No clock and no connection: answers in, files out."""

    directory: Path
    _have: dict[str, _Have] = field(default_factory=dict)
    _there: dict[str, Seen] = field(default_factory=dict)

    def wants(self) -> list[str]:
        """Names and offsets for the next `look`, in turn."""
        words = []
        for seen in self._there.values():
            have = self._have_of(seen)
            if seen.grows or not have.whole:
                words += [seen.name, str(have.size)]
        return words

    def _have_of(self, seen: Seen) -> _Have:
        have = self._have.get(seen.name)
        if have is None or have.identity != seen.identity:
            have = self._have[seen.name] = _Have(seen.identity)
        return have

    def take(self, look: Look) -> bool:
        """Writes what came; True: there is more, to be fetched at once."""
        try:
            if look.files:
                self.directory.mkdir(parents=True, exist_ok=True)
            # A temporary name is on its way to another.
            self._there = {f.name: f for f in look.files if not f.name.endswith(".tmp")}
            for piece in look.pieces:
                self._write(piece)
            self._remove_replaced(look.ended)
        except OSError as error:
            raise self._failed(error) from None
        return any(not self._is_here(seen) for seen in self._there.values())

    def _failed(self, error: OSError) -> FathometerError:
        what = f"{self.directory}: {error.strerror}"
        return FathometerError("copy a recording", what, "make room, then run it again")

    def _is_here(self, seen: Seen) -> bool:
        have = self._have_of(seen)
        # An empty file is here when it is made.
        return have.whole or (have.size >= seen.size and (self.directory / seen.name).exists())

    def _write(self, piece: FilePiece) -> None:
        seen = piece.file
        have = self._have_of(seen)
        if piece.offset != have.size:
            return  # It became another file while we asked; the next look asks for that one.
        path = self.directory / seen.name
        target = path if seen.grows else path.with_name(f".{seen.name}{_PART}")
        with target.open("r+b" if have.size else "wb") as file:
            file.seek(have.size)
            file.write(piece.data)
        have.size += len(piece.data)
        if not seen.grows and have.size == seen.size:
            target.replace(path)
            have.whole = True

    def _remove_replaced(self, ended: bool) -> None:
        """An open segment goes when the closed one is here, as the recorder has it."""
        for path in self.directory.glob(f"*{OPEN_SEGMENT}"):
            closed = self._have.get(path.with_suffix(".parquet").name)
            if path.name not in self._there and (ended or (closed is not None and closed.whole)):
                path.unlink()

    def differences(self, sums: dict[str, str]) -> str | None:
        """What is not here as it is there, by SHA-256; None: it is the same."""
        here = {p.name for p in self.directory.glob("[!.]*")}
        for name in sorted(here - sums.keys()):
            return f"{name} is here, and not there"
        for name, digest in sums.items():
            path = self.directory / name
            if not path.is_file():
                return f"{name} did not arrive"
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    return f"{name} is not here as it is there"
        return None

    @contextlib.contextmanager
    def being_written(self) -> Iterator[None]:
        """Holds the recording's lock, by which readers know one that still grows."""
        lock = self.directory / LOCK
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            file = lock.open("wb")
        except OSError as error:
            raise self._failed(error) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


def read_sums(answer: bytes) -> dict[str, str]:
    """File names and their SHA-256, of ``sha256sum``'s lines."""
    rows = (line.split(maxsplit=1) for line in answer.decode().splitlines())
    return {row[1].lstrip("*"): row[0] for row in rows if len(row) == 2}
