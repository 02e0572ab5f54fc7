"""What paths are compared by beside round trips, in the report's JSON: limits, interruptions, and what each
policy left unserved. The page's sections of these names are made of the same values.
"""

from __future__ import annotations

from typing import Any

from fathometer.findings.carried import Carried, carried
from fathometer.findings.doubts import in_words
from fathometer.findings.factors import METRICS, Effect, effects
from fathometer.findings.interruptions import Interrupted, interrupted
from fathometer.findings.limits_compared import Beside, End, beside, searched
from fathometer.findings.model import Analysis
from fathometer.findings.policy_paths import OnPath, unserved_by_path
from fathometer.findings.zones import Zones, zones
from fathometer.report.policies_json import mean_as_json, mean_number
from fathometer.report.rules import answers
from fathometer.stats.family import Difference


def as_json(analysis: Analysis) -> dict[str, Any]:
    """Each is empty where the recordings do not call for it."""
    return {
        "limits": [_limit(x) for x in beside(searched(analysis.scenarios))],
        "interruptions": [_interrupted(x) for x in interrupted(analysis)],
        "carried": [_carried(x) for x in carried(analysis)],
        "factors": [_effect(x) for x in effects(analysis)],
        "zones": _zones(zones(analysis)),
        "rules": [{"rule": a.rule, "here": a.holds, "words": a.words} for a in answers(analysis)],
        "policy_paths": [_on_path(x) for x in unserved_by_path(analysis.policies)],
    }


def _limit(one: Beside) -> dict[str, Any]:
    x, traffic = one.searched, one.searched.traffic
    names, of = (("carried", "too_much"), _rate) if x.limit == "rate" else (("survived", "died"), _end)
    return {
        "path": x.name,
        "limit": x.limit,
        "traffic": None if traffic is None else {"kind": traffic.kind, "every_ns": traffic.every_ns},
        "runs": x.runs,
        **({"connections": x.connections} if x.limit == "rate" else {}),
        **{name: of(end) for name, end in zip(names, (x.low, x.high), strict=True)},
        **({} if x.unanswered_ns is None else {"unanswered_ns": x.unanswered_ns}),
        **({} if x.dies_from_ns is None else {"dies_from_ns": x.dies_from_ns}),
        "how": dict(x.how),
        "by": list(x.by),
        "sure": x.sure,
        "differs_from": list(one.others),
    }


def _end(end: End | None) -> dict[str, int] | None:
    return None if end is None else {"length_ns": end.at, "hits": end.hits, "of": end.of}


def _rate(end: End | None) -> dict[str, int] | None:
    return None if end is None else {"rate_per_s": end.at, "lost": end.hits, "of": end.of}


def _interrupted(x: Interrupted) -> dict[str, Any]:
    return {
        "path": x.name,
        "rank": x.rank,
        "runs": x.runs,
        "longest_wait_ns": mean_as_json(x.longest_ns),
        "connections": x.of,
        "ended": x.ended,
        "verdicts": dict(x.verdicts),
    }


def _carried(x: Carried) -> dict[str, Any]:
    return {
        "path": x.name,
        "way": x.way,
        "rank": x.rank,
        "runs": x.runs,
        "bits_per_s": mean_as_json(x.bits_per_s),
        "less_than_first": mean_as_json(x.less),
    }


def _effect(x: Effect) -> dict[str, Any]:
    return {
        "factor": x.factor,
        "from": x.level,
        "to": x.to_level,
        "path": x.path,
        "to_path": x.to_path,
        "changes": {m: _change(d) for m in METRICS if (d := x.of(m)) is not None},
    }


def _change(d: Difference) -> dict[str, Any]:
    ends = (None, None) if d.ratio_interval is None else (d.ratio_interval.low, d.ratio_interval.high)
    ratio, low, high = (mean_number(value) for value in (d.ratio, *ends))
    return {"ratio": ratio, "low": low, "high": high, "verdict": d.verdict, "doubt": in_words(d.doubt)}


def _zones(found: Zones) -> dict[str, Any]:
    return {
        "pairs": [
            {"zones": list(p.zones), "numbers": list(p.numbers), "scenario": p.scenario.name}
            for p in found.pairs
        ],
        "unknown": list(found.unknown),
        "numbers": [
            {"region": region, "number": number, "physical": list(names)}
            for (region, number), names in found.physical.items()
        ],
        "one_subscription": found.one_subscription,
    }


def _on_path(x: OnPath) -> dict[str, Any]:
    return {
        "path": x.path,
        "policies": [
            {"name": u.policy, "unserved_share": mean_as_json(u.share), "best": u.best} for u in x.policies
        ],
    }
