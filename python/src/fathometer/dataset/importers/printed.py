"""Tools that print a summary as text: latte and lagscope, PsPing, qperf."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from fathometer.counts import count as _count
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.importers.base import (
    NO_SAMPLES,
    File,
    Imported,
    Importer,
    Options,
    Summary,
    counted,
    label_of,
    ns,
    unit_word,
)  # fmt: skip
from fathometer.dataset.importers.runs import alone, cut
from fathometer.dataset.importers.totals import totals

# Expressions that begin or end with what may be long (blank lines, digits) are bound to a line or to a word:
# a hostile file must not make them look at the same letters again and again.
_NUMBER = r"([\d.]+(?:[eE][+-]?\d+)?)"
_LATTE_RUN = re.compile(r"^\ufeff?(?:Protocol[ \t]|[ \t]*lagscope[ \t]+v?\d)", re.MULTILINE | re.IGNORECASE)


def _is_latte(file: File) -> bool:
    return bool(
        re.search(r"Interval\(usec\)\s+Frequency|^[ \t]*Latency\(usec\)\s|lagscope", file.head, re.MULTILINE)
    )


def _read_latte(file: File, options: Options) -> Imported:
    tool = "lagscope" if "lagscope" in file.text.lower() else "latte"
    runs = cut(file.text, _LATTE_RUN)
    return Imported(tool, file.path, summaries=tuple(_latte(text, file, options) for text in runs))


def _latte(text: str, file: File, options: Options) -> Summary:
    alone(file, text, r"Latency\(usec\)\s+\d", r"Average\s*=", r"Interval\(usec\)\s+Frequency")
    statistics: dict[str, int] = {}
    latency = re.search(r"Latency\(usec\)\s+" + _NUMBER, text)
    if latency:
        statistics["mean"] = ns(latency[1], "us")
    for name, word in (("min", "Minimum"), ("max", "Maximum"), ("mean", "Average")):
        match = re.search(word + r"\s*=\s*" + _NUMBER + r"\s*(us|ms|usec|msec)", text, re.IGNORECASE)
        if match:
            statistics[name] = ns(match[1], unit_word(match[2]))
    for percent, value in re.findall(r"^[ \t]*(\d{2}(?:\.\d+)?)%[ \t]+" + _NUMBER, text, re.MULTILINE):
        statistics[f"p{float(percent):g}".replace(".", "_")] = ns(value, "us")
    size = re.search(r"(?:MsgSize\(byte\)\s+|message size\W+)(\d+)", text, re.IGNORECASE)
    iterations = re.search(r"Iterations\s+(\d+)", text)
    table = re.split(r"Interval\(usec\)\s+Frequency", text, maxsplit=1)
    found_rows = (
        re.findall(r"^[ \t]*(\d+)[ \t]+(\d+)[ \t]*$", table[1], re.MULTILINE) if len(table) > 1 else []
    )
    rows = [(int(a), int(n)) for a, n in found_rows]
    notes = []
    count = int(iterations[1]) if iterations else (sum(n for _, n in rows) or None)
    bin_us = min((b - a for (a, _), (b, _) in itertools.pairwise(rows) if b > a), default=1)
    histogram = None
    if rows:
        values = [a * 1_000 + bin_us * 500 for a, _ in rows]
        histogram = counted(values, [n for _, n in rows], statistics.get("min"), statistics.get("max"))
        outside = (count or 0) - histogram.count
        if outside > 0:
            notes.append(
                f"values outside the capped histogram: {outside} of {count} (unless rows of the file are "
                "missing); quantiles above it are not known"
            )
        mean = statistics.get("mean")
        if mean and histogram.mean_ns and outside <= 0 and abs(histogram.mean_ns / mean - 1) > 0.25:
            notes.append(
                f"the histogram's mean is {histogram.mean_ns / 1e3:.1f} us, the printed one {mean / 1e3:.1f}"
            )
    if not statistics and histogram is None:
        raise file.bad("latte's or lagscope's output without a result")
    udp = re.search(r"^Protocol\s+UDP\b", text, re.MULTILINE)
    mode = "udp-ping-pong" if udp else "tcp-ping-pong"
    cannot = NO_SAMPLES if rows else (*NO_SAMPLES, "no percentiles: run latte with -hist")
    # A capped histogram may hold fewer values than there were iterations, and never more.
    beyond = max((histogram.count if histogram else 0) - (count or 0), 0)
    return Summary(
        label_of(file, options), mode, int(size[1]) if size else options.size, count, statistics,
        histogram=histogram, bin_ns=bin_us * 1_000 if rows else None, cannot=cannot, notes=tuple(notes),
        totals=totals(("iterations", count, (count or 0) + beyond)),
    )  # fmt: skip


def _is_psping(file: File) -> bool:
    # ethr's result of connections has the same title, and no share of the lost; Windows' ping has "Packets:".
    return bool(
        re.search(
            r"PsPing|Maxiumum = |^[ \t]+Sent = \d+, Received = \d+, Lost = \d+ \(\d+% loss\),$",
            file.head,
            re.MULTILINE,
        )
    )


_PSPING_RUN = re.compile(
    r"^(?:TCP connect to |Pinging |(?:TCP|UDP) latency test connecting to )", re.MULTILINE
)
_PSPING_HUNDREDTH_NS = 10_000
"""PsPing prints hundredths of a millisecond."""


def _psping_mode(text: str) -> str:
    for words, mode in (
        ("TCP connect", "connect"),
        ("UDP latency test", "udp-ping-pong"),
        ("TCP latency test", "tcp-ping-pong"),
    ):
        if words in text:
            return mode
    return "icmp"


def _psping_histogram(rows: list[tuple[int, int]], statistics: dict[str, int]) -> tuple[Histogram, int]:
    """What the rows (where a bucket begins in ns, count) say, each in the middle of its bucket; the last one
    ends with the greatest value. With it the width of the widest bucket that has a value.
    """
    begins = [begin for begin, _ in rows]
    last = max(begins[-1], statistics.get("max", 0))
    buckets = [(begin, end, n) for (begin, n), end in zip(rows, [*begins[1:], last], strict=True)]
    values = [(begin + end) // 2 for begin, end, _ in buckets]
    histogram = counted(values, [n for _, _, n in buckets], statistics.get("min"), statistics.get("max"))
    return histogram, max((end - begin for begin, end, n in buckets if n), default=0)


def _read_psping(file: File, options: Options) -> Imported:
    runs = cut(file.text, _PSPING_RUN)
    return Imported("psping", file.path, summaries=tuple(_psping(text, file, options) for text in runs))


def _psping(text: str, file: File, options: Options) -> Summary:
    alone(file, text, r"Average = ", r"^[ \t]*Latency[ \t]+Count[ \t]*$")
    statistics: dict[str, int] = {}
    for name, word in (("min", "Minimum"), ("max", "Max(?:iu|i)mum"), ("mean", "Average")):
        match = re.search(word + r" = " + _NUMBER + r"\s*(ms|us|s)\b", text)
        if match:
            statistics[name] = ns(match[1], match[2])
    table = re.split(r"^[ \t]*Latency[ \t]+Count[ \t]*$", text, maxsplit=1, flags=re.MULTILINE)
    after = table[1] if len(table) > 1 else ""
    found_rows = re.findall(r"^[ \t]*" + _NUMBER + r"[ \t]+(\d+)[ \t]*$", after, re.MULTILINE)
    rows = [(ns(begin, "ms"), int(n)) for begin, n in found_rows]
    sent, received, lost = (
        int(match[1]) if (match := re.search(word + r" = (\d{1,18})\b", text, re.MULTILINE)) else None
        for word in (r"^[ \t]+Sent", r", Received", r", Lost")
    )
    if not statistics and not rows:
        raise file.bad("PsPing's output without a result" + (f" ({sent} sent, {lost} lost)" if lost else ""))
    notes = ["PsPing prints hundredths of a millisecond: a resolution of 10 us"]
    if lost:
        notes.append(f"{lost} of {sent} were not answered")
    histogram, bin_ns = _psping_histogram(rows, statistics) if rows else (None, None)
    size = re.search(r"\b(\d+) bytes?\b", text)
    # Its latency test counts what was sent, and knows no loss.
    answered = sent if received is None else received
    whole = totals(("requests sent", sent, (answered or 0) + (lost or 0)))
    if histogram is not None:
        whole += totals(("round trips", answered, histogram.count))
    return Summary(
        label_of(file, options),
        _psping_mode(text),
        int(size[1]) if size else options.size,
        (histogram.count if histogram else None) or answered,
        statistics,
        histogram=histogram,
        bin_ns=None if bin_ns is None else max(bin_ns, _PSPING_HUNDREDTH_NS),
        cannot=NO_SAMPLES if rows else (*NO_SAMPLES, "no percentiles: run PsPing with -h"),
        notes=tuple(notes),
        totals=whole,
    )


def _is_qperf(file: File) -> bool:
    return bool(re.search(r"^(tcp|udp|sctp|rc|ud)_lat:\s*$", file.head, re.MULTILINE))


def _read_qperf(file: File, options: Options) -> Imported:
    blocks = re.split(r"^(\w+_lat):\s*$", file.text, flags=re.MULTILINE)[1:]
    summaries: list[Summary] = []
    for test, block in zip(blocks[::2], blocks[1::2], strict=True):
        latency = re.search(r"\blatency\s*=\s*([\d.,]+)\s*(ns|us|ms|sec|s)\b", block)
        if latency is None:
            continue
        size = re.search(r"msg_size\s*=\s*([\d.,]+)\s*(bytes|KiB|KB|MiB|MB)?", block)
        scale = {"KiB": 1_024, "KB": 1_000, "MiB": 1_048_576, "MB": 1_000_000}.get(
            (size[2] or "") if size else "", 1
        )
        bytes_each_way = int(float(size[1].replace(",", "")) * scale) if size else options.size
        summaries.append(
            Summary(
                label_of(file, options, str(bytes_each_way) if size else ""),
                "tcp-ping-pong" if test == "tcp_lat" else test.removesuffix("_lat") + "-ping-pong",
                bytes_each_way,
                None,
                {"mean": 2 * ns(latency[1].replace(",", ""), unit_word(latency[2]))},
                cannot=(*NO_SAMPLES, "no percentiles and no extremes: qperf prints one mean"),
                notes=("qperf prints half of the mean round trip; it is doubled",),
            )
        )
    if not summaries:
        raise file.bad("qperf's output without a latency (it prints none when the server goes away)")
    if without := len(blocks) // 2 - len(summaries):
        note = f"left out: {_count(without, 'test')} without a latency (the server went away?)"
        summaries[0] = replace(summaries[0], notes=(*summaries[0].notes, note))
    return Imported("qperf", file.path, summaries=tuple(summaries))


LATTE = Importer("latte", "latte's and lagscope's printed result and histogram", _is_latte, _read_latte)
PSPING = Importer("psping", "PsPing's result, with -h its histogram", _is_psping, _read_psping)
QPERF = Importer("qperf", "tcp_lat and udp_lat, sweeps over msg_size included", _is_qperf, _read_qperf)
