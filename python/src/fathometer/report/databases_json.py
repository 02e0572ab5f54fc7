"""Queries of databases in the report's JSON. The page's section of this name is made of the same values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fathometer.dataset.query_files import PARTIES
from fathometer.findings.databases import Asked, OfConnection, PartyTime, ServerCount, databases
from fathometer.findings.databases_compared import Pair, compared
from fathometer.findings.doubts import in_words
from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.prediction import Elsewhere, elsewhere
from fathometer.findings.sweeps import QuerySweep, Swept, sweeps
from fathometer.stats.results import Estimate


def as_json(analysis: Analysis) -> dict[str, Any]:
    """All are empty where no query was recorded."""
    return {
        "databases": [_asked(one) for one in databases(analysis.scenarios)],
        "database_comparisons": [_pair(p) for p in compared(analysis.scenarios, analysis.matters)],
        "database_sweeps": [_sweep(sweep) for sweep in sweeps(analysis.scenarios)],
        "database_predictions": predictions_as_json(analysis.scenarios),
    }


def predictions_as_json(scenarios: tuple[Scenario, ...]) -> list[dict[str, Any]]:
    """What the queries of each path would take over the others."""
    return [_elsewhere(one) for one in elsewhere(scenarios)]


def _asked(one: Asked) -> dict[str, Any]:
    return {
        "path": one.path,
        "asked": one.asked or None,
        "recordings": list(one.ids),
        "queries": one.queries,
        "counted": one.counted,
        "failed": sum(one.failures.values()),
        "failures": dict(one.failures),
        "cancelled": one.cancelled,
        "retransmits": one.retransmits,
        "sent_again": one.sent_again,
        "without_split": dict(one.no_split),
        "wall_ns": {name: _estimate(e) for name, e in one.wall.items()},
        "mean_ns": None
        if not one.parts
        else {"wall": round(one.mean_ns), **_bounds(one.parts), "open": round(one.open_ns)},
        "connections": [_connection(of) for of in one.each] or None,
        "server_counted": None if (of := one.by_server) is None else _counted(of),
        "party": one.party,
        "confidence": one.sure,
        "greatest": one.greatest,
        "broken": one.broken,
    }


def _bounds(parts: Mapping[str, PartyTime]) -> dict[str, Any]:
    return {p: {"low": round(parts[p].low_ns), "high": round(parts[p].high_ns)} for p in PARTIES}


def _connection(of: OfConnection) -> dict[str, Any]:
    return {
        "connection": of.connection,
        "queries": of.queries,
        "failed": of.failed,
        "counted": of.counted,
        "wall_p50_ns": round(of.median_ns) if of.counted else None,
        "mean_ns": _bounds(of.parts) if of.parts else None,
    }


def _counted(of: ServerCount) -> dict[str, Any]:
    return {
        "wait": of.wait,
        "waits": of.waits,
        "ns": of.ns,
        "lost_sessions": of.lost_sessions,
        "queries": of.queries,
        "wall_ns": of.wall_ns,
        **{f"{p}_ns": {"low": of.low_ns[p], "high": of.high_ns[p]} for p in ("path", "client")},
    }


def _estimate(e: Estimate) -> dict[str, Any]:
    return {
        "value": round(e.value) if e.shown else None,
        "low": round(e.interval.low) if e.interval else None,
        "high": round(e.interval.high) if e.interval else None,
        "level": e.interval.level if e.interval else None,
        "count": e.count,
        "doubt": in_words(e.doubt),
        "doubt_code": None if e.doubt is None else e.doubt.code,
    }


def _sweep(sweep: QuerySweep) -> dict[str, Any]:
    return {
        "path": sweep.path,
        "asked": sweep.asked or None,
        "recordings": list(sweep.ids),
        "settings": [_setting(one) for one in sweep.each],
    }


def _setting(one: Swept) -> dict[str, Any]:
    of, ratio = one.asked.asked, one.ratio
    packets = of.get("packet_size")
    interval = ratio.interval if ratio else None
    return {
        "fetch_size": of.get("fetch_size"),
        "packet_size": packets if isinstance(packets, dict) else None,
        "counted": one.counted,
        "wall_ns": _estimate(one.wall),
        "ratio": None
        if ratio is None
        else {
            "value": _number(ratio.value),
            "low": _number(interval.low) if interval else None,
            "high": _number(interval.high) if interval else None,
            "level": interval.level if interval else None,
            "basis": one.basis,
            "count": ratio.count,
            "verdict": one.verdict,
        },
    }


def _elsewhere(one: Elsewhere) -> dict[str, Any]:
    at, there = one.predicted, one.measured
    return {
        "path": one.path,
        "asked": one.asked or None,
        "over": one.other,
        "rtt_ns": round(one.other_rtt_ns),
        "turns": at.turns,
        "predicted_ns": round(at.ns),
        "low_ns": None if at.low_ns is None else round(at.low_ns),
        "high_ns": None if at.high_ns is None else round(at.high_ns),
        "at_once_ns": None if at.at_once_ns is None else round(at.at_once_ns),
        "measured_ns": None if there is None or not there.shown else round(there.value),
        "measured_low_ns": None if one.within is None else round(one.within.low),
        "measured_high_ns": None if one.within is None else round(one.within.high),
        "beyond": one.beyond,
    }


def _pair(pair: Pair) -> dict[str, Any]:
    d = pair.difference
    interval = d.ratio_interval
    return {
        "a": pair.a,
        "b": pair.b,
        "asked": pair.asked,
        "metric": d.metric,
        "a_ns": round(d.a),
        "b_ns": round(d.b),
        "ratio": _number(d.ratio),
        "low": _number(interval.low) if interval else None,
        "high": _number(interval.high) if interval else None,
        "verdict": d.verdict,
        "pairing": pair.pairing,
        "basis": d.basis,
        "method": d.method,
        "p_value": None if d.p_value is None else _number(d.p_value),
        "doubt": in_words(d.doubt),
        "doubt_code": None if d.doubt is None else d.doubt.code,
    }


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
