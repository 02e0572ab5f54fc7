#!/usr/bin/env python3
"""The figures of docs/benchmarks.md: a readable line and a JSON line each.

The reflector is pinned to core 1, the probe to core 0."""

import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from shared import reflector

RELEASE = pathlib.Path(__file__).resolve().parent.parent / "target/release/fathom"
FIGURES = ("one", "many", "cost", "stamps")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="shorten every run")
parser.add_argument("--only", choices=FIGURES, action="append", help="this figure only; may be given again")
parser.add_argument(
    "--fathom", default=str(RELEASE), metavar="FILE", help="the binary to measure (default: %(default)s)"
)
ARGUMENTS = parser.parse_args()
FATHOM, QUICK = ARGUMENTS.fathom, ARGUMENTS.quick


def peak_bytes(pid):
    """The peak resident memory of a running process, or None once it has gone. (ru_maxrss would count what this
    script held when it forked.)"""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def probe(target, *extra):
    """Runs a probe; returns its summary, its peak resident bytes (seen twice a second) and its CPU seconds."""
    command = [FATHOM, "probe", target, "--quiet", "--json", "--cpu", "0", *extra]
    peak = 0
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            peak = max(peak, peak_bytes(process.pid) or 0)
            time.sleep(0.5)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}")
        out.seek(0)
        return json.loads(out.read()), peak, usage.ru_utime + usage.ru_stime


def tell(name, text, **figures):
    print(f"{name:<12} {text}")
    print(json.dumps({"figure": name, "quick": QUICK, **figures}), flush=True)


def one_connection(work):
    seconds = 60 if QUICK else 600
    # With the pause clock, which has a budget of its own, and without.
    for name, options in [("one", ["--pause-clock", "off"]), ("one+pauses", [])]:
        with reflector(FATHOM) as target:
            _, rss, cpu = probe(target, "--for", f"{seconds}s", "--record", f"{work}/{name}", *options)
        share = 100 * cpu / seconds
        text = f"{rss / 2**20:.1f} MiB peak, {share:.3f} % of a core over {seconds} s"
        tell(name, text, rss_bytes=rss, cpu_percent=share)


def many_connections(work):
    seconds = 20 if QUICK else 60
    with reflector(FATHOM) as target:
        s, rss, cpu = probe(
            target, "--connections", "10000", "--connect-rate", "0", "--for", f"{seconds}s", "--record", f"{work}/many"
        )
    p99 = s["lateness_ns"]["p99"]
    lost = s["events"].get("recording.overflowed", 0)
    tell(
        "10,000",
        f"{s['samples']} samples, {s['unanswered']} unanswered, {s['not_sent']} not sent, {lost} overflows,"
        f" lateness p99 {p99 / 1e6:.3f} ms, {100 * cpu / seconds:.0f} % of a core, {rss / 2**20:.1f} MiB",
        samples=s["samples"], unanswered=s["unanswered"], not_sent=s["not_sent"], overflows=lost, lateness_p99_ns=p99,
    )  # fmt: skip


def recording_cost(work):
    rounds, count = (3, 20_000) if QUICK else (10, 100_000)
    last = None
    for mode in ([], ["--spin"]):
        ratios, with_ns = [], []
        for i in range(rounds):
            last = f"{work}/cost{len(mode)}-{i}"
            medians = {}
            order = ["on", "off"] if i % 2 else ["off", "on"]
            with reflector(FATHOM, *mode) as target:
                for kind in order:
                    where = ["--record", last] if kind == "on" else ["--no-record"]
                    s, _, _ = probe(target, "--ping-pong", "--count", str(count), *mode, *where)
                    medians[kind] = s["rtt_ns"]["p50"]
            ratios.append(medians["on"] / medians["off"])
            with_ns.append(medians["on"])
        name = "spinning" if mode else "blocking"
        ratio = statistics.median(ratios)
        tell(
            f"cost {name}", f"ratio of p50 with to without recording: {ratio:.4f} over {rounds} rounds",
            ratio=ratio, ratios=ratios, p50_ns=statistics.median(with_ns),
        )  # fmt: skip
    size = sum(f.stat().st_size for f in pathlib.Path(last).glob("samples-*.parquet"))
    tell(
        "bytes",
        f"{size / count:.2f} bytes a sample in closed segments",
        bytes_per_sample=size / count,
        samples=count,
    )


