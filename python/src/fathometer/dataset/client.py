"""What a recording of an application under a policy says (mode ``tcp-client``): what became of each request.

Its rows are tries and no samples of a path, so no round-trip figure is made of them. What is counted here is
what `fathom-core/policy/tally.rs` counts, by the same rules: so a recording that was interrupted has its
figures too, and the law holds that requests that were due are those of the five ends, those in flight, and
those that are not known. Durations are ns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.batches import batches
from fathometer.dataset.histogram import Histogram, Ints
from fathometer.dataset.model import CLIENT_MODE, Event, Manifest
from fathometer.dataset.source import Source

ENDS: Final = ("answered", "failed", "ambiguous", "shed", "fallback")
"""The ways in which a request ends."""
_SECOND: Final = 1_000_000_000
_NEVER: Final = 1 << 62
QUIET_NS: Final = 10 * _SECOND
"""A trouble is over when all goes well for so long after an answer. What begins again sooner is the same
trouble, and one after which the recording has less is not known to be over."""


@dataclass(frozen=True, slots=True)
class Waited:
    """How long something took. None: too few times to say."""

    count: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None

    @property
    def middle_ns(self) -> int | None:
        """The median, or the longest where there were too few for one."""
        return self.max_ns if self.p50_ns is None else self.p50_ns


@dataclass(frozen=True, slots=True)
class Trouble:
    """From when a request was due that its first try did not serve, to the next answer after which none such
    followed for `QUIET_NS`.
    """

    began_ns: int
    """Since the first request was due."""
    lasted_ns: int | None
    """None: the recording ends before it is known to be over."""


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """The tries of a run on its target, in the order in which they ended."""

    ended_ns: Ints
    """Since the Unix epoch."""
    failed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Client:
    """What an application's run amounts to."""

    target: str | None
    policy: Mapping[str, Any]
    """Its settings, as the manifest has them."""
    interval_ns: int | None
    """From one request to the next."""
    due: int
    ended: Mapping[str, int]
    """By the names of `ENDS`."""
    not_known: int
    """They were due, and have no end in the recording: it goes on, was interrupted, or lacks rows."""
    uncounted: bool
    """It was killed: what fell due in its last second is in no count."""
    retries: int
    waited: Waited
    notice: Waited
    recover: Waited | None
    """None: it cannot be told, because the wall clock was set meanwhile."""
    recovered: bool | None
    """False: the recording ends before the last trouble is known to be over. None as with `recover`."""
    connections: int
    not_established: int
    extra_connections: int
    """Established in the place of others: fewer were then to the same server than had been at once before."""
    reconnections_a_second: int
    """The most of these within any second."""
    breaker_opened: int
    told: Mapping[str, Any] | None
    """What the client itself told at its end; None: it did not come to that."""
    origin_ns: int | None
    """When its first request was due, ns since the Unix epoch; None: nothing tells."""
    troubles: tuple[Trouble, ...] | None = None
    """In order of time. None as with `recover`."""
    tries: Tries | None = field(default=None, compare=False)
    """None as with `recover`."""

    @property
    def unserved(self) -> int:
        """Requests that ended without an answer of the target or the fallback. Those of which the end is not
        known are none of them: their rows may be lost, and not their answers.
        """
        return sum(self.ended[name] for name in ("failed", "ambiguous", "shed"))

    @property
    def breaks_off(self) -> bool:
        """Whether requests were due whose end nobody knows."""
        return self.uncounted or self.not_known > 0

    @property
    def agrees(self) -> bool:
        """Whether rows and events come to what the client itself counted."""
        told = self.told
        return told is None or all(
            told.get(name) == n for name, n in (*self.ended.items(), ("due", self.due))
        )


def client(
    manifest: Manifest, events: Sequence[Event], source: Source | None, was_due: int | None = None
) -> Client | None:
    """The run of a recording; None where it is of another mode, or where its rows are not there. `was_due`:
    so many requests were, by what an application that was killed left beside it.
    """
    if manifest.mode != CLIENT_MODE or source is None:
        return None
    tally = _Tally(manifest.target)
    if was_due is not None:
        tally.uncounted, tally.due = True, was_due
    for event in events:
        if event.known:
            tally.event(event)
    latency, due_at = _answers(source, tally.fallback)
    return tally.result(manifest, latency, due_at)


