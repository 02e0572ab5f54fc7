"""The report as JSON for machines: `schema/report.schema.json`, DESIGN.md 7. Durations are integer ns;
moments are ISO 8601 in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fathometer.dataset.recording import Recording
from fathometer.dataset.summaries import OpenedSummary
from fathometer.findings import marks, render
from fathometer.findings.consistency.model import Remark
from fathometer.findings.doubts import in_words
from fathometer.findings.finding import TIMES, Advice, Finding, Incident, Place, Quantity, Recipe
from fathometer.findings.model import FIGURES, Analysis, Scenario, Versus
from fathometer.findings.verdicts import of_ending
from fathometer.report import databases_json, modes, paths_json, policies_json
from fathometer.stats.changes import Change
from fathometer.stats.results import Estimate, Interval

FORMAT = 1


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The whole analysis."""
    owners = {part.id: incident.id for incident in analysis.incidents for part in incident.parts}
    return {
        "format": FORMAT,
        "marks": marks_as_json(analysis.recordings),
        "recordings": [_recording(r) for r in analysis.recordings],
        "summaries": [_summary(s) for s in analysis.summaries],
        "refused": [str(e) for e in analysis.refused],
        "scenarios": [scenario_as_json(s) for s in analysis.scenarios],
        "comparisons": comparisons_as_json(analysis.comparisons),
        "changes": [
            {
                "recording": m.recording.manifest.id,
                "scenario": m.scenario,
                **change_as_json(m.change),
            }
            for m in analysis.changes
        ],
        "undecided": [
            {"scenario": name, "kind": u.kind, "reason": u.reason} for name, u in analysis.undecided
        ],
        "ends": [
            {
                "recording": e.recording.manifest.id,
                "scenario": e.scenario,
                "connection": e.connection,
                "at": moment(e.at_ns),
                "segments": [
                    {"first": s.first, "last": s.last, "mean_ns": _whole(s.mean), "change": _number(s.change)}
                    for s in e.ending.segments
                ],
                "last_change": _number(e.ending.last_change),
                "p_value": _number(e.ending.p_value),
                "said": of_ending(e.ending),
            }
            for e in analysis.ends
        ],
        **modes.as_json(analysis),
        **policies_json.as_json(analysis),
        **paths_json.as_json(analysis),
        **databases_json.as_json(analysis),
        "findings": [_finding(f, owners.get(f.id)) for f in analysis.findings],
        "incidents": [_incident(i) for i in analysis.incidents],
        "advice": [_advice(a) for a in analysis.advice],
        "consistency": [remark_as_json(r) for r in analysis.consistency],
    }


def marks_as_json(recordings: Sequence[Recording]) -> list[dict[str, Any]]:
    """What the figures may not be taken for, and of which recordings."""
    sentences = marks.told(recordings)
    of = marks.marks_of(recordings).items()
    return [
        {"mark": mark, "recordings": ids, "statement": statement}
        for (mark, ids), statement in zip(of, sentences, strict=True)
    ]


def _finding(f: Finding, incident: str | None) -> dict[str, Any]:
    return {
        "id": f.id,
        "kind": f.kind,
        "at": moment(f.from_ns),
        "until": moment(f.to_ns),
        "scenario": f.scenario,
        "recording": f.recording,
        "where": [_place(p) for p in f.where],
        "cause": f.cause,
        "statement": render.statement(f),
        "evidence": render.evidence(f),
        "evidence_ids": sorted({fact.id for fact in f.facts if fact.id}),
        "quantities": _quantities(f.quantities),
        "doubts": [render.doubt_code(d) for d in f.doubts],
        "confidence": f.confidence,
        "incident": incident,
    }


