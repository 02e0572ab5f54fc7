#!/usr/bin/env python3
"""The figures of docs/benchmarks.md, from the release binary: a readable line and a JSON line each.

The reflector is pinned to core 1, the probe to core 0. --quick shortens every run."""

import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

FATHOM = str(pathlib.Path(__file__).resolve().parent.parent / "target/release/fathom")
QUICK = "--quick" in sys.argv[1:]


@contextlib.contextmanager
def reflector(*extra):
    command = [FATHOM, "echo", "--json", "--tcp-only", "--listen", "127.0.0.1:0", "--cpu", "1", *extra]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


def probe(target, *extra):
    """Runs a probe; returns its summary, its peak resident bytes and its CPU seconds."""
    command = [FATHOM, "probe", target, "--quiet", "--json", "--cpu", "0", *extra]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}")
        out.seek(0)
        # Linux counts ru_maxrss in KiB.
        return json.loads(out.read()), usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def tell(name, text, **figures):
    print(f"{name:<12} {text}")
    print(json.dumps({"figure": name, "quick": QUICK, **figures}), flush=True)


def one_connection(work):
    seconds = 60 if QUICK else 600
    with reflector() as target:
        _, rss, cpu = probe(target, "--for", f"{seconds}s", "--record", f"{work}/one")
    share = 100 * cpu / seconds
    tell("one", f"{rss / 2**20:.1f} MiB peak, {share:.3f} % of a core over {seconds} s", rss_bytes=rss, cpu_percent=share)


def many_connections(work):
    seconds = 20 if QUICK else 60
    with reflector() as target:
        s, rss, cpu = probe(target, "--connections", "10000", "--for", f"{seconds}s", "--record", f"{work}/many")
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
            with reflector(*mode) as target:
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
    tell("bytes", f"{size / count:.2f} bytes a sample in closed segments", bytes_per_sample=size / count, samples=count)


def main():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}")
    with tempfile.TemporaryDirectory() as work:
        one_connection(work)
        many_connections(work)
        recording_cost(work)


if __name__ == "__main__":
    main()
