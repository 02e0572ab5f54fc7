"""Why a recording lacks samples, in words, by the reasons that its events name (schema/recording.md)."""

from __future__ import annotations

from typing import Final

LOSSES: Final = {
    "behind": "writing could not keep up",
    "no_space": "the disk was full",
    "file_limit": "a file had reached the limit of its size (`ulimit -f`)",
    "stopped": "an error of the disk had stopped the recording",
    "crash": "the probe was killed, or its host failed, before they were on the disk",
    "unreadable": "the recording was damaged",
}
"""By the reason of `recording.overflowed`; older recordings name none."""

RECOVERED_LOSSES: Final = frozenset({"crash", "unreadable"})
"""Those that a recovery tells."""
