"""sockperf: ``--full-log`` (samples), or the summary that it prints."""

from __future__ import annotations

import re

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
    exact,
    label_of,
    ns,
    read_csv,
)  # fmt: skip

_HEADER = re.compile(rb"^packet, ?txTime\(sec\), ?rxTime\(sec\), ?(rtt|latency)\(usec\)[ \t]*$", re.MULTILINE)
_SUMMARY = re.compile(r"Summary: (?:Latency|Round trip|RTT)[^\n]{0,200}? is ([\d.]+) usec", re.IGNORECASE)
_PERCENTILE = re.compile(r"percentile ([\d.]+)\s*=\s*([\d.]+)")
_EXTREME = re.compile(r"<(MIN|MAX)> observation\s*=\s*([\d.]+)")
_AVERAGE = re.compile(r"avg-(latency|rtt)=\s*([\d.]+)\s*\(std-dev=\s*([\d.]+)", re.IGNORECASE)
_HALVED = "sockperf printed latency = RTT/2 (no --full-rtt); "


def _detect(file: File) -> bool:
    return "txTime(sec)" in file.head or re.search(r"^sockperf:", file.head, re.MULTILINE) is not None


def _read(file: File, options: Options) -> Imported:
    header = _HEADER.search(file.data)
    return (
        Imported("sockperf", file.path, (_samples(file, options, header),))
        if header
        else _summary(file, options)
    )


def _facts(text: str, options: Options) -> tuple[int | None, str]:
    size = re.search(r"--?msg-size[= ](\d+)", text)
    return (int(size[1]) if size else options.size), "udp" if re.search(r"# UDP\b", text) else "tcp"


def _samples(file: File, options: Options, header: re.Match[bytes]) -> Series:
    end = file.data.find(b"\n---", header.end())
    columns = read_csv(file, header.start(), end + 1 if end >= 0 else None)
    sent, sent_there = exact(columns["txTime(sec)"], "s", what="txTime", file=file)
    received, received_there = exact(columns["rxTime(sec)"], "s", what="rxTime", file=file)
    packet, _ = exact(columns["packet"], "ns", what="packet", file=file)
    whole = sent_there & received_there
    sent, received, packet = sent[whole], received[whole], packet[whole]
    notes: list[str] = []
    if header[1] == b"latency":
        notes.append(_HALVED + "the round trips here are rxTime - txTime")
    if sent.size:
        lost = int(packet.max()) + 1 - sent.size
        if lost > 0:
            notes.append(f"lost: {count(lost, 'message')}; the file does not say when they were sent")
    else:
        notes.append("its log holds no sample: sockperf loses them when the server goes away")
    negative = received < sent
    if negative.any():
        notes.append(
            f"received before they were sent: {count(int(negative.sum()), 'row')}, which count as unanswered"
        )
    head = file.data[: header.start()].decode("utf-8", "replace")
    if re.search(r"dropped messages = 0", head) is None and "dropped messages" in head:
        match = re.search(r"dropped messages = (\d+)", head)
        notes.append(f"messages that sockperf counts as dropped: {match[1] if match else '?'}")
    span = int(sent.max()) if sent.size else 0
    began = file.started_ns(options, span, notes)
    size, mode = _facts(head, options)
    return Series(
        label_of(file, options),
        mode,
        size,
        began + sent,
        np.maximum(received - sent, 0),
        ~negative,
        notes=tuple(notes),
    )


def _summary(file: File, options: Options) -> Imported:
    text = file.text
    average, line = _AVERAGE.search(text), _SUMMARY.search(text)
    if average is None and line is None:
        raise file.bad(
            "sockperf's output without a result (it prints none when the server goes away)",
            "run it with --full-log",
        )
    halved = average is None or average[1].lower() == "latency"
    factor = 2 if halved else 1
    statistics: dict[str, int] = {}
    for which, value in _EXTREME.findall(text):
        statistics[which.lower()] = factor * ns(value, "us")
    if average:
        statistics["mean"], statistics["stddev"] = (
            factor * ns(average[2], "us"),
            factor * ns(average[3], "us"),
        )
    elif line:
        statistics["mean"] = factor * ns(line[1], "us")
    for percent, value in _PERCENTILE.findall(text):
        statistics[f"p{float(percent):g}".replace(".", "_")] = factor * ns(value, "us")
    count = re.search(r"Total (\d+) observations", text)
    size, mode = _facts(text, options)
    return Imported(
        "sockperf",
        file.path,
        summaries=(
            Summary(
                label_of(file, options),
                mode,
                size,
                int(count[1]) if count else None,
                statistics,
                cannot=NO_SAMPLES,
                notes=(_HALVED + "all of them are doubled",) if halved else (),
            ),
        ),
    )


IMPORTER = Importer("sockperf", "--full-log, or the printed summary", _detect, _read)
