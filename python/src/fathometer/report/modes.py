"""What modes beside echoes on a schedule show: throughput, silences, ways of datagrams, handshakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fathometer.dataset.throughput import Flow, Readings, Transfer
from fathometer.findings import datagrams, throughput
from fathometer.findings.doubts import in_words
from fathometer.findings.model import Analysis, Cost, Scenario
from fathometer.findings.throughput import DIRECTIONS
from fathometer.findings.words import data, duration, rate
from fathometer.report import sections
from fathometer.report.sections import Extra, Picture, table_of
from fathometer.report.tables import Cell, Table, figure
from fathometer.report.vega import COLOURS, WIDE, Spec, base
from fathometer.stats.results import Estimate, Interval

NONE = Cell("–")


_NOTES = {
    "throughput": (
        "Payload. What was received is the truth; what was sent is what the sender's kernel took. "
        "Congestion window and smoothed round trip are the sender's kernel's: mean, smallest and largest "
        "reading. –: the end that knows did not tell."
    ),
    "silences": (
        "The first sample after a silence against those that followed it back to back. The cost is the "
        "difference of the medians, beneath it its 95 % interval. ≈: no difference shown."
    ),
    "losses": (
        "Lost on the way to the reflector (or refused there), on the way back, or nobody can say where. Not "
        "told: the recording ended before."
    ),
    "ways": (
        "Medians by two clocks, each at most so far from the truth as both ends say of theirs. Their sum "
        "does not depend on it."
    ),
    "setups": "TCP: from before connect() to established; TLS: from there to the end of the handshake.",
}


def extras(analysis: Analysis) -> list[Extra]:
    """Those that these recordings call for."""
    tables = {
        "throughput": _throughput(analysis),
        "silences": _silences(analysis.silences),
        "losses": _losses(analysis.scenarios),
        "ways": _ways(analysis),
        "setups": _setups(analysis),
    }
    return [Extra(name, table, _NOTES[name]) for name, table in tables.items() if table] + sections.extras(
        analysis
    )


def _throughput(analysis: Analysis) -> Table | None:
    rows = []
    for scenario, _, test in throughput.tests(analysis.scenarios):
        for way in test.ways:
            rows.append((Cell(scenario.name, DIRECTIONS[way.name]), *_flow(way.total)))
            if len(way.streams) > 1:
                rows += [(Cell("", f"stream {number}"), *_flow(flow)) for number, flow in way.streams]
    head = ("test", "received", "rate", "sent", "rate sent", "sent again", "congestion window", "round trip")
    return table_of("Throughput", head, rows)


def _flow(flow: Flow) -> tuple[Cell, ...]:
    again = NONE if flow.retransmits is None else Cell(f"{flow.retransmits:,}")
    window = _readings(flow.cwnd_bytes, data)
    return (*_end(flow.received), *_end(flow.sent), again, window, _readings(flow.srtt_us, _microseconds))


def _end(counted: Transfer | None) -> tuple[Cell, Cell]:
    if counted is None:
        return NONE, NONE
    return Cell(data(counted.bytes), duration(counted.duration_ns)), Cell(rate(counted.bits_per_second))


def _microseconds(us: float) -> str:
    return duration(us * 1_000)


def _readings(readings: Readings | None, words: Any) -> Cell:  # noqa: ANN401 - a function of a number
    if readings is None:
        return NONE
    return Cell(words(readings.mean), f"{words(readings.min)} … {words(readings.max)}")


def _silences(costs: Sequence[Cost]) -> Table | None:
    rows = [
        (
            Cell(c.first.key.label, f"after {duration(c.gap_ns)}"),
            Cell(
                f"{c.first.rtt.count:,}",
                f"{c.first.unanswered:,} unanswered" if c.first.unanswered else "",
            ),
            *(figure(of.figure(name)) for name in ("p50", "p95") for of in (c.first, c.warm)),
            _cost(c),
        )
        for c in costs
    ]
    head = ("silence", "first samples", "p50 first", "p50 warm", "p95 first", "p95 warm", "cost")
    return table_of("After a silence", head, rows)


def _cost(cost: Cost) -> Cell:
    median = cost.median
    if not median.decided:
        return Cell("–", "", in_words(median.difference.doubt) or "cannot be decided")
    alike = " ≈" if not median.difference.differs else ""
    return Cell(
        f"{duration(median.cost)}{alike}",
        _between(median.cost_interval),
        in_words(median.difference.doubt) or "",
    )


def _between(interval: Interval | None) -> str:
    return f"{duration(interval.low)} … {duration(interval.high)}" if interval else ""


def _losses(scenarios: Sequence[Scenario]) -> Table | None:
    rows = []
    for scenario, recording, losses in datagrams.lossy(scenarios):
        unanswered = recording.totals.unanswered
        untold = max(unanswered - losses.lost, 0)
        counts = [losses.forward, losses.backward, losses.unknown, untold]
        counts += [losses.duplicates, losses.reordered]
        rows.append((Cell(scenario.name), Cell(f"{unanswered:,}"), *(Cell(f"{n:,}") for n in counts)))
    ways = ("lost there", "lost back", "not known", "not told")
    head = ("path", "unanswered", *ways, "came again", "overtaken")
    return table_of("Which way datagrams were lost", head, rows)


def _ways(analysis: Analysis) -> Table | None:
    rows = [
        (Cell(w.scenario), *(Cell(duration(ns)) for ns in (w.forward_ns, w.backward_ns, w.error_ns)))
        for w in analysis.one_ways
    ]
    return table_of("Each way", ("path", "there", "back", "each at most off by"), rows)


def _setups(analysis: Analysis) -> Table | None:
    rows = [
        (
            Cell(s.scenario),
            Cell(f"{s.tls['p50'].count:,}"),
            *(figure(of[name]) for of in (s.connect, s.tls) for name in of),
        )
        for s in analysis.setups
    ]
    names = ("p50", "p95", "p99")
    head = ("path", "connections", *(f"TCP {n}" for n in names), *(f"TLS {n}" for n in names))
    return table_of("What the making of a connection consists of", head, rows)


def rates(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """Throughput over time: a line a test and way, as many as there are colours; warm-up is left out."""
    rows = list(_rates(analysis))
    names = list(dict.fromkeys(str(r["test"]) for r in rows))[: len(COLOURS)]
    rows = [r for r in rows if r["test"] in names]
    if not rows:
        return None
    spec = base(width, 240, rows, names)
    spec |= {
        "mark": {"type": "line", "point": {"size": 30}},
        "encoding": {
            "x": {
                "field": "s",
                "type": "quantitative",
                "title": "seconds since it began",
                "scale": {"zero": True},
            },
            "y": {"field": "mbit", "type": "quantitative", "title": "Mbit/s", "scale": {"zero": True}},
            "color": {
                "field": "test",
                "type": "nominal",
                "title": None,
                "sort": names,
                "scale": {"domain": names, "range": list(COLOURS[: len(names)])},
            },
        },
    }
    return spec


def _rates(analysis: Analysis) -> Iterator[dict[str, Any]]:
    for scenario, _, test in throughput.tests(analysis.scenarios):
        for way in test.ways:
            every = throughput.whole_seconds(test, way.name)
            began = min((s.at_ns - s.interval_ns for s in every), default=0)
            for second in every:
                yield {
                    "test": f"{scenario.name}, {DIRECTIONS[way.name]}",
                    "s": round((second.at_ns - began) / 1e9, 3),
                    "mbit": float(f"{second.bits_per_second / 1e6:.5g}"),
                }


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The same for machines."""
    return {
        "throughput": [
            {
                "recording": recording.manifest.id,
                "scenario": scenario.name,
                "ended_early": test.ended_early,
                "ways": [
                    {
                        "way": way.name,
                        **_flow_as_json(way.total),
                        "streams": [{"stream": n, **_flow_as_json(flow)} for n, flow in way.streams],
                        "seconds": [
                            {"interval_ns": s.interval_ns, "bits_per_second": round(s.bits_per_second)}
                            for s in throughput.seconds(test, way.name)
                            if not s.omitted
                        ],
                    }
                    for way in test.ways
                ],
            }
            for scenario, recording, test in throughput.tests(analysis.scenarios)
        ],
        "silences": [_cost_as_json(c) for c in analysis.silences],
        "losses": [
            {
                "recording": recording.manifest.id,
                "scenario": scenario.name,
                "unanswered": recording.totals.unanswered,
                **{
                    name: getattr(losses, name)
                    for name in ("forward", "backward", "unknown", "duplicates", "reordered")
                },
            }
            for scenario, recording, losses in datagrams.lossy(analysis.scenarios)
        ],
        "one_ways": [
            {
                "recording": w.recording.manifest.id,
                "scenario": w.scenario,
                "forward_ns": w.forward_ns,
                "backward_ns": w.backward_ns,
                "error_ns": w.error_ns,
            }
            for w in analysis.one_ways
        ],
        "setups": [
            {"scenario": s.scenario, "connect_ns": _figures(s.connect), "tls_ns": _figures(s.tls)}
            for s in analysis.setups
        ],
    }