def median_period_ns(recording):
    """From one send to the next."""
    export = subprocess.run(
        [FATHOM, "recording", "export", recording], stdout=subprocess.PIPE, text=True, check=True
    )
    names, *rows = export.stdout.splitlines()
    column = names.split(",").index("sent_ns")
    sent = [int(row.split(",")[column]) for row in rows]
    return statistics.median(after - before for before, after in itertools.pairwise(sent))


def stamps_back_to_back(work, name, count, rounds, echo, options):
    """What --timestamps require adds to a round trip and to the time from one to the next, back to back. Both ways to
    look at it in one run of the reflector, in turns; the figure is the median of the differences."""
    rtt, period, off_ns = [], [], []
    for i in range(rounds):
        found = {}
        with reflector(FATHOM, *echo) as target:
            for kind in ("off", "require") if i % 2 else ("require", "off"):
                where = f"{work}/stamps-{name}-{i}-{kind}"
                options_here = ["--timestamps", kind, "--record", where, *options]
                s, _, _ = probe(target, "--ping-pong", "--count", str(count), *options_here)
                found[kind] = s["rtt_ns"]["p50"], median_period_ns(where)
        rtt.append(found["require"][0] - found["off"][0])
        period.append(found["require"][1] - found["off"][1])
        off_ns.append(found["off"][0])
    quartiles = [statistics.quantiles(differences, n=4) for differences in (rtt, period)]
    tell(
        f"stamps {name}",
        f"{quartiles[0][1] / 1e3:+.2f} us of round trip (quartiles {quartiles[0][0] / 1e3:+.2f}, {quartiles[0][2] / 1e3:+.2f}),"
        f" {quartiles[1][1] / 1e3:+.2f} us from one to the next, on {statistics.median(off_ns) / 1e3:.1f} us, {rounds} rounds",
        rtt_differences_ns=rtt, period_differences_ns=period, off_p50_ns=off_ns,
    )  # fmt: skip


def stamps_once_a_second(rounds, seconds):
    """The same at 1/s: two probes at a time, so that both meet the same machine."""
    differences, cpu = [], {"off": 0.0, "require": 0.0}
    for i in range(rounds):
        found = {}

        def run(kind, target):
            s, _, used = probe(
                target, "--for", f"{seconds}s", "--no-record", "--pause-clock", "off", "--timestamps", kind
            )
            found[kind] = s["rtt_ns"]["p50"]
            cpu[kind] += used

        with reflector(FATHOM) as target:
            threads = [threading.Thread(target=run, args=(kind, target)) for kind in ("off", "require")]
            for thread in threads if i % 2 else reversed(threads):
                thread.start()
                # Half-way between the other's samples.
                time.sleep(0.5)
            for thread in threads:
                thread.join()
        differences.append(found["require"] - found["off"])
    share = {kind: 100 * used / rounds / seconds for kind, used in cpu.items()}
    tell(
        "stamps 1/s",
        f"{statistics.median(differences) / 1e3:+.2f} us of round trip ({min(differences) / 1e3:+.2f} to {max(differences) / 1e3:+.2f}),"
        f" {share['off']:.3f} % and {share['require']:.3f} % of a core, {rounds} rounds of {seconds} s",
        rtt_differences_ns=differences, cpu_percent=share,
    )  # fmt: skip


def stamps(work):
    rounds, count = (4, 10_000) if QUICK else (12, 50_000)
    # The stamp of a sent message wakes a sleeping probe before its echo comes, so that its processor does not sleep as
    # deep when it does: a gain of an idle machine that hides the cost. Held awake, it shows.
    for name, echo, options in [
        ("spinning", ["--spin"], ["--spin"]),
        ("blocking", [], []),
        ("blocking, no deep idle states", [], ["--cpu-latency", "0"]),
    ]:
        stamps_back_to_back(work, name, count, rounds, echo, options)
    stamps_once_a_second(2 if QUICK else 5, 20 if QUICK else 60)


def main():
    cpu = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    print(f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}")
    with tempfile.TemporaryDirectory() as work:
        for name, measure in zip(
            FIGURES, (one_connection, many_connections, recording_cost, stamps), strict=True
        ):
            if not ARGUMENTS.only or name in ARGUMENTS.only:
                measure(work)


if __name__ == "__main__":
    main()
