"""From what was measured to a value to set: how much room each leaves, and how it is rounded. Times are ns.

Values that must stay below something are rounded down, those that must stay above it up. The steps are those
of `crates/fathom-settings/src/library/mod.rs`: `fathom limits check` writes the same (a test compares).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MS: Final = 1_000_000
S: Final = 1_000 * MS
MIN: Final = 60 * S
USER_TIMEOUT_NS: Final = 30 * S
"""What Azure recommends for TCP_USER_TIMEOUT where live migrations happen, and longer than any of
their pauses."""
LEAST_TIMEOUT_NS: Final = 5 * S
"""No user timeout is below it, whatever was seen: Linux sends again 0.2, 0.6, 1.4 and 3 s after the first
time (and later where round trips are long), so that four packets may be lost in a row."""
ENOUGH_STALLS: Final = 19
"""From so many stalls on the next one is longer than all of them with a chance of 1 in 20 at the most,
whatever they are like, as long as they are exchangeable (1 in n + 1)."""
MARGIN: Final = 2
"""Times the longest stall that recovered: how far above it a timeout stays."""


def round_below(ns: int, step_ns: int = MS) -> int:
    """A round time that is not above this one, in steps of what can be written; at the least one of these."""
    step = max(_step(ns), step_ns)
    return ns - ns % step or max(ns - ns % step_ns, step_ns)


def round_above(ns: int, step_ns: int = MS) -> int:
    """A round time that is not below this one."""
    step = max(_step(ns), step_ns)
    return -(-ns // step) * step


def _step(ns: int) -> int:
    return next(step for least, step in _STEPS if ns >= least)


_STEPS: Final = ((10 * MIN, MIN), (MIN, 10 * S), (5 * S, S), (0, 100 * MS))
"""From so long on, in such steps."""


def half(limit_ns: int, step_ns: int = MS) -> int:
    """A keepalive this often leaves room for one that is lost."""
    return round_below(limit_ns // 2, step_ns)


def most_of(limit_ns: int) -> int:
    """Nine tenths: a life this long leaves room for the last request."""
    return limit_ns // 10 * 9


def known_safe(survived: Iterable[int], died: Iterable[int]) -> int | None:
    """The longest that was survived and is below all that killed; None: nothing killed, or nothing below it
    is known to be safe.
    """
    deadly = min(died, default=None)
    return None if deadly is None else max((ns for ns in survived if ns < deadly), default=None)


def user_timeout(recovered: Sequence[int], *, few: bool | None = None) -> int:
    """Above each stall that recovered by itself, with a margin; one a moment, however many connections it
    stopped. Where few were seen, or none, not below what is known of clouds; `few`: None: by their number.
    """
    few = len(recovered) < ENOUGH_STALLS if few is None else few
    least = USER_TIMEOUT_NS if few else LEAST_TIMEOUT_NS
    return round_above(max(least, MARGIN * max(recovered, default=0)))


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries that go on for longer than an outage."""

    first_ns: int
    cap_ns: int
    """Waits double from the first, and none is longer. Each is drawn from its upper half."""
    retries: int
    deadline_ns: int
    """How long the caller must wait, at the most."""


FIRST_NS: Final = 100 * MS
"""No wait before a retry is shorter."""
TRY_NS: Final = 8 * S
"""What one try may take: 3 s for a connection and 5 s for its answer, as the policies' defaults have it."""
LONGEST_OUTAGE_NS: Final = 10 * MIN
"""No caller waits for longer than that: beyond it retries are no remedy."""


def patience(outage_ns: int) -> Patience | None:
    """So many retries that they are not used up while an outage lasts, even if each fails at once and each
    wait is as short as its jitter lets it be; None: nobody waits for so long.
    """
    if not 0 < outage_ns <= LONGEST_OUTAGE_NS:
        return None
    # Few retries: those of all requests that fall due in an outage come on top of what the server has to do.
    first = max(round_above(outage_ns // 32), FIRST_NS)
    cap = min(max(round_above(outage_ns // 4), S), 30 * S)
    waited = retries = 0
    while waited <= outage_ns:
        waited += min(cap, first << min(retries, 20)) // 2
        retries += 1
    # The last try before its end may be made just before it, and the next one is the one that is answered.
    return Patience(first, cap, retries, round_above(outage_ns + cap + 2 * TRY_NS))