def _incident(i: Incident) -> dict[str, Any]:
    return {
        "id": i.id,
        "kind": i.kind,
        "at": moment(i.from_ns),
        "until": moment(i.to_ns),
        "where": [_place(p) for p in i.where],
        "cause": i.cause,
        "confidence": i.confidence,
        "statement": render.incident(i),
        "toll": {
            "lost": i.toll.lost,
            "unsent": i.toll.unsent,
            "silent_ns": i.toll.silent_ns,
            "added_ns": round(i.toll.added_ns),
            "added_for_ns": i.toll.added_for_ns,
            "connections": i.toll.connections,
        },
        "quantities": _quantities(i.quantities),
        "changes": render.remedies(i),
        "findings": [f.id for f in i.parts],
    }


def _advice(a: Advice) -> dict[str, Any]:
    return {
        "topic": a.topic,
        "paths": list(a.paths),
        "statement": render.advice(a),
        "saves": _quantity(a.saves) if a.saves else None,
        "quantities": _quantities(a.quantities),
        "evidence": render.advice_evidence(a),
        "evidence_ids": list(a.evidence),
        "confidence": a.confidence,
        "actionable": a.actionable,
        "settings": [_recipe(r) for r in a.recipes],
    }


def _recipe(r: Recipe) -> dict[str, Any]:
    snippet = render.snippet(r)
    return {
        "library": r.library,
        "name": snippet.name,
        "where": snippet.where,
        "text": snippet.text,
        "settings": [
            {"name": s.name, "value": render.spelled(s), "unit": s.unit}
            | ({"ns": s.value} if s.unit in TIMES and isinstance(s.value, int) else {})
            for s in r.settings
        ],
        "default": r.default_by or None,
    }


def _place(p: Place) -> dict[str, Any]:
    return {"scenario": p.path, "recording": p.recording or None, "connection": p.connection}


def _quantities(of: Mapping[str, Quantity]) -> dict[str, Any]:
    return {name: _quantity(q) for name, q in of.items()}


def _quantity(q: Quantity) -> dict[str, Any]:
    return {"value": _exact(q.value), "unit": q.unit, "low": _exact(q.low), "high": _exact(q.high)}


