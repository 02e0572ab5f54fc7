"""What may be asked of samples: which of them, and which duration; the same in SQL (`engine`) and in arrays
(`scan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fathometer.dataset.format import Flags


@dataclass(frozen=True, slots=True)
class Metric:
    """A duration in ns, put together from columns; absent where one of them is absent."""

    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()
    minus_where_known: tuple[str, ...] = ()
    """0 where absent."""
    factor: int = 1
    """Ns in a unit of the columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What it is made of."""
        return self.plus + self.minus + self.minus_where_known

    @property
    def sql(self) -> str:
        """As an expression in SQL, BIGINT."""
        terms = " + ".join(f"{c}::BIGINT" for c in self.plus)
        terms += "".join(f" - {c}" for c in self.minus)
        terms += "".join(f" - coalesce({c}, 0)" for c in self.minus_where_known)
        return f"({terms})" if self.factor == 1 else f"(({terms}) * {self.factor})"


METRICS: Final[Mapping[str, Metric]] = {
    "rtt": Metric(("rtt_ns",)),
    "latency": Metric(("rtt_ns", "lateness_ns")),
    "lateness": Metric(("lateness_ns",)),
    "send_stack": Metric(("send_stack_ns",)),
    "recv_stack": Metric(("recv_stack_ns",)),
    "reflector": Metric(("reflector_ns",)),
    "network": Metric(("rtt_ns",), ("send_stack_ns", "recv_stack_ns"), ("reflector_ns",)),
    "srtt": Metric(("srtt_us",), factor=1000),
    "forward": Metric(("forward_ns",)),
    "backward": Metric(("backward_ns",)),
}
"""What can be asked for, in ns. `forward` and `backward` are differences of two hosts' clocks, worth nothing
without `Recording.clock_error_ns`. `latency` is from due to echoed; `network` is what the stamps leave of the
round trip; `srtt` is the kernel's smoothed RTT."""


def metric_named(name: str) -> Metric:
    """A metric by name; raises ``ValueError``."""
    if name not in METRICS:
        raise ValueError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


SELECTED: Final = ("connection", "sent_ns", "size", "flags")
"""The columns that a `Selection` looks at."""
SILENCE: Final = "silence_ns"
"""And one that only recordings with silences have, which `silences` makes: see `Silence.code`."""


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
    first: bool | None = None
    """True: only the first of each connection; False: all others; None: both."""
    warm_up: bool = False
    """Whether samples flagged warm-up count, too."""
    pauses: bool = True
    """Whether samples that overlap a pause of either host count."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return SELECTED if self.silence is None else (*SELECTED, SILENCE)

    def terms(self) -> list[tuple[str, str, int]]:
        """The conditions, all of which must hold: column, sign, number. Signs are those of SQL; ``has`` and
        ``lacks`` look for bits.
        """
        found = [
            (column, sign, int(value))
            for column, sign, value in (
                ("connection", "=", self.connection),
                ("sent_ns", ">=", self.start_ns),
                ("sent_ns", "<", self.end_ns),
                ("size", "=", self.size),
                (SILENCE, "=", None if self.silence is None else self.silence.code),
            )
            if value is not None
        ]
        for wanted, flag in ((self.under_load, Flags.UNDER_LOAD), (self.first, Flags.FIRST_ON_CONNECTION)):
            if wanted is not None:
                found.append(("flags", "has" if wanted else "lacks", int(flag)))
        refused = 0
        if not self.warm_up:
            refused |= Flags.WARM_UP
        if not self.pauses:
            refused |= Flags.OVERLAPS_LOCAL_PAUSE | Flags.OVERLAPS_REMOTE_PAUSE
        if refused:
            found.append(("flags", "lacks", int(refused)))
        return found

    def where(self) -> str:
        """As a condition in SQL; every value in it is an integer."""
        bits = {"has": "<>", "lacks": "="}
        terms = [
            f"{column} & {number} {bits[sign]} 0" if sign in bits else f"{column} {sign} {number}"
            for column, sign, number in self.terms()
        ]
        return " AND ".join(terms) or "true"


ALL: Final = Selection()
EVERYTHING: Final = Selection(warm_up=True)


def within(selection: Selection, start_ns: int, end_ns: int) -> Selection:
    """A selection narrowed to a time."""
    start = start_ns if selection.start_ns is None else max(start_ns, selection.start_ns)
    end = end_ns if selection.end_ns is None else min(end_ns, selection.end_ns)
    return replace(selection, start_ns=start, end_ns=end)
