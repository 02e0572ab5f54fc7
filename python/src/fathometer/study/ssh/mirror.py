"""A recording that grows on a host, here: only what is new is fetched, so that a live view sees it grow.

Files that grow (events, the open segment) are fetched from where they ended; others (the manifest, closed
segments) take their place at once when they are whole. A file's inode, size and time tell whether it is still
the same.

Names are those of a recording's files (`answers` lets no other pass), and are looked up in the one directory
that is the recording's, without following a link.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fathometer.counts import count
from fathometer.dataset.format import LOCK
from fathometer.errors import FathometerError
from fathometer.study.ssh.answers import OPEN_SEGMENT, BadAnswer, FilePiece, Look, Seen

_PART: Final = ".part"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class _Have:
    identity: tuple[int, ...]
    size: int = 0
    """Bytes here, of the file itself or of its part."""
    begun: bool = False
    """The file itself or its part is here: what lies here by that name may be the one that was before it."""
    whole: bool = False


@dataclass
class Mirror:
    """One recording's copy. No clock and no connection: answers in, files out."""

    directory: Path
    most_bytes: int
    """A recording that is larger is not taken: the host says what is not so."""
    _have: dict[str, _Have] = field(default_factory=dict)
    _there: dict[str, Seen] = field(default_factory=dict)
    _ended: tuple[Seen, ...] | None = None
    """What there was when the job had ended: the whole."""

    def wants(self) -> list[tuple[str, int]]:
        """Names and offsets for the next `look`."""
        wanted = []
        for seen in self._there.values():
            have = self._have_of(seen)
            if seen.grows or not have.whole:
                wanted.append((seen.name, have.size))
        return wanted

    def missing(self) -> int:
        """How many bytes are there and not here."""
        return sum(
            seen.size - have.size
            for seen in self._there.values()
            if not (have := self._have_of(seen)).whole and seen.size > have.size
        )

    def _have_of(self, seen: Seen) -> _Have:
        have = self._have.get(seen.name)
        if have is None or have.identity != seen.identity:
            have = self._have[seen.name] = _Have(seen.identity)
        return have

    def take(self, look: Look, budget: int) -> bool:
        """Writes what came of a look with that budget; True: there is more, to be fetched at once. Raises
        `BadAnswer` where a host gives what it cannot have, or does not give what it has.
        """
        size = sum(f.size for f in look.files)
        if size > self.most_bytes:
            raise BadAnswer(
                f"the recording has {count(size, 'byte')} there, "
                f"and cannot have more than {self.most_bytes:,}"
            )
        if look.ended:
            if self._ended is not None:
                self._check_end(look, budget)
            self._ended = look.files
        try:
            if look.files:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._there = {f.name: f for f in look.files}
            if self._there:
                with self._opened() as directory:
                    for piece in look.pieces:
                        self._write(piece, directory)
                    self._remove_replaced(look.ended, directory)
            return any(not self._is_here(seen) for seen in self._there.values())
        except OSError as error:
            raise self._failed(error) from None

    def _check_end(self, look: Look, budget: int) -> None:
        if look.files != self._ended:
            raise BadAnswer("the recording changes after its end")
        came = sum(len(piece.data) for piece in look.pieces)
        if came < min(budget, self.missing()):
            raise BadAnswer(f"missing of the recording: {count(self.missing(), 'byte')}")
        # A file without bytes counts for nothing there, and was asked for all the same.
        named = {piece.file.name for piece in look.pieces}
        for seen in self._there.values():
            if not seen.size and seen.name not in named and not self._is_here(seen):
                raise BadAnswer(f"missing of the recording: {seen.name}, which is empty")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        directory = os.open(self.directory, _DIRECTORY)
        try:
            yield directory
        finally:
            os.close(directory)

    def _failed(self, error: OSError) -> FathometerError:
        what = f"{self.directory}: {error.strerror}"
        return FathometerError("copy a recording", what, "make room, then run it again")

    def _is_here(self, seen: Seen) -> bool:
        have = self._have_of(seen)
        return have.whole or (seen.grows and have.begun and have.size >= seen.size)

    def _write(self, piece: FilePiece, directory: int) -> None:
        seen = piece.file
        have = self._have_of(seen)
        if piece.offset != have.size:
            return  # It became another file while we asked; the next look asks for that one.
        target = seen.name if seen.grows else f".{seen.name}{_PART}"
        flags = os.O_WRONLY | _NO_LINK
        if not have.size:
            # Another file was there by that name, or part of one.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target, dir_fd=directory)
            flags |= os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(target, flags, 0o600, dir_fd=directory), "wb") as file:
            file.seek(have.size)
            file.write(piece.data)
        have.begun = True
        have.size += len(piece.data)
        if not seen.grows and have.size == seen.size:
            os.replace(target, seen.name, src_dir_fd=directory, dst_dir_fd=directory)
            have.whole = True

    def _remove_replaced(self, ended: bool, directory: int) -> None:
        """An open segment goes when the closed one is here, as the recorder has it."""
        for name in os.listdir(directory):
            if name.endswith(OPEN_SEGMENT) and name not in self._there:
                closed = self._have.get(f"{name.removesuffix(OPEN_SEGMENT)}.parquet")
                if ended or (closed is not None and closed.whole):
                    os.unlink(name, dir_fd=directory)

    def differences(self, sums: dict[str, str]) -> str | None:
        """What is not here as it is there, by SHA-256; None: it is the same."""
        try:
            here = {path.name for path in self.directory.iterdir() if not path.name.startswith(".")}
            for name in sorted(here - sums.keys()):
                return f"{name} is here, and not there"
            with self._opened() as directory:
                for name, digest in sums.items():
                    if _sum(name, directory) != digest:
                        return f"{name} {'is not here as it is there' if name in here else 'did not arrive'}"
        except OSError as error:
            raise self._failed(error) from None
        return None

    @contextlib.contextmanager
    def being_written(self) -> Iterator[None]:
        """Holds the recording's lock, by which readers know one that still grows."""
        lock = self.directory / LOCK
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.fdopen(os.open(lock, os.O_WRONLY | os.O_CREAT | _NO_LINK, 0o600), "wb")
        except OSError as error:
            raise self._failed(error) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


def _sum(name: str, directory: int) -> str | None:
    """A file's SHA-256; None: there is no such file."""
    try:
        file = os.fdopen(os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=directory), "rb")
    except FileNotFoundError:
        return None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return hashlib.file_digest(file, "sha256").hexdigest()
