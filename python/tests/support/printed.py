# ruff: noqa: E501, ISC004 - tables as their tools print them
"""Outputs of tools as they print them, generated from the round trip of each message in us, None if lost.
Each form gives text that ends with the tool's own totals.
"""

from __future__ import annotations

import json

START_S = 1_750_000_000


def _ms(us):
    return f"{us / 1000:.3f}"


def _replies(trips, line, silence=None, first=0):
    for number, us in enumerate(trips, first):
        if us is not None:
            yield line(number, us)
        elif silence is not None:
            yield silence(number)


def _percent(trips):
    return round(100 * trips.count(None) / len(trips))


def _unix(trips, head, lines, totals):
    answered = len(trips) - trips.count(None)
    return (
        "\n".join([head, *lines, "", "--- 10.0.0.9 ping statistics ---", totals(len(trips), answered)]) + "\n"
    )


def fping(trips, *, host="10.0.0.9"):
    """Version 5 with -D -c: it prints a line for each packet."""
    lines, answered = [], 0
    for number, us in enumerate(trips):
        answered += us is not None
        share = f"{round(100 * (number + 1 - answered) / (number + 1))}% loss"
        if us is None:
            lines.append(f"[{START_S + number + 1}.000000] {host} : [{number}], timed out (no avg, {share})")
        else:
            at = (START_S + number) * 1_000_000 + us
            stamp = f"{at // 1_000_000}.{at % 1_000_000:06}"
            lines.append(f"[{stamp}] {host} : [{number}], 64 bytes, {us / 1000} ms (0.50 avg, {share})")
    loss = round(100 * (len(trips) - answered) / len(trips))
    total = f"{host} : xmt/rcv/%loss = {len(trips)}/{answered}/{loss}%"
    return "\n".join([*lines, "", total + (", min/avg/max = 0.1/0.2/0.3" if answered else "")]) + "\n"


def iputils(trips, *, stamped=False, told=False):
    """Linux; with -D, with -O."""

    def line(number, us):
        stamp = f"[{START_S + number}.{us:06}] " if stamped else ""
        return f"{stamp}64 bytes from 10.0.0.9: icmp_seq={number} ttl=64 time={_ms(us)} ms"

    silence = (lambda number: f"no answer yet for icmp_seq={number}") if told else None
    return _unix(
        trips,
        "PING 10.0.0.9 (10.0.0.9) 56(84) bytes of data.",
        _replies(trips, line, silence, first=1),
        lambda sent, back: (
            f"{sent} packets transmitted, {back} received, {_percent(trips)}% packet loss, time 9ms"
        ),
    )


def iputils_stamped(trips):
    """With -D."""
    return iputils(trips, stamped=True)


def iputils_told(trips):
    """With -O."""
    return iputils(trips, told=True)


def _bsd_totals(sent, back):
    return f"{sent} packets transmitted, {back} packets received, {round(100 - 100 * back / sent)}.0% packet loss"


def bsd(trips):
    """FreeBSD, OpenBSD, inetutils: numbers from 0."""
    return _unix(
        trips,
        "PING 10.0.0.9 (10.0.0.9): 56 data bytes",
        _replies(trips, lambda n, us: f"64 bytes from 10.0.0.9: icmp_seq={n} ttl=64 time={_ms(us)} ms"),
        _bsd_totals,
    )


def macos(trips):
    """macOS tells of each time-out."""
    return _unix(
        trips,
        "PING 10.0.0.9 (10.0.0.9): 56 data bytes",
        _replies(
            trips,
            lambda n, us: f"64 bytes from 10.0.0.9: icmp_seq={n} ttl=64 time={_ms(us)} ms",
            lambda n: f"Request timeout for icmp_seq {n}",
        ),
        _bsd_totals,
    )


def busybox(trips):
    """busybox writes seq= alone."""
    return _unix(
        trips,
        "PING 10.0.0.9 (10.0.0.9): 56 data bytes",
        _replies(trips, lambda n, us: f"64 bytes from 10.0.0.9: seq={n} ttl=64 time={_ms(us)} ms"),
        lambda sent, back: (
            f"{sent} packets transmitted, {back} packets received, {_percent(trips)}% packet loss"
        ),
    )


def windows(trips):
    """Windows prints whole milliseconds, and nothing but lines in order."""
    lines = _replies(
        trips,
        lambda _, us: (
            f"Reply from 10.0.0.9: bytes=32 time{f'={us // 1000}' if us >= 1000 else '<1'}ms TTL=64"
        ),
        lambda _: "Request timed out.",
    )
    lost = trips.count(None)
    return "\n".join(
        [
            "",
            "Pinging host.example [10.0.0.9] with 32 bytes of data:",
            *lines,
            "",
            "Ping statistics for 10.0.0.9:",
            f"    Packets: Sent = {len(trips)}, Received = {len(trips) - lost}, Lost = {lost} ({_percent(trips)}% loss),",
            "Approximate round trip times in milli-seconds:",
            "    Minimum = 1ms, Maximum = 2ms, Average = 1ms",
            "",
        ]
    )


