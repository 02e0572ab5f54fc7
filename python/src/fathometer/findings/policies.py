"""Applications under policies: what became of their requests, and which policy did better over repetitions,
as `crates/fathom-simulate/src/ranking.rs` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fathometer.dataset import truth
from fathometer.dataset.client import Client
from fathometer.dataset.recording import Recording
from fathometer.stats.repeated import Mean, Values, mean, ranked

Weigh = Literal["failed", "latency", "load"]
WEIGHS: Final[tuple[Weigh, ...]] = ("failed", "latency", "load")
MATTERS: Final[Mapping[Weigh, str]] = {
    "failed": "requests that were not served",
    "latency": "how long callers waited (p99)",
    "load": "connections and tries more than needed, per 1,000 requests",
}
LONGEST: Final = "the longest that a caller waited, as not every run has enough requests for a p99"
_OURS: Final = frozenset(("policy", "study", "round", "quick", truth.PLACES, truth.MADE))
"""Tags that do not tell one path from another."""


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """One recording of an application."""

    recording: Recording
    client: Client
    policy: str
    """What its policy is called."""
    path: str
    """Over what, in words."""
    key: tuple[Any, ...]
    """What recordings that may be compared have in common."""
    repetition: str | None
    """Which repetition it belongs to; None: it does not say."""
    unservable: int | None
    """Requests that nobody could have served; None: nothing tells."""

    @property
    def name(self) -> str:
        """Of the path and the policy."""
        return self.path if self.path == self.policy else f"{self.path}, {self.policy}"


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A policy on a path, over its repetitions."""

    name: str
    settings: Mapping[str, Any]
    rank: int | None
    """From 1; those that cannot be told apart share one. None: the figure that it is ranked by has no
    value."""
    behind: Mean | None
    """By how much more of what is weighed it has than the best; None: it is the best. All such intervals of a
    comparison hold together with 95 %."""
    runs: int
    due: int
    figures: Mapping[str, Mean | None]
    """By the names of `FIGURES`; None: no repetition has it."""
    interval_ns: int | None = None
    """From one request to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyComparison:
    """Policies on one path, the best first."""

    path: str
    weigh: Weigh
    by: str
    """Which of `FIGURES` they are ranked by."""
    paired: bool
    """Whether all met the same repetitions."""
    policies: tuple[Compared, ...]
    left_out: int = 0
    """Recordings that break off: of some of their requests nobody knows the end."""
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names under which recordings have more than one policy, and what each of these is called here."""

    @property
    def of_several_rates(self) -> bool:
        """Whether policies were asked at different rates: then what counts is per request."""
        return len({p.interval_ns for p in self.policies}) > 1

    @property
    def matters(self) -> str:
        """What they are ranked by, in words."""
        return LONGEST if self.by == "waited_max_ns" else MATTERS[self.weigh]

    @property
    def runs(self) -> int:
        """Repetitions of the policy that has fewest."""
        return min(p.runs for p in self.policies)

    @property
    def most_runs(self) -> int:
        """Of the policy that has most."""
        return max(p.runs for p in self.policies)


def like_the_best(comparison: PolicyComparison) -> list[str]:
    """The best policy, and those that are not told apart from it; empty: nothing to rank by. One that
    varies much may be of a later rank, by another's difference from the best, and yet be among them.
    """
    placed = [p for p in comparison.policies if p.rank is not None]
    return [p.name for p in placed if p.behind is None or p.rank == 1 or not p.behind.is_positive]


Of = Callable[[Application], float | None]


def _share(of: Callable[[Application], int | None]) -> Of:
    def value(a: Application) -> float | None:
        number = of(a)
        return None if number is None else number / max(a.client.due, 1)

    return value


def _ended(name: str) -> Of:
    return _share(lambda a: a.client.ended[name])


def _recover(a: Application) -> float | None:
    c = a.client
    # One that was not over says only that it took longer: of such a run no length can be told.
    return None if c.recover is None or not c.recovered else c.recover.middle_ns


def _load(a: Application) -> float:
    return 1e3 * (a.client.extra_connections + a.client.retries) / max(a.client.due, 1)