def _figures(of: dict[str, Estimate]) -> dict[str, int | None]:
    return {name: round(e.value) if e.shown else None for name, e in of.items()}


def _flow_as_json(flow: Flow) -> dict[str, Any]:
    return {
        "sent": _counted_as_json(flow.sent),
        "received": _counted_as_json(flow.received),
        "retransmits": flow.retransmits,
        "cwnd_bytes": _readings_as_json(flow.cwnd_bytes),
        "srtt_us": _readings_as_json(flow.srtt_us),
    }


def _counted_as_json(c: Transfer | None) -> dict[str, int] | None:
    if c is None:
        return None
    return {"bytes": c.bytes, "duration_ns": c.duration_ns, "bits_per_second": c.bits_per_second}


def _readings_as_json(r: Readings | None) -> dict[str, int] | None:
    return None if r is None else {"count": r.count, "min": r.min, "mean": r.mean, "max": r.max}


def _cost_as_json(c: Cost) -> dict[str, Any]:
    interval = c.median.cost_interval if c.median.decided else None
    return {
        "label": c.first.key.label,
        "gap_ns": c.gap_ns,
        "first": c.first.name,
        "warm": c.warm.name,
        "cost_ns": round(c.median.cost) if c.median.decided else None,
        "low_ns": round(interval.low) if interval else None,
        "high_ns": round(interval.high) if interval else None,
        "shown": c.median.shown,
    }


PICTURES: Final[Mapping[str, Picture]] = {
    "throughput": Picture(
        "rates",
        "Throughput over time",
        "Payload by the count of the probe's end, about a second each.",
        rates,
    ),
} | sections.pictures()
"""By the section that they stand in."""
