"""What the benchmarks of this directory share."""

import contextlib
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import time

FEWEST = 6
"""Rounds that say something of how far they scatter."""


@contextlib.contextmanager
def reflector(fathom, *options):
    """`fathom echo` on core 1; gives its address."""
    command = [fathom, "echo", "--json", "--tcp-only", "--listen", "127.0.0.1:0", "--cpu", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


@contextlib.contextmanager
def awake(wanted):
    """No deep idle states while this lasts (Linux, Documentation/power/pm_qos_interface.rst)."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) if wanted else contextlib.nullcontext() as handle:
        if handle:
            handle.write(struct.pack("i", 0))
        yield


def interval(values):
    """Of the median, 95 %, by a bootstrap over the rounds; None: there are too few."""
    if len(values) < FEWEST:
        return None
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2_000))
    return medians[50], medians[-51]


def busy_ticks():
    """Of each processor: ticks in which it did something (proc_stat(5))."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    rows = [
        [int(word) for word in line.split()[1:9]]
        for line in lines
        if line.startswith("cpu") and line[3] != " "
    ]
    return [sum(row) - row[3] for row in rows]


def settle(most_s=5.0, window_s=0.25):
    """Waits until what was written is on the disk, and every processor has been idle for a moment; whether that came to be."""
    os.sync()
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        before = busy_ticks()
        time.sleep(window_s)
        # They are counted in 10 ms: one in this time is let pass.
        if all(now - then <= 1 for now, then in zip(busy_ticks(), before, strict=True)):
            return True
    return False
