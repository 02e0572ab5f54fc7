"""Tools that write JSON: iperf3, irtt, flent, ethr."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Final

import numpy as np

from fathometer.counts import count
from fathometer.dataset.importers.base import (
    NO_SAMPLES,
    File,
    Imported,
    Importer,
    Options,
    Series,
    Summary,
    label_of,
    ns,
    shortened,
    unit_word,
)  # fmt: skip
from fathometer.dataset.importers.runs import documents
from fathometer.dataset.importers.totals import Total, totals

_MOST_BITS = 1 << 62
"""A second: above it the figure is none, and what holds it would not go into the summary."""


def _lines(file: File) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The objects of a file with one per line, and a note about broken lines."""
    objects, broken = [], 0
    for line in file.text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            broken += line.startswith("{")  # Others are words of a shell between.
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects, (f"left out: {count(broken, 'line')} of JSON that end too early",) if broken else ()


def _is_iperf3(file: File) -> bool:
    head = file.head
    return bool(re.search(r'"version":\s*"iperf 3', head) or re.match(r'\s*\{"event":\s*"start"', head)) or (
        '"intervals"' in head and '"test_start"' in head
    )


def _read_iperf3(file: File, options: Options) -> Imported:
    broken: tuple[str, ...] = ()
    if re.match(r'\s*\{"event"', file.head):
        events, broken = _lines(file)
        starts = [n for n, event in enumerate(events) if event.get("event") == "start"]
        runs = [events[a:b] for a, b in itertools.pairwise([0, *starts[1:], len(events)])]
        values = [_iperf3_streamed(run) for run in runs]
    else:
        values = documents(file)
    summaries = tuple(_iperf3(value, file, options, broken) for value in values)
    return Imported("iperf3", file.path, summaries=summaries)


