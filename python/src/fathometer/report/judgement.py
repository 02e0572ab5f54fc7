"""What a report is held against: goals of the reader's own, and an earlier report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fathometer.report.baseline import Drift
from fathometer.report.goals import SHARES, Outcome
from fathometer.stats.family import Difference
from fathometer.stats.results import Interval


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcomes; without goals and baseline it is empty, and passed."""

    outcomes: tuple[Outcome, ...] = ()
    drift: Drift | None = None

    @property
    def passed(self) -> bool:
        """Whether every goal is met, and nothing became worse: exit code 0."""
        kept = self.drift is None or self.drift.passed
        return kept and all(o.status == "met" for o in self.outcomes)


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