def windows_german(trips):
    """The same in German, where the share stands on a line of its own."""
    lines = _replies(
        trips,
        lambda _, us: (
            f"Antwort von 10.0.0.9: Bytes=32 Zeit{f'={us // 1000}' if us >= 1000 else '<1'}ms TTL=64"
        ),
        lambda _: "Zeitüberschreitung der Anforderung.",
    )
    lost = trips.count(None)
    return "\n".join(
        [
            "",
            "Ping wird ausgeführt für host.example [10.0.0.9] mit 32 Bytes Daten:",
            *lines,
            "",
            "Ping-Statistik für 10.0.0.9:",
            f"    Pakete: Gesendet = {len(trips)}, Empfangen = {len(trips) - lost}, Verloren = {lost}",
            f"    ({_percent(trips)}% Verlust),",
            "Ca. Zeitangaben in Millisek.:",
            "    Minimum = 1ms, Maximum = 2ms, Mittelwert = 1ms",
            "",
        ]
    )


PINGS = (iputils, iputils_stamped, iputils_told, bsd, macos, busybox, windows, windows_german)


def sockperf_log(trips):
    """--full-log of datagrams: what was dropped has no row and no number."""
    rows = [(2 + n / 100, us) for n, us in enumerate(trips) if us is not None]
    lost = trips.count(None)
    return "\n".join(
        [
            "------------------------------",
            "test was performed using the following parameters: --mps=100 --burst=1 --reply-every=1 --msg-size=14 "
            "--time=2",
            "------------------------------",
            f"sockperf: [Total Run] RunTime=9.000 sec; Warm up time=400 msec; SentMessages={len(trips) + 45}; "
            f"ReceivedMessages={len(rows) + 45}",
            "sockperf: ========= Printing statistics for Server No: 0",
            f"sockperf: [Valid Duration] RunTime=8.550 sec; SentMessages={len(trips)}; ReceivedMessages={len(rows)}",
            "sockperf: ====> avg-latency=40.0 (std-dev=2.0)",
            f"sockperf: # dropped messages = {lost}; # duplicated messages = 0; # out-of-order messages = 0",
            f"sockperf: Total {len(rows)} observations; each percentile contains 1.00 observations",
            "------------------------------",
            "packet, txTime(sec), rxTime(sec), latency(usec)",
            *(f"{i}, {at:.9f}, {at + us / 1e6:.9f}, {us / 2:.3f}" for i, (at, us) in enumerate(rows)),
            "------------------------------",
            "",
        ]
    )


def irtt(trips):
    """-o FILE."""
    at = START_S * 10**9
    rows = []
    for number, us in enumerate(trips):
        sent, back = at + number * 10**7, number * 10**7 + 1000 * (us or 0)
        client = {"send": {"wall": sent, "monotonic": number * 10**7}}
        if us is not None:
            client["receive"] = {"wall": sent + 1000 * us, "monotonic": back}
        rows.append({"seqno": number, "lost": "false" if us is not None else "true_down",
                     "timestamps": {"client": client, "server": {}},
                     "delay": {"rtt": 1000 * us} if us is not None else {}})  # fmt: skip
    stats = {"packets_sent": len(trips), "packets_received": len(trips) - trips.count(None)}
    return json.dumps(
        {
            "version": {"irtt_version": "1"},
            "config": {"params": {"length": 60}},
            "stats": stats,
            "round_trips": rows,
        }
    )


def psping(trips):
    """TCP connections with a histogram; the lost ones are counted alone."""
    back = [us for us in trips if us is not None]
    lost = trips.count(None)
    return "\n".join(
        [
            "TCP connect to 10.0.0.9:443:",
            f"{len(trips) + 2} iterations (warmup 2) ping test:",
            "",
            "TCP connect statistics for 10.0.0.9:443:",
            f"  Sent = {len(trips)}, Received = {len(back)}, Lost = {lost} ({_percent(trips)}% loss),",
            f"  Minimum = {min(back) / 1000:.2f}ms, Maximum = {max(back) / 1000:.2f}ms, Average = 1.00ms",
            "",
            "Latency\tCount",
            *(f"{us / 1000:.2f}\t{back.count(us)}" for us in sorted(set(back))),
            "",
        ]
    )
