"""Recordings by run: with `--rotate` a run goes on in another recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Manifest
from fathometer.errors import FathometerError


class Recorded(Protocol):
    """Something with the manifest of a recording."""

    @property
    def manifest(self) -> Manifest:
        """Its manifest."""


_R = TypeVar("_R", bound=Recorded)


def run_of(manifest: Manifest) -> str:
    """The identity of a run on one path: the id of its first recording."""
    rotation: Any = manifest.extra.get("rotation")
    run = rotation.get("run") if isinstance(rotation, dict) else None
    return run if isinstance(run, str) else manifest.id


def runs(recordings: Iterable[_R]) -> tuple[Sequence[_R], ...]:
    """The recordings grouped by run. Runs, and the recordings of each, are in order of their start."""
    by_run: dict[str, list[_R]] = {}
    for one in sorted(recordings, key=lambda r: (r.manifest.started_ns, r.manifest.id)):
        by_run.setdefault(run_of(one.manifest), []).append(one)
    return tuple(by_run.values())


def beside(directory: Path, identity: str) -> Path | None:
    """The recording with this id beside another one; None if it is missing."""
    # The names contain the time, so the next recording is among the last.
    for place in sorted(directory.absolute().parent.iterdir(), reverse=True):
        try:
            if place.is_dir() and read_manifest(place).id == identity:
                return place
        except FathometerError:
            continue
    return None