FIGURES: Final[Mapping[str, Of]] = {
    "unserved": _share(lambda a: a.client.unserved),
    "failed": _ended("failed"),
    "ambiguous": _ended("ambiguous"),
    "shed": _ended("shed"),
    "fallback": _ended("fallback"),
    "unservable": _share(lambda a: a.unservable),
    "waited_p99_ns": lambda a: a.client.waited.p99_ns,
    "waited_max_ns": lambda a: a.client.waited.max_ns,
    "notice_p50_ns": lambda a: a.client.notice.middle_ns,
    "recover_p50_ns": _recover,
    "retries": lambda a: a.client.retries,
    "extra_connections": lambda a: a.client.extra_connections,
    "load": _load,
    "reconnections_a_second": lambda a: a.client.reconnections_a_second,
}
"""Of one repetition."""
SHARES: Final = frozenset(("unserved", "failed", "ambiguous", "shed", "fallback", "unservable"))
"""Those that are shares of the requests that were due: of each that is compared the end is known."""


_BY: Final[Mapping[Weigh, str]] = {"failed": "unserved", "latency": "waited_p99_ns", "load": "load"}


def applications(recordings: Sequence[Recording]) -> tuple[Application, ...]:
    """Each recording of an application, by path, policy and time."""
    every = [_application(r, r.client) for r in recordings if r.client is not None]
    return tuple(sorted(every, key=lambda a: (a.path, a.policy, a.recording.manifest.started_ns)))


def _application(recording: Recording, client: Client) -> Application:
    m = recording.manifest
    tags = m.path.tags
    policy = tags.get("policy", recording.label)
    # `fathom fabric simulate` calls a recording by both.
    path = recording.label.removesuffix(f"-{policy}") if "policy" in tags else client.target or "?"
    others = tuple(sorted((k, v) for k, v in tags.items() if k not in _OURS))
    key = (path, m.path.start, m.path.to, m.path.via, m.target, m.marks, others)
    simulated = m.extra.get("simulated")
    repetition = None
    if "round" in tags:
        repetition = f"round {tags['round']} of {tags.get('study')}"
    elif isinstance(simulated, dict):
        repetition = f"seed {simulated.get('seed')} of {simulated.get('scenario')}"
    return Application(recording, client, policy, path, key, repetition, _unservable(recording, client))


def _unservable(recording: Recording, client: Client) -> int | None:
    places = truth.places_of(recording.manifest)
    requests = client.policy.get("requests")
    deadline = requests.get("deadline_ns") if isinstance(requests, dict) else None
    if places is None or not isinstance(deadline, int) or not client.interval_ns or client.origin_ns is None:
        return None
    end = recording.manifest.ended_ns or recording.over_ns
    made = recording.manifest.path.tags.get(truth.MADE)
    known = truth.truth_over(recording.directory, recording.manifest.started_ns, end, made)
    if known is None:
        return None
    if truth.PLACES not in recording.manifest.path.tags and known.translating.intersection(places):
        places = (*places[:2], *(name for name in places[2:] if name != recording.manifest.path.to))
    return known.unservable(places, client.origin_ns, client.interval_ns, deadline, client.due)


def compared(every: Sequence[Application], weigh: Weigh = "failed") -> tuple[PolicyComparison, ...]:
    """Of each path on which there are two policies and more: which did better."""
    left_out: dict[tuple[Any, ...], int] = {}
    whole: list[Application] = []
    for a in every:
        if a.recording.running:
            continue
        if a.client.breaks_off or a.recording.broken:
            left_out[a.key] = left_out.get(a.key, 0) + 1
        else:
            whole.append(a)
    made = []
    for key, named in by_policy(whole).items():
        if len(named) > 1:
            of_path = _comparison(next(iter(named.values()))[0].path, named, weigh)
            made.append(replace(of_path, left_out=left_out.get(key, 0), changed=_changed(named)))
    return tuple(made)


