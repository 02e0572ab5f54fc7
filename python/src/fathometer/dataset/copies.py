"""One recording that was given more than once: it counts once. Its samples would be taken for twice as many,
and intervals would come out too narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fathometer.dataset.recording import Recording


class Copy(NamedTuple):
    """A recording that is left out, and the one that counts instead."""

    left_out: Recording
    kept: Recording


def each_once(recordings: Iterable[Recording]) -> tuple[tuple[Recording, ...], tuple[Copy, ...]]:
    """The recordings in their order, each id once; and the copies that are left out.

    Of copies that one counts which holds most: samples rather than a rollup of them, and more samples rather
    than fewer, for a copy may have been made while it was still being written. One without an id is nobody's
    copy.
    """
    kept: dict[object, Recording] = {}
    left_out: list[tuple[object, Recording]] = []
    for n, recording in enumerate(recordings):
        key: object = recording.manifest.id or n
        known = kept.setdefault(key, recording)
        if known is recording:
            continue
        more = _holds(recording) > _holds(known)
        kept[key] = recording if more else known
        left_out.append((key, known if more else recording))
    return tuple(kept.values()), tuple(Copy(recording, kept[key]) for key, recording in left_out)


def _holds(recording: Recording) -> tuple[bool, int]:
    return recording.source is not None, recording.rows