def _exact(value: float | None) -> float | int | None:
    """Counts and times stay whole numbers."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(f"{value:.6g}")


def comparisons_as_json(versus: Sequence[Versus]) -> list[dict[str, Any]]:
    """One object a pair and metric."""
    return [
        {
            "a": v.a,
            "b": v.b,
            "metric": d.metric,
            "ratio": _number(d.ratio),
            "low": _end(d.ratio_interval, "low"),
            "high": _end(d.ratio_interval, "high"),
            "difference_ns": _whole(d.difference),
            "difference_low_ns": _whole_end(d.difference_interval, "low"),
            "difference_high_ns": _whole_end(d.difference_interval, "high"),
            "verdict": d.verdict,
            "basis": d.basis,
            "method": d.method,
            "p_value": _number(d.p_value),
            "units": list(d.units),
            "pairing": v.pairing,
            "superiority": _number(v.superiority),
            "doubt": in_words(d.doubt),
            "doubt_code": None if d.doubt is None else d.doubt.code,
        }
        for v in versus
        for d in v.differences
    ]


def change_as_json(change: Change) -> dict[str, Any]:
    """As `fathom changes --json` prints it."""
    return {
        "index": change.index,
        "at": moment(change.at_ns),
        "kind": change.kind,
        "before_ns": _whole(change.before_ns),
        "after_ns": _whole(change.after_ns),
        "confidence": _number(change.confidence),
    }


def remark_as_json(remark: Remark) -> dict[str, str]:
    """As `fathom check --json` prints it."""
    return {
        "row": remark.row,
        "law": remark.law,
        "verdict": remark.verdict,
        "explanation": remark.explanation,
    }


def moment(at_ns: int | None) -> str | None:
    """RFC 3339 with nanoseconds, UTC."""
    if at_ns is None:
        return None
    whole, rest = divmod(at_ns, 1_000_000_000)
    at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=whole)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _recording(recording: Any) -> dict[str, Any]:  # noqa: ANN401 - dataset.Recording; its fields are typed where it is made
    manifest, totals = recording.manifest, recording.totals
    return {
        "id": manifest.id,
        "label": manifest.label,
        "marks": list(manifest.marks),
        "host": manifest.host_name,
        "machine_id": manifest.host.get("machine_id"),
        "target": manifest.target,
        "directory": str(recording.directory),
        "from": manifest.path.start,
        "to": manifest.path.to,
        "via": manifest.path.via,
        "mode": manifest.mode,
        "size": manifest.size,
        "interval_ns": manifest.interval_ns,
        "started_at": moment(manifest.started_ns),
        "ended_at": moment(manifest.ended_ns),
        "running": recording.running,
        "samples": totals.samples,
        "answered": totals.answered,
        "unanswered": totals.unanswered,
        "corrupt": totals.corrupted,
        "connections": len(recording.connections),
        "damage": [str(d) for d in recording.damage],
    }


def _summary(s: OpenedSummary) -> dict[str, Any]:
    return {
        "label": s.label,
        "directory": str(s.directory),
        "tool": s.tool,
        "file": s.file,
        "mode": s.mode,
        "size": s.size,
        "count": s.count,
        "rtt_ns": dict(s.figures_ns),
        "throughput": dict(s.throughput) or None,
        "cannot": list(s.cannot),
        "notes": list(s.notes),
    }


def scenario_as_json(s: Scenario) -> dict[str, Any]:
    """One scenario with its figures."""
    return {
        "name": s.name,
        "label": s.key.label,
        "from": s.key.ends.start,
        "to": s.key.ends.to,
        "target": s.key.ends.target,
        "tags": dict(s.key.ends.tags),
        "marks": list(s.key.ends.marks),
        "mode": s.key.mode,
        "size": s.key.size,
        "interval_ns": s.key.interval_ns,
        "under_load": s.key.under_load,
        "silence": None
        if s.key.silence is None
        else {"gap_ns": s.key.silence.gap_ns, "first": s.key.silence.first},
        "recordings": [run.recording.manifest.id for run in s.runs],
        "samples": s.sent,
        "unsent": s.unsent,
        "answered": s.rtt.count,
        "unanswered": s.unanswered,
        "corrupt": s.corrupt,
        "late": s.late,
        "rtt_ns": {
            "min": s.rtt.min_ns,
            "max": s.rtt.max_ns,
            "stddev": _whole(s.rtt.stddev_ns),
            # The one figure of tables, charts and verdicts, so that a `--baseline` compares like with like.
            **{n: _estimate(s.figure(n)) for n in FIGURES},
        },
        "basis": {n: "runs" if n in s.of_runs else "samples" for n in FIGURES},
        "runs": {n: _estimate(e) for n, e in s.of_runs.items()},
        "worst_of_runs": None
        if s.worst is None
        else {
            "p95_ns": _whole(s.worst.p95),
            "worst_ns": _whole(s.worst.worst),
            "runs": s.worst.runs,
            "confidence_worst": _number(s.worst.confidence_worst),
            "runs_needed": s.worst.runs_needed,
        },
        "first_sample": None
        if s.first is None
        else {
            "ratio": _number(s.first.ratio),
            "p_value": _number(s.first.p_value),
            "connections": s.first.connections,
        },
    }


def _estimate(e: Estimate) -> dict[str, Any]:
    return {
        "value": _whole(e.value) if e.shown else None,
        "low": _whole_end(e.interval, "low"),
        "high": _whole_end(e.interval, "high"),
        "level": e.interval.level if e.interval else None,
        "count": e.count,
        "doubt": in_words(e.doubt),
        "doubt_code": None if e.doubt is None else e.doubt.code,
    }


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


def _end(interval: Interval | None, which: str) -> float | None:
    return None if interval is None else _number(getattr(interval, which))


def _whole_end(interval: Interval | None, which: str) -> int | None:
    return None if interval is None else _whole(getattr(interval, which))