def by_policy(every: Sequence[Application]) -> dict[tuple[Any, ...], dict[str, list[Application]]]:
    """What may be compared, by the name of a policy: two policies that are called alike and differ are two,
    and so is one at two rates.
    """
    known: dict[str, list[Mapping[str, Any]]] = {}
    # The earliest first, so that the numbers are the same on every path.
    for a in sorted(every, key=lambda a: a.recording.manifest.started_ns):
        mine = known.setdefault(a.policy, [])
        if a.client.policy not in mine:
            mine.append(a.client.policy)
    rates: dict[tuple[Any, ...], set[int | None]] = {}
    for a in every:
        rates.setdefault((a.key, a.policy), set()).add(a.client.interval_ns)
    groups: dict[tuple[Any, ...], dict[str, list[Application]]] = {}
    for a in every:
        number = known[a.policy].index(a.client.policy) + 1
        name = a.policy if number == 1 else f"{a.policy} ({number})"
        if len(rates[a.key, a.policy]) > 1 and a.client.interval_ns:
            name += f" at {1e9 / a.client.interval_ns:.3g}/s"
        groups.setdefault(a.key, {}).setdefault(name, []).append(a)
    return groups


def _changed(named: Mapping[str, list[Application]]) -> dict[str, tuple[str, ...]]:
    of_name: dict[str, dict[str, Mapping[str, Any]]] = {}
    for version, every in named.items():
        of_name.setdefault(every[0].policy, {})[version] = every[0].client.policy
    return {
        name: tuple(versions)
        for name, versions in of_name.items()
        if any(p != next(iter(versions.values())) for p in versions.values())
    }


def _comparison(path: str, group: Mapping[str, list[Application]], weigh: Weigh) -> PolicyComparison:
    by_repetition = {name: _by_repetition(every) for name, every in group.items()}
    sets = [frozenset(each) for each in by_repetition.values()]
    paired = len(set(sets)) == 1 and all(a.repetition for every in group.values() for a in every)
    if not paired:
        # Repetitions that are not those of the others must not be taken for them.
        by_repetition = {
            name: {f"{name} {k}": a for k, a in each.items()} for name, each in by_repetition.items()
        }
    by = _BY[weigh]
    if by == "waited_p99_ns" and not all(a.client.waited.p99_ns for every in group.values() for a in every):
        # The longest of one run and the 99th percentile of another are not the same thing.
        by = "waited_max_ns"
    values = {name: _values(each, FIGURES[by]) for name, each in by_repetition.items()}
    places = {p.name: p for p in ranked(values, _step(group, weigh))}
    order = [*places, *(name for name in group if name not in places)]
    return PolicyComparison(
        path,
        weigh,
        by,
        paired,
        tuple(
            Compared(
                name,
                group[name][0].client.policy,
                places[name].rank if name in places else None,
                places[name].behind if name in places else None,
                len(group[name]),
                sum(a.client.due for a in group[name]),
                {f: _figure(f, by_repetition[name], of) for f, of in FIGURES.items()},
                group[name][0].client.interval_ns,
            )
            for name in order
        ),
    )


def _step(group: Mapping[str, Sequence[Application]], weigh: Weigh) -> float:
    """By how much what is weighed can differ at the least: by one request, or one connection or try."""
    one = 1 / min(max(a.client.due, 1) for every in group.values() for a in every)
    return {"failed": one, "latency": 0.0, "load": 1e3 * one}[weigh]


def _figure(name: str, each: Mapping[str, Application], of: Of) -> Mean | None:
    """Shares, times and counts are never below 0, and shares not above 1."""
    of_all = mean(list(_values(each, of).values()))
    if of_all is None or of_all.low is None or of_all.high is None:
        return of_all
    most = 1.0 if name in SHARES else math.inf
    return replace(of_all, low=max(of_all.low, 0.0), high=min(of_all.high, most))


def _by_repetition(every: Sequence[Application]) -> dict[str, Application]:
    """Where two are of one repetition, or none says, by a number."""
    named: dict[str, Application] = {}
    for number, a in enumerate(every):
        name = a.repetition or str(number)
        named[name if name not in named else f"{name} ({number})"] = a
    return named


def _values(each: Mapping[str, Application], of: Of) -> Values:
    values = {name: of(a) for name, a in each.items()}
    return {name: float(value) for name, value in values.items() if value is not None}
