"""The live migration that the demo's network plays, read from the network's own log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fathometer.dataset import truth
from fathometer.findings.words import duration, moment

_MIGRATION: Final = "live-migration"
_FREEZE: Final = "live-migration freeze"


@dataclass(frozen=True, slots=True)
class Staged:
    """The times of a host's migration."""

    host: str
    began_ns: int
    froze_ns: int
    """When it stood still."""
    froze_for_ns: int

    def __str__(self) -> str:
        began, froze = moment(self.began_ns)[:19], moment(self.froze_ns)[11:19]
        return (
            f"a live migration of the {self.host}'s host from {began} UTC on: it stood still at {froze} for "
            f"{duration(self.froze_for_ns)}"
        )


def staged(recordings: Path) -> Staged | None:
    """The migration that was played while these were made; None: no network was emulated, or its log is
    unreadable.
    """
    for file in sorted((recordings / "truth").glob(f"*/{truth.FILE}")):
        happened = found.happened if (found := truth.read(file)) else ()
        begun = next((h for h in happened if h.event == _MIGRATION), None)
        freeze = next((h for h in happened if h.event == _FREEZE), None)
        if begun and freeze and freeze.lasts_ns:
            return Staged(begun.place, begun.at_ns, freeze.at_ns, freeze.lasts_ns)
    return None
