#!/usr/bin/env python3
"""Measures two builds beside each other: the figures of docs/benchmarks.md that a change to the probe may worsen.

    benches/pairs.py BEFORE AFTER [--rounds 12] [--only back-to-back]

Both builds run in turns within each round, each against its own reflector (core 1, the probe on core 0), and the order
changes from round to round. A figure is the median over the rounds of the ratio after / before, so that a host whose speed
drifts changes both. Quartiles are beside it: a difference that lies within them is not shown. Needs root for
/dev/cpu_dma_latency (Linux, Documentation/power/pm_qos_interface.rst); an otherwise idle machine; about 15 minutes.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from shared import awake, reflector

FIGURES = ("back-to-back", "cost", "connections", "once-a-second")
Summary = dict


def start(fathom: str, target: str, *options: str) -> subprocess.Popen:
    command = ["taskset", "-c", "0", fathom, "probe", target, "--quiet", "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def end(process: subprocess.Popen) -> Summary:
    """The probe's summary, with the CPU seconds that it used."""
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")
    return {**json.loads(text), "cpu_s": usage.ru_utime + usage.ru_stime}


def in_turns(rounds: int, builds: tuple[str, str], measure) -> list[tuple[Summary, Summary]]:
    pairs = []
    for i in range(rounds):
        order = (0, 1) if i % 2 else (1, 0)
        results = {which: measure(builds[which], f"{i}-{which}") for which in order}
        pairs.append((results[0], results[1]))
    return pairs


def tell(name: str, before: list[float], after: list[float], unit: str, scale: float = 1.0) -> None:
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    text = f"{statistics.median(before) / scale:,.3f} -> {statistics.median(after) / scale:,.3f} {unit}"
    print(f"{name:<42} ratio {middle:.3f} (quartiles {low:.3f} to {high:.3f}, {len(ratios)} rounds)  {text}")
    print(json.dumps({"figure": name, "unit": unit, "before": before, "after": after}), flush=True)


def back_to_back(builds, rounds: int, work: str) -> None:
    for name, options, hold in [
        ("blocking as it comes", [], False),
        ("blocking, no deep idle states", [], True),
        ("spinning", ["--spin"], False),
    ]:

        def measure(fathom, tag, options=options):
            with reflector(fathom, *options) as target:
                where = ["--record", f"{work}/{len(options)}{hold}{tag}"]
                return end(start(fathom, target, "--ping-pong", "--for", "2s", *options, *where))

        with awake(hold):
            pairs = in_turns(rounds, builds, measure)
        for quantile in ("p50", "p99"):
            values = [[s["rtt_ns"][quantile] for s in side] for side in zip(*pairs, strict=True)]
            tell(f"{name}, {quantile}", *values, "us", 1e3)
        rates = [[s["samples"] / 2 for s in side] for side in zip(*pairs, strict=True)]
        tell(f"{name}, round trips", *rates, "/s")


def cost_of_recording(builds, rounds: int, work: str) -> None:
    for name, options in [("blocking", []), ("spinning", ["--spin"])]:

        def measure(fathom, tag, options=options):
            with reflector(fathom, *options) as target, awake(True):
                run = ["--ping-pong", "--count", "50000", *options]
                on = end(start(fathom, target, *run, "--record", f"{work}/cost{len(options)}{tag}"))
                off = end(start(fathom, target, *run, "--no-record"))
                return {"ratio": on["rtt_ns"]["p50"] / off["rtt_ns"]["p50"]}

        pairs = in_turns(rounds, builds, measure)
        values = [[s["ratio"] for s in side] for side in zip(*pairs, strict=True)]
        tell(f"p50 with to without recording, {name}", *values, "")


def many_connections(builds, rounds: int, work: str) -> None:
    def measure(fathom, tag):
        with reflector(fathom) as target:
            where = ["--record", f"{work}/many{tag}"]
            s = end(start(fathom, target, "--connections", "10000", "--for", "15s", *where))
            if s["unanswered"] or s["not_sent"]:
                print(f"{fathom}: {s['unanswered']} unanswered, {s['not_sent']} not sent", file=sys.stderr)
            return s

    pairs = in_turns(rounds, builds, measure)
    for name, unit, scale, value in [
        ("10,000 connections at 1/s, lateness p99", "us", 1e3, lambda s: s["lateness_ns"]["p99"]),
        ("10,000 connections at 1/s, p50", "us", 1e3, lambda s: s["rtt_ns"]["p50"]),
        ("10,000 connections at 1/s, CPU", "s", 1, lambda s: s["cpu_s"]),
    ]:
        tell(name, *[[value(s) for s in side] for side in zip(*pairs, strict=True)], unit, scale)


def once_a_second(builds, rounds: int, work: str) -> None:
    """Both at the same time, so that both meet the same machine."""
    pairs = []
    for i in range(rounds):
        with reflector(builds[0]) as first, reflector(builds[1]) as second:
            run = ["--connections", "10", "--for", "40s"]
            processes = [
                start(fathom, target, *run, "--record", f"{work}/one{i}{which}")
                for which, (fathom, target) in enumerate(zip(builds, (first, second), strict=True))
            ]
            pairs.append(tuple(end(process) for process in processes))
    for name, unit, scale, value in [
        ("10 connections at 1/s, p50", "us", 1e3, lambda s: s["rtt_ns"]["p50"]),
        ("10 connections at 1/s, CPU", "s", 1, lambda s: s["cpu_s"]),
    ]:
        tell(name, *[[value(s) for s in side] for side in zip(*pairs, strict=True)], unit, scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the binary of before")
    parser.add_argument("after", help="the binary of after")
    parser.add_argument("--rounds", type=int, default=12, help="rounds back to back (default: %(default)s)")
    parser.add_argument("--only", choices=FIGURES, action="append", help="this figure only; may be given again")
    arguments = parser.parse_args()
    builds = tuple(str(pathlib.Path(path).resolve()) for path in (arguments.before, arguments.after))
    rounds = arguments.rounds
    with tempfile.TemporaryDirectory() as work:
        for name, measure, times in [
            ("back-to-back", back_to_back, rounds),
            ("cost", cost_of_recording, max(2, rounds // 2)),
            ("connections", many_connections, max(2, rounds // 3)),
            ("once-a-second", once_a_second, 2),
        ]:
            if not arguments.only or name in arguments.only:
                measure(builds, times, work)


if __name__ == "__main__":
    main()
