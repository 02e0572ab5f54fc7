"""Applications and their policies in the report's JSON; the names are those of `fathom fabric simulate`."""

from __future__ import annotations

import math
from typing import Any

from fathometer.dataset.client import Waited
from fathometer.findings import policy_words
from fathometer.findings.model import Analysis
from fathometer.findings.policies import Application, Compared, PolicyComparison
from fathometer.stats.repeated import Mean


def as_json(analysis: Analysis) -> dict[str, Any]:
    """Both are empty where no application was recorded."""
    return {
        "applications": [_application(a) for a in analysis.applications],
        "policies": [_comparison(c) for c in analysis.policies],
    }


def _application(a: Application) -> dict[str, Any]:
    c = a.client
    return {
        "recording": a.recording.manifest.id,
        "path": a.path,
        "policy": a.policy,
        "repetition": a.repetition,
        "settings": policy_words.settings(c.policy),
        "statement": policy_words.told(a),
        "due": c.due,
        **c.ended,
        "not_known": c.not_known,
        "uncounted_ns": 1_000_000_000 if c.uncounted else 0,
        "unservable": a.unservable,
        "retries": c.retries,
        "waited_ns": _waited(c.waited),
        "notice_ns": _waited(c.notice),
        "recover_ns": None if c.recover is None else _waited(c.recover),
        "recovered": c.recovered,
        "connections": c.connections,
        "not_established": c.not_established,
        "extra_connections": c.extra_connections,
        "reconnections_a_second": c.reconnections_a_second,
        "breaker_opened": c.breaker_opened,
    }


def _waited(w: Waited) -> dict[str, int | None]:
    return {"count": w.count, "p50": w.p50_ns, "p99": w.p99_ns, "max": w.max_ns}


def _comparison(c: PolicyComparison) -> dict[str, Any]:
    return {
        "path": c.path,
        "runs": c.runs,
        "left_out": c.left_out,
        "weigh": c.weigh,
        "paired": c.paired,
        "changed": {name: list(versions) for name, versions in c.changed.items()},
        "statement": policy_words.verdict(c),
        "reasons": policy_words.reasons(c),
        "policies": [_policy(p) for p in c.policies],
    }


def _policy(p: Compared) -> dict[str, Any]:
    return {
        "name": p.name,
        "rank": p.rank,
        "runs": p.runs,
        "due": p.due,
        "interval_ns": p.interval_ns,
        "settings": policy_words.settings(p.settings),
        "behind": mean_as_json(p.behind),
        **{name: mean_as_json(value) for name, value in p.figures.items()},
    }


def mean_as_json(m: Mean | None) -> dict[str, float | None] | None:
    """With its interval; null: there is none."""
    return (
        None
        if m is None
        else {"mean": mean_number(m.mean), "low": mean_number(m.low), "high": mean_number(m.high)}
    )


def mean_number(value: float | None) -> float | None:
    """Nine significant digits; null: there is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")
