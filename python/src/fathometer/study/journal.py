"""The study's journal: JSON lines that say what was begun and what was finished, so that it can be resumed.

| kind | fields |
|---|---|
| ``study.started`` | ``format``, ``id``, ``study``, ``sha256``, ``quick``, ``runs``, ``fathom``, ``plan`` |
| ``study.resumed`` | ``fathom`` |
| ``fabric.making``, ``fabric.gone`` | ``name`` |
| ``ssh.using`` | ``host``, ``ssh`` (as in the study file) |
| ``ssh.ready`` | ``host``, ``machine``, ``sha256`` (of the binary), ``free_kib`` |
| ``ssh.lost``, ``ssh.back``, ``ssh.cleared`` | ``host`` |
| ``run.started`` | ``run`` (its directory) |
| ``run.finished`` | ``run``, ``samples``, ``answered`` |
| ``run.failed`` | ``run``, ``reason`` |
| ``study.interrupted`` | ``reason`` |
| ``study.ended`` | ``runs`` |
| ``study.stopped`` | |
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fathometer.errors import FathometerError
from fathometer.reading import parsed, regular
from fathometer.writing import append_to

JOURNAL: Final = "journal.jsonl"


def read_journal(directory: Path) -> list[dict[str, Any]]:
    """The entries; none where there is no journal. A torn last line, as a crash leaves, is left out."""
    path = directory / JOURNAL
    try:
        with regular(path) as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FathometerError(
            "read the study's journal", f"{path}: {error.strerror}", "check its permissions"
        ) from None
    entries = []
    for number, line in enumerate(lines):
        try:
            entry = parsed(line) if line.strip() else None
        except ValueError:
            if number == len(lines) - 1:
                break
            raise FathometerError(
                "read the study's journal", f"{path}:{number + 1} is no JSON", "use another --output"
            ) from None
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def first(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How the study began."""
    return next((e for e in entries if e.get("kind") == "study.started"), None)


def finished(entries: list[dict[str, Any]]) -> set[str]:
    """The directories of runs that need no repeating."""
    return {str(e["run"]) for e in entries if e.get("kind") == "run.finished" and "run" in e}


def unfinished(entries: list[dict[str, Any]]) -> list[str]:
    """The directories of runs that were started and have not come to their end: what they measured is not
    here, or not all of it.
    """
    last: dict[str, str] = {}
    for entry in entries:
        kind = str(entry.get("kind"))
        if kind in {"run.started", "run.finished", "run.failed"}:
            last[str(entry.get("run"))] = kind
    return [run for run, kind in last.items() if kind == "run.started"]


def fabrics_left(entries: list[dict[str, Any]]) -> list[str]:
    """Fabrics that were made, or begun to be, and not taken away."""
    left: dict[str, None] = {}
    for entry in entries:
        if entry.get("kind") == "fabric.making":
            left[str(entry.get("name"))] = None
        elif entry.get("kind") == "fabric.gone":
            left.pop(str(entry.get("name")), None)
    return list(left)


@dataclass(frozen=True)
class SshLeft:
    """A host over SSH that a study used and has not cleared."""

    ssh: Any
    """How it is reached, as in the study file."""
    sha256: str = ""
    """Of the binary that it has; empty: it got none."""


def ssh_left(entries: Iterable[dict[str, Any]]) -> dict[str, SshLeft]:
    """Hosts over SSH that a study used and has not cleared, by name."""
    left: dict[str, SshLeft] = {}
    for entry in entries:
        kind, name = entry.get("kind"), str(entry.get("host"))
        if kind == "ssh.using":
            # The binary of an earlier begin is there still.
            left[name] = SshLeft(entry.get("ssh"), left[name].sha256 if name in left else "")
        elif kind == "ssh.ready" and name in left:
            left[name] = SshLeft(left[name].ssh, str(entry.get("sha256")))
        elif kind == "ssh.cleared":
            left.pop(name, None)
    return left


class Journal:
    """Appends entries, each on disk before `note` returns."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / JOURNAL
        try:
            self._file = append_to(self._path)
            size = self._file.seek(0, os.SEEK_END)
            if size:
                # A torn line is ended, not continued: what follows it must be readable.
                self._file.seek(size - 1)
                if self._file.read(1) != b"\n":
                    self._cut_torn_line()
        except OSError as error:
            raise self._failed(error) from None

    def _cut_torn_line(self) -> None:
        self._file.seek(0)
        whole = self._file.read()
        self._file.truncate(whole.rfind(b"\n") + 1)
        self._file.seek(0, os.SEEK_END)

    def _failed(self, error: OSError) -> FathometerError:
        return FathometerError(
            "write the study's journal", f"{self._path}: {error.strerror}", "make room, then run it again"
        )

    def note(self, kind: str, **fields: object) -> None:
        """Writes one entry."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        try:
            self._file.write(json.dumps({"at": at, "kind": kind, **fields}).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