def _iperf3_streamed(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Events of ``--json-stream`` as the one object of ``-J``."""
    last = {str(event.get("event")): event.get("data") for event in events}
    value: dict[str, Any] = {name: last[name] for name in ("start", "end", "error") if name in last}
    return {**value, "intervals": [event["data"] for event in events if event.get("event") == "interval"]}


def _iperf3(value: dict[str, Any], file: File, options: Options, broken: tuple[str, ...]) -> Summary:
    start, intervals, error = value.get("start", {}), value.get("intervals", []), value.get("error")
    end: Any = value.get("end", {})
    end = end if isinstance(end, dict) else {}
    notes = [f"iperf3 ended with an error: {shortened(str(error))}"] if error else []
    notes += broken
    points = []
    for interval in intervals:
        for stream in interval.get("streams", ()):
            if isinstance(stream.get("rtt"), int) and not stream.get("omitted") and stream["rtt"] > 0:
                points.append((ns(stream["end"], "s"), stream["rtt"] * 1_000))  # noqa: PERF401
    retransmits = sum(s.get("retransmits", 0) for i in intervals for s in i.get("streams", ()))
    throughput = _iperf3_carried(end, intervals)
    if not points and throughput is None:
        why = "; ".join(notes) or "it holds neither an rtt nor what was carried"
        raise file.bad(why, "run iperf3 -J to its end")
    if not points:
        notes.append("no interval holds an rtt: only the sending side of TCP has one")
    values = np.array([v for _, v in points])
    statistics = {"min": values.min(), "mean": values.mean(), "max": values.max()} if points else {}
    protocol = str(start.get("test_start", {}).get("protocol", "tcp")).lower()
    datagrams = end.get("sum")
    if isinstance(datagrams, dict) and isinstance(lost := datagrams.get("lost_packets"), int) and lost > 0:
        notes.append(f"lost: {lost:,} of {count(int(datagrams.get('packets', 0)), 'datagram')}")
    return Summary(
        label_of(file, options), "udp" if protocol == "udp" else "tcp",
        start.get("test_start", {}).get("blksize"), len(points),
        {name: int(value) for name, value in statistics.items()},
        series=tuple(points), throughput=throughput,
        cannot=_CANNOT if points else ("no round trips: iperf3 measured throughput alone",),
        notes=tuple(notes), extra={"retransmits": retransmits, "statistic": "kernel_srtt"},
        totals=_iperf3_totals(end, intervals),
    )  # fmt: skip


_CANNOT: Final = (
    "no application round trips: this is the kernel's smoothed RTT (TCP_INFO), once an interval",
    "no percentiles: smoothing takes the tail away",
)


def _iperf3_totals(end: dict[str, Any], intervals: list[dict[str, Any]]) -> tuple[Total, ...]:
    """The byte totals of the side whose intervals it prints: they reveal a missing interval."""
    sums = [s for i in intervals if isinstance(s := i.get("sum"), dict) and not s.get("omitted")]
    name = "sum_sent" if all(s.get("sender", True) for s in sums) else "sum_received"
    whole = end.get(name, end.get("sum"))
    printed = whole.get("bytes") if isinstance(whole, dict) else None
    each = [n for s in sums if isinstance(n := s.get("bytes"), int)]
    if not isinstance(printed, int) or not each or len(each) < len(sums):
        return ()
    # With threads, the counters of an interval and of the run are not read at the same moment.
    return (Total("bytes", printed, sum(each), apart=printed // (2 * len(each))),)


def _iperf3_carried(end: dict[str, Any], intervals: list[dict[str, Any]]) -> dict[str, int] | None:
    """What was sent and received, by the totals at its end, or else by its whole intervals."""
    carried = {}
    for name, ours in (("sum_sent", "sent_bits_per_s"), ("sum_received", "received_bits_per_s")):
        if (bits := _bits(end.get(name))) is not None:
            carried[ours] = bits
    if not carried and (bits := _bits(end.get("sum"))) is not None:
        carried["sent_bits_per_s"] = bits
    if not carried:
        sums = [s for i in intervals if isinstance(s := i.get("sum"), dict) and not s.get("omitted")]
        rates = [bits for s in sums if (bits := _bits(s)) is not None]
        if not rates:
            return None
        carried["sent_bits_per_s"] = sum(rates) // len(rates)
    again = end.get("sum_sent", {}).get("retransmits") if isinstance(end.get("sum_sent"), dict) else None
    if isinstance(again, int) and not isinstance(again, bool) and again >= 0:
        carried["retransmits"] = again
    return carried


def _bits(total: object) -> int | None:
    bits = total.get("bits_per_second") if isinstance(total, dict) else None
    if not isinstance(bits, (int, float)) or isinstance(bits, bool) or not 0 <= bits < _MOST_BITS:
        return None
    return round(bits)


def _is_irtt(file: File) -> bool:
    return '"irtt_version"' in file.head or ('"round_trips"' in file.text and '"config"' in file.text and
                                            file.head.lstrip().startswith("{"))  # fmt: skip


def _read_irtt(file: File, options: Options) -> Imported:
    return Imported("irtt", file.path, tuple(_irtt(value, file, options) for value in documents(file)))


def _irtt(value: dict[str, Any], file: File, options: Options) -> Series:
    trips = value.get("round_trips") or []
    notes, sent, rtt, answered, residence = [], [], [], [], []
    excluded = lost_up = lost_down = 0
    for trip in trips:
        client = trip.get("timestamps", {}).get("client", {})
        server = trip.get("timestamps", {}).get("server", {})
        send, receive = client.get("send", {}), client.get("receive", {})
        if "wall" not in send:
            continue
        back = str(trip.get("lost")) == "false"
        lost_up += trip.get("lost") == "true_up"
        lost_down += trip.get("lost") == "true_down"
        whole = receive.get("monotonic", 0) - send.get("monotonic", 0)
        if back and whole <= 0:
            whole = trip.get("delay", {}).get("rtt", 0)
        stays = [server.get(w, {}).get("monotonic") for w in ("receive", "send")]
        stay = stays[1] - stays[0] if None not in stays else -1
        excluded += back and whole != trip.get("delay", {}).get("rtt", whole)
        sent.append(send["wall"])
        rtt.append(whole if back else 0)
        answered.append(back)
        residence.append(stay if back else -1)
    if not sent:
        raise file.bad("irtt's output without a round trip")
    if excluded:
        notes.append(
            "irtt's rtt leaves the server's time out; the round trips here are whole, with it as reflector_ns"
        )
    if lost_up or lost_down:
        notes.append(
            f"irtt tells the direction of loss: {lost_up} on the way there, {lost_down} on the way back"
        )
    notes.append("these are datagrams (UDP): loss is loss, and nothing is sent again")
    params = value.get("config", {}).get("params", {})
    stats = value.get("stats")
    packets = [
        stats.get(n) if isinstance(stats, dict) else None for n in ("packets_sent", "packets_received")
    ]
    return Series(
        label_of(file, options), "udp", params.get("length", options.size),
        np.array(sent, dtype=np.int64), np.array(rtt, dtype=np.int64), np.array(answered, dtype=np.bool_),
        interval_ns=params.get("interval"), reflector_ns=np.array(residence, dtype=np.int64),
        reflector=value.get("config", {}).get("remote_address", ""), notes=tuple(notes),
        totals=totals(
            ("packets sent", packets[0], len(sent)), ("packets received", packets[1], sum(answered))
        ),
    )  # fmt: skip


def _is_flent(file: File) -> bool:
    return '"x_values"' in file.text and '"results"' in file.text and '"raw_values"' in file.text


def _read_flent(file: File, options: Options) -> Imported:
    series, summaries = [], []
    named = (point for value in documents(file) for point in (value.get("raw_values") or {}).items())
    for name, points in named:
        values = [p for p in points if isinstance(p, dict) and p.get("val") is not None and "t" in p]
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64]
        if not values or not re.search(r"ping|rtt|latency", name, re.IGNORECASE):
            continue
        sent = np.array([ns(p["t"], "s") for p in values], dtype=np.int64)
        if re.search(r"icmp|fping", name, re.IGNORECASE):
            rtt = np.array([ns(p["val"], "ms") for p in values], dtype=np.int64)
            series.append(
                Series(
                    label_of(file, options, slug), "icmp", options.size, sent, rtt, np.ones(rtt.size,
                    dtype=np.bool_), interval_ns=int(np.median(np.diff(sent))) if sent.size > 2 else None,
                    notes=("flent keeps what came back: lost probes have no row",
                           "ICMP is not what TCP sees under accelerated networking"),
                )
            )  # fmt: skip
            continue
        # A netperf series counts transactions a second: its inverse is a mean by interval, not a sample.
        timed = zip((sent - sent[0]).tolist(), values, strict=True)
        means = [(t, ns(1 / p["val"], "s")) for t, p in timed if p["val"] > 0]
        if means:
            inverse = np.array([m for _, m in means])
            summaries.append(
                Summary(
                    label_of(file, options, slug),
                    "udp-ping-pong" if "udp" in name.lower() else "tcp-ping-pong",
                    options.size, None,
                    {"min": int(inverse.min()), "mean": int(inverse.mean()), "max": int(inverse.max())},
                    series=tuple(means),
                    cannot=("no samples, no percentiles: these are means over intervals, the extremes, too",),
                    notes=("netperf's transactions a second are inverted",),
                    extra={"statistic": "mean_by_interval"},
                )
            )  # fmt: skip
    if not series and not summaries:
        raise file.bad("flent's data without a series of round trips", "use a test with ping in it, as rrul")
    return Imported("flent", file.path, tuple(series), tuple(summaries))


_ETHR = ("P50", "P90", "P95", "P99", "P999", "P9999", "Max")


def _is_ethr(file: File) -> bool:
    return '"LatencyResult"' in file.head


def _duration(value: object) -> int:
    """``12.3us``, as Go prints a duration; a bare number is ns."""
    match = re.fullmatch(r"\s*([\d.]+)\s*([a-zµμ]*)\s*", str(value))
    if match is None:
        raise ValueError(f"{value!r} is no duration")
    return ns(match[1], unit_word(match[2]) if match[2] else "ns")


def _read_ethr(file: File, options: Options) -> Imported:
    lines, broken = _lines(file)
    results = [line for line in lines if line.get("Type") == "LatencyResult"]
    summaries = []
    for number, result in enumerate(results):
        figures = {k.lower(): _duration(v) for k, v in result.items() if k in {"Avg", "Min", "Max"} or
        (k.startswith("P")
                 and k in _ETHR)}  # fmt: skip
        notes = list(broken) if number == 0 else []
        order = [figures[k.lower()] for k in _ETHR if k.lower() in figures]
        if len(order) == len(_ETHR) and order[0] > order[1]:
            # At HEAD each value stands one field too far: P50 holds the maximum.
            order = [*order[1:], order[0]]
            notes.append("ethr's fields were rotated by one (P50 held the maximum): put right")
        elif order != sorted(order):
            notes.append("ethr's percentiles do not rise, and no rotation explains it: do not rely on them")
        names = ("p50", "p90", "p95", "p99", "p99_9", "p99_99", "max")
        statistics = dict(zip(names, order, strict=False)) if len(order) == len(_ETHR) else {}
        statistics |= {
            ours: figures[own] for ours, own in (("mean", "avg"), ("min", "min")) if own in figures
        }
        at = result.get("Time")
        summaries.append(
            Summary(
                label_of(file, options, str(number) if len(results) > 1 else ""),
                f"{str(result.get('Protocol', 'tcp')).lower()}-ping-pong", options.size, None, statistics,
                cannot=NO_SAMPLES, notes=tuple(notes), extra={"at": at if isinstance(at, str) else None},
            )
        )  # fmt: skip
    if not summaries:
        raise file.bad("ethr's log without a LatencyResult")
    return Imported("ethr", file.path, summaries=tuple(summaries))


IPERF3 = Importer("iperf3", "-J and --json-stream: the kernel's smoothed RTT", _is_iperf3, _read_iperf3)
IRTT = Importer("irtt", "-o FILE.json", _is_irtt, _read_irtt)
FLENT = Importer("flent", "the .flent or .flent.gz data file", _is_flent, _read_flent)
ETHR = Importer("ethr", "the log of ethr -t l", _is_ethr, _read_ethr)