def _answers(source: Source, fallback: set[int]) -> tuple[Ints, Ints]:
    """Of each row that the target answered: how long its caller had waited, and when it was due."""
    latency, due_at = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    others = np.array(sorted(fallback), dtype=np.int64)
    parts = [*source.closed, *([] if source.open is None else [source.open])]
    for part in parts:
        for batch in batches(part, ["connection", "sent_ns", "lateness_ns", "rtt_ns"]):
            known = batch.known("rtt_ns")
            mine = ~np.isin(batch.column("connection").astype(np.int64), others)
            mine = mine if known is None else mine & known
            late = batch.column("lateness_ns")[mine]
            latency.append(late + batch.column("rtt_ns")[mine])
            due_at.append(batch.column("sent_ns")[mine] - late)
    return np.concatenate(latency), np.concatenate(due_at)


@dataclass
class _Tally:
    target: str | None
    fallback: set[int] = field(default_factory=set)
    """Connections to the fallback's target."""
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    due: int = 0
    uncounted: bool = False
    retries: int = 0
    waited: list[int] = field(default_factory=list)
    notice: list[int] = field(default_factory=list)
    failed_at: list[int] = field(default_factory=list)
    """When tries on the target failed."""
    troubled: dict[int, None] = field(default_factory=dict)
    """Requests that their first try did not serve."""
    origins: list[tuple[int, int]] = field(default_factory=list)
    """When requests were due, and their numbers."""
    stepped: bool = False
    open: list[int] = field(default_factory=lambda: [0, 0])
    """Connections that are established, to the target and to the fallback's."""
    most: list[int] = field(default_factory=lambda: [0, 0])
    connections: int = 0
    not_established: int = 0
    extra: int = 0
    recent: deque[int] = field(default_factory=deque)
    peak: int = 0
    breaker_opened: int = 0
    told: Mapping[str, Any] | None = None

    def event(self, e: Event) -> None:
        f = e.fields
        match e.kind:
            case "connection.opening":
                self.connections += 1
                if f.get("target") != self.target and e.connection is not None:
                    self.fallback.add(e.connection)
            case "connection.opened":
                self.established(e.mono_ns or 0, e.connection in self.fallback)
            case "connection.refused":
                self.not_established += 1
            case "connection.closed":
                whose = e.connection in self.fallback
                self.open[whose] = max(self.open[whose] - 1, 0)
            case "request.ended":
                self.request_ended(e)
            case "try.failed":
                self.try_failed(e)
            case "breaker.changed":
                self.breaker_opened += f["to"] == "open"
            case "client.interrupted":
                self.uncounted, self.due = True, max(self.due, f["due"])
            case "client.ended" if isinstance(f["result"], dict):
                due = f["result"].get("due")
                self.told = f["result"]
                self.due = max(self.due, due if isinstance(due, int) else 0)
            case "clock.stepped":
                self.stepped = True

    def try_failed(self, e: Event) -> None:
        f = e.fields
        self.due = max(self.due, f["request"] + 1)
        self.retries += f.get("retry_in_ns") is not None
        self.troubled[f["request"]] = None
        if not f.get("fallback"):
            self.failed_at.append(e.at_ns)
        if f["sent"]:
            self.notice.append(f["after_ns"])

    def request_ended(self, e: Event) -> None:
        f = e.fields
        self.due = max(self.due, f["request"] + 1)
        self.retries = max(self.retries - bool(f.get("retry_not_made")), 0)
        self.waited.append(f["waited_ns"])
        self.troubled[f["request"]] = None
        self.origins.append((e.at_ns - f["waited_ns"], f["request"]))
        if f["outcome"] != "answered":  # A row tells that.
            self.ended[f["outcome"]] += 1

    def established(self, at_ns: int, whose: bool) -> None:
        self.open[whose] += 1
        # One more than there ever were takes nobody's place; the fallback's first takes none of the target's.
        if self.open[whose] > self.most[whose]:
            self.most[whose] = self.open[whose]
            return
        self.extra += 1
        self.recent.append(at_ns)
        while self.recent[0] + _SECOND <= at_ns:
            self.recent.popleft()
        self.peak = max(self.peak, len(self.recent))

    def result(self, manifest: Manifest, latency: Ints, due_at: Ints) -> Client:
        ended = self.ended | {"answered": self.ended["answered"] + len(latency)}
        due = max(self.due, sum(ended.values()))
        policy = manifest.probe.get("policy")
        interval = manifest.interval_ns
        origin = self._origin(interval or 0, due_at)
        troubles = None
        if interval and origin is not None and not self.stepped:
            troubles = self._troubles(interval, origin, latency, due_at)
        over = None if troubles is None else [t.lasted_ns for t in troubles if t.lasted_ns is not None]
        return Client(
            target=self.target,
            policy=policy if isinstance(policy, dict) else {},
            interval_ns=interval,
            due=due,
            ended=ended,
            not_known=due - sum(ended.values()),
            uncounted=self.uncounted,
            retries=self.retries,
            waited=_waited(np.concatenate([latency, np.array(self.waited, dtype=np.int64)])),
            notice=_waited(np.array(self.notice, dtype=np.int64)),
            recover=None if over is None else _waited(np.array(over, dtype=np.int64)),
            recovered=None if troubles is None or over is None else len(over) == len(troubles),
            connections=self.connections,
            not_established=self.not_established,
            extra_connections=self.extra,
            reconnections_a_second=self.peak,
            breaker_opened=self.breaker_opened,
            told=self.told,
            origin_ns=origin,
            troubles=None if troubles is None else tuple(troubles),
            tries=None if troubles is None else self._tries(due_at + latency),
        )

    def _tries(self, answered_at: Ints) -> Tries:
        at = np.concatenate([answered_at, np.array(self.failed_at, dtype=np.int64)])
        order = np.argsort(at, kind="stable")
        return Tries(at[order], order >= len(answered_at))

    def _origin(self, interval_ns: int, due_at: Ints) -> int | None:
        """When the first request was due: requests are due at equal distances, whatever becomes of them."""
        known = [at - interval_ns * number for at, number in self.origins]
        # Where each was answered, the earliest that was due is the first.
        return min(known, default=int(due_at.min()) if len(due_at) else None)

    def _troubles(self, interval_ns: int, origin_ns: int, latency: Ints, due_at: Ints) -> list[Trouble]:
        troubled = np.array(sorted(self.troubled), dtype=np.int64)
        if not len(troubled):
            return []
        number = (due_at - origin_ns + interval_ns // 2) // interval_ns
        healthy = ~np.isin(number, troubled)
        order = np.argsort(number[healthy], kind="stable")
        at = number[healthy][order]
        answered_ns = at * interval_ns + latency[healthy][order]
        # Of each the next answer; it may have come late, as what was due in the trouble waited, too.
        known = np.append(answered_ns, _NEVER)
        over_ns = known[np.searchsorted(at, troubled)]
        apart = troubled[1:] * interval_ns - over_ns[:-1] > QUIET_NS
        firsts = np.concatenate([[0], np.flatnonzero(apart) + 1])
        lasts = np.concatenate([firsts[1:] - 1, [len(troubled) - 1]])
        # Of the last one too, it is the time that follows that says so.
        told_until = int(at[-1]) * interval_ns if len(at) else 0
        every = []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            began, ended = int(troubled[first]) * interval_ns, int(over_ns[last])
            over = last + 1 < len(troubled) or told_until - ended > QUIET_NS
            every.append(Trouble(began, max(ended - began, 0) if over else None))
        return every


def _waited(values: Ints) -> Waited:
    # The middle of a bucket stands for it, as in the Rust half.
    histogram = replace(Histogram.of(values), totals_ns=None)
    p50, p99 = (histogram.supported_quantile(q) for q in (0.5, 0.99))
    return Waited(
        histogram.count,
        None if p50 is None else p50.value_ns,
        None if p99 is None else p99.value_ns,
        histogram.max_ns,
    )
