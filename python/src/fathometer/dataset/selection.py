"""What may be asked of samples: which of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SILENCE: Final = "silence_ns"
"""A column that only recordings with silences have, which `silences` makes: see `Silence.code`."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Of a run with silences (`--idle-gap`): the first samples after those of one length, or the warm ones
    that followed them back to back.
    """

    gap_ns: int
    """Its length, as the plan has it."""
    first: bool
    """True: the first after it; False: the warm ones of the same burst."""

    @property
    def code(self) -> int:
        """In the column `SILENCE`: the length, negative for a warm one. 0: the sample follows no silence."""
        return self.gap_ns if self.first else -self.gap_ns


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples count. Without anything said: all answered and unanswered ones but warm-up."""

    connection: int | None = None
    start_ns: int | None = None
    """Sent at or after, ns since the Unix epoch."""
    end_ns: int | None = None
    """Sent before."""
    size: int | None = None
    under_load: bool | None = None
    """True: only those sent under load; False: only idle ones; None: both."""
    silence: Silence | None = None
    """Only those around silences of one length; None: all. Only recordings with silences can be asked."""
    warm_up: bool = False
    """Whether samples flagged warm-up count, too."""


ALL: Final = Selection()
