"""The plan: which runs, in which order. The same study gives the same plan, always."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from fathometer.study.limit import Limit
from fathometer.study.model import PlannedPath, Study
from fathometer.study.policy import Policy
from fathometer.study.probe import Probe
from fathometer.study.query import Query

RUN_OVERHEAD_NS = 500_000_000
"""What a run takes beside its samples (starting, connecting, closing, checking), for the estimate alone."""
PING_PONG_GUESS_NS = 1_000_000
"""A round trip that the estimate of a counted ping-pong takes, as nobody knows it before."""
QUICK_ROUNDS = 2
QUICK_NS = 1_000_000_000
QUICK_INTERVAL_NS = 50_000_000
QUICK_RATE = 1e9 / QUICK_INTERVAL_NS
QUICK_COUNT = 20
QUICK_GAP_NS = 10_000_000
QUICK_UP_TO_NS = 2_000_000_000
QUICK_CEILING = 100
QUICK_QUERIES = 3


@dataclass(frozen=True)
class PlannedRun:
    """One probe, application or search on one scenario, once."""

    number: int
    """From 1, in the order of the plan."""
    round: int
    """From 1."""
    scenario: PlannedPath
    probe: Probe | Policy | Limit | Query
    size: int
    """Bytes each way; 0: the policy's file says it, or there are none."""
    directory: PurePosixPath
    """Of its recording, in the study's output."""
    estimate_ns: int


def quick(study: Study) -> Study:
    """The study cut short, to see that it runs: its figures mean nothing. Two rounds of at most a second or
    20 samples, 50 ms apart at most; searches up to 2 s; no schedule.
    """
    probes = []
    for probe in study.probe:
        interval = probe.interval_ns
        count = min(probe.count or QUICK_COUNT, QUICK_COUNT)
        changes: dict[str, object] = {
            "warm_up": min(probe.warm_up, count // 4),
            "for_ns": None if probe.for_ns is None else min(probe.for_ns, QUICK_NS),
            "count": None if probe.count is None else count,
        }
        if interval is not None and interval > QUICK_INTERVAL_NS:
            changes |= {"every_ns": QUICK_INTERVAL_NS, "rate": None}
        if probe.idle_gap_ns:
            # As many, and as far apart as they must be.
            changes["idle_gap_ns"] = tuple(QUICK_GAP_NS * 3**i // 2**i for i in range(len(probe.idle_gap_ns)))
        if probe.fills:
            changes = {"for_ns": QUICK_NS, "omit_ns": None}
        if probe.load:
            changes["load_phase_ns"] = min(probe.phase_ns, QUICK_NS // 4)
        probes.append(probe.model_copy(update=changes))
    return study.model_copy(
        update={
            "repetitions": min(study.rounds, QUICK_ROUNDS),
            "probe": tuple(probes),
            "policy": tuple(
                p.model_copy(update={"for_ns": min(p.for_ns, QUICK_NS), "rate": max(p.rate, QUICK_RATE)})
                for p in study.policy
            ),
            "limit": tuple(_quick_limit(limit) for limit in study.limit),
            "query": tuple(
                q.model_copy(update={"count": QUICK_QUERIES, "for_ns": None, "every_ns": None})
                for q in study.query
            ),
            "schedule": type(study.schedule)(),
        }
    )


def _quick_limit(limit: Limit) -> Limit:
    """As few connections as it can have, and as low a rate."""
    if limit.kind == "rate":
        return limit.model_copy(update={"rate_ceiling": QUICK_CEILING, "connections": 1})
    few = {"connections": 8} if limit.kind == "age" else {"per_length": 1}
    return limit.model_copy(update={"up_to_ns": min(limit.up_to_ns, QUICK_UP_TO_NS), **few})


def plan(study: Study) -> tuple[PlannedRun, ...]:
    """Every run in order: each round has each scenario (with each probe and size, policy and search) once,
    shuffled by the seed, so that what drifts in time favours none of them.
    """
    several = len(study.measured) > 1
    runs: list[PlannedRun] = []
    for number in range(1, study.rounds + 1):
        items = [(s, p, size) for s in study.scenario for p in study.measured for size in p.all_sizes]
        items.sort(key=lambda i: _draw(study.seed, number, i[0].label, i[1].name, i[2]))
        for scenario, probe, size in items:
            where = PurePosixPath(f"label={scenario.label}")
            if isinstance(probe, Policy):
                where /= f"policy={probe.name}"
            elif isinstance(probe, Limit):
                where /= f"limit={probe.name}"
            elif isinstance(probe, Query):
                where /= f"query={probe.name}"
            elif several:
                where /= f"probe={probe.name}"
            if probe.sizes is not None:
                where /= f"size={size}"
            where /= f"run={number:0{max(2, len(str(study.rounds)))}d}"
            runs.append(PlannedRun(len(runs) + 1, number, scenario, probe, size, where, _estimate_ns(probe)))
    return tuple(runs)


def estimate_ns(study: Study, runs: tuple[PlannedRun, ...]) -> int:
    """How long the runs take, waiting for the schedule's hours left out. They may be what is left of a plan:
    a round without any is over.
    """
    total = 0
    left = sorted({r.round for r in runs})
    for number in left:
        of_round = [r.estimate_ns for r in runs if r.round == number]
        took = max(of_round) if study.order == "side-by-side" else sum(of_round)
        total += took if number == left[-1] else max(took, study.schedule.every_ns or 0)
    return total


def _draw(seed: int, number: int, *names: object) -> bytes:
    # A hash and not `random.shuffle`, whose order no Python promises to keep.
    return hashlib.sha256("\0".join(str(n) for n in (seed, number, *names)).encode()).digest()


def _estimate_ns(probe: Probe | Policy | Limit | Query) -> int:
    if isinstance(probe, Limit | Query):
        return probe.longest_ns + RUN_OVERHEAD_NS
    if probe.for_ns is not None:
        omitted = (probe.omit_ns or 0) if isinstance(probe, Probe) else 0
        return probe.for_ns + omitted + RUN_OVERHEAD_NS
    sample_ns = PING_PONG_GUESS_NS if probe.per_second is None else round(1e9 / probe.per_second)
    return (probe.count or 0) * sample_ns + RUN_OVERHEAD_NS
