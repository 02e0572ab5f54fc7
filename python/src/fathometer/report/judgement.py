"""What a report is held against: goals of the reader's own, and an earlier report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fathometer.counts import count
from fathometer.findings.words import duration, listed
from fathometer.report.baseline import Drift, Since
from fathometer.report.goals import SHARES, Outcome, Status, percent
from fathometer.stats.family import Difference
from fathometer.stats.results import Interval


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcomes; without goals and baseline it is empty, and passed."""

    outcomes: tuple[Outcome, ...] = ()
    drift: Drift | None = None

    @property
    def status(self) -> Status:
        """The status of all goals and the comparison: a missed goal decides, then an open one."""
        drift = self.drift
        if any(o.status == "not met" for o in self.outcomes) or (drift is not None and drift.worse):
            return "not met"
        if all(o.status == "met" for o in self.outcomes) and (drift is None or drift.passed):
            return "met"
        return "cannot be decided"


_MOST: Final = 3
"""Maximum number of goals and paths in the last line; the others are counted."""


def told(judgement: Judgement) -> Iterator[str]:
    """Yields a line for each unmet goal, and then for each open one. The last of several lines repeats the
    unmet ones, because a log of CI is read from its end.
    """
    missed = [o for o in judgement.outcomes if o.status == "not met"]
    undecided = [o for o in judgement.outcomes if o.status == "cannot be decided"]
    paths, gone = (judgement.drift.paths, judgement.drift.only_then) if judgement.drift else ((), ())
    worse = [p for p in paths if p.worse]
    open_ = [p for p in paths if not p.decided and not p.worse]
    lines = [f"{o.path}: {o.goal.name} not met: it is {o.goal.shown(o.value or 0.0)}" for o in missed]
    lines += [line for p in worse for line in _worse(p)]
    lines += [f"{name}: no longer measured; make a new baseline if that is meant" for name in gone]
    lines += [f"{o.path}: {o.goal.name} cannot be decided: {o.reason}" for o in undecided]
    lines += [f"{p.path}: {f'not compared, as its {p.differs}' if p.differs else _TOO_FEW}" for p in open_]
    yield from lines
    if len(lines) > 1:
        named = {
            "not met": [f"{o.path}: {o.goal.name}" for o in missed],
            "worse": [p.path for p in worse],
            "no longer measured": list(gone),
            "cannot be decided": [count(len(undecided), "goal")] if undecided else [],
            "not compared": [count(len(open_), "path")] if open_ else [],
        }
        yield "; ".join(f"{what}: {listed(names, _MOST)}" for what, names in named.items() if names)


_TOO_FEW: Final = "what changed cannot be decided: too few samples, then or now"


def _worse(path: Since) -> Iterator[str]:
    if path.answers == "fewer":
        then, now = (percent(share) for share in path.availability if share is not None)
        yield f"{path.path}: fewer were answered, {now} after {then}"
    for d in path.slower:
        yield f"{path.path}: {d.metric} became slower, from {duration(d.a)} to {duration(d.b)}"


def as_json(judgement: Judgement) -> dict[str, Any]:
    """`slo` and `baseline` of `schema/report.schema.json`; what was not asked for is not there."""
    report: dict[str, Any] = {}
    if judgement.outcomes:
        report["slo"] = [_outcome(o) for o in judgement.outcomes]
    if judgement.drift is not None:
        report["baseline"] = _drift(judgement.drift)
    return report


def _outcome(o: Outcome) -> dict[str, Any]:
    share = o.goal.metric in SHARES
    value = None if o.value is None else (o.value if share else round(o.value))
    return {
        "goal": o.goal.text,
        "scenario": o.path,
        "metric": o.goal.metric,
        "unit": "share" if share else "ns",
        "limit": o.goal.limit if share else round(o.goal.limit),
        "value": value,
        "status": o.status,
        "sure": o.sure,
        "reason": o.reason or None,
    }


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "file": drift.file,
        "only_then": list(drift.only_then),
        "only_now": list(drift.only_now),
        "scenarios": [
            {
                "scenario": p.path,
                "availability_then": p.availability[0],
                "availability_now": p.availability[1],
                "answers": p.answers,
                "differs": list(p.differs.aspects) if p.differs else [],
                "measured_then": p.differs.then if p.differs else None,
                "measured_now": p.differs.now if p.differs else None,
                "differences": [_difference(d) for d in p.differences],
            }
            for p in drift.paths
        ],
    }


def _difference(d: Difference) -> dict[str, Any]:
    return {
        "metric": d.metric,
        "then_ns": round(d.a),
        "now_ns": round(d.b),
        "ratio": _number(d.ratio),
        "low": _end(d.ratio_interval, "low"),
        "high": _end(d.ratio_interval, "high"),
        "verdict": d.verdict,
    }


def _end(interval: Interval | None, which: str) -> float | None:
    return None if interval is None else _number(getattr(interval, which))


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
