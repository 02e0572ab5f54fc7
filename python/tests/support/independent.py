"""The figures of a report computed again without any of our code: numpy over Parquet as pyarrow reads it."""

import json
import math

import numpy as np
import pyarrow.parquet as pq

WARM_UP, LATE, CORRUPTED, UNDER_LOAD = 2, 4, 128, 64
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
BUCKET = 1 / 2048
"""Width of a bucket of the recording, relative (schema/recording.md). Blocks of time are counted in buckets
of twice that, and a value stands in the middle of its own: the error is half of such a bucket, 0.05 %."""


class Raw:
    """The samples of one recording."""

    def __init__(self, directory):
        self.manifest = json.loads((directory / "recording.json").read_text())
        tables = [pq.read_table(f) for f in sorted(directory.glob("samples-*.parquet"))]
        names = ("sent_ns", "size", "flags", "rtt_ns")
        parts = {n: [t.column(n).to_pylist() for t in tables] for n in names}
        every = {n: [v for part in parts[n] for v in part] for n in names}
        self.sent, self.size, self.flags = (np.array(every[n], dtype=np.int64) for n in names[:3])
        self.rtt = np.array([-1 if v is None else v for v in every["rtt_ns"]], dtype=np.int64)
        self.step = step(int(self.sent.min()), int(self.sent.max())) if len(self.sent) else 0

    def pick(self, mask):
        """Some of them."""
        made = object.__new__(Raw)
        made.manifest, made.step = self.manifest, self.step
        made.sent, made.size, made.flags, made.rtt = (
            x[mask] for x in (self.sent, self.size, self.flags, self.rtt)
        )
        return made

    @property
    def counted(self):
        """Those that stand behind figures: answered, after warm-up."""
        return (self.rtt >= 0) & (self.flags & WARM_UP == 0)


def step(first, last):
    """The length of time that a recording is counted by: the shortest binary part of a second of which 4,096
    hold it (docs/decisions/0002-rollup.md; an hour and more has longer ones, which no test here needs).
    """
    parts = (10**9 >> k for k in range(9, -1, -1))
    return next(s for s in parts if last // s - first // s < 4_096)


def nearest_rank(values, q):
    """The smallest value with at least a share `q` at or below it."""
    ordered = np.sort(values)
    return int(ordered[min(max(math.ceil(q * len(ordered) - 1e-9), 1), len(ordered)) - 1])


def supported(count, q):
    """Wilks 1941: with 95 % confidence at least one value lies beyond."""
    return 1 - q**count >= 0.95


def same_spread(stddev, rtt):
    """Of round trips as if each were the mean of its block's bucket: short of the exact one by what lies
    within the buckets, which is a quarter of a bucket's width squared at most (Popoviciu 1935).
    """
    exact = float(np.std(rtt.astype(np.longdouble), ddof=1))
    within = float(np.mean((2 * BUCKET * rtt) ** 2)) / 4 * len(rtt) / (len(rtt) - 1)
    assert math.sqrt(max(exact**2 - within, 0)) - 1 <= stddev <= exact + 1


def same_figures(scenario, rtt):
    """Holds a scenario's figures in the JSON against its round trips."""
    told = scenario["rtt_ns"]
    assert scenario["answered"] == len(rtt)
    if not len(rtt):
        assert (told["min"], told["max"], told["mean"]["value"]) == (None, None, None)
        return
    assert (told["min"], told["max"]) == (int(rtt.min()), int(rtt.max()))
    assert told["mean"]["value"] == round(math.fsum(rtt.tolist()) / len(rtt))
    if len(rtt) > 1:
        same_spread(told["stddev"], rtt)
    for name, q in QUANTILES.items():
        value = told[name]["value"]
        if not supported(len(rtt), q):
            assert value is None, f"{name} of {len(rtt)} samples"
            continue
        if value is None:
            # Enough samples, but so correlated (a pause) that they are worth too few for a tail.
            assert told[name]["doubt_code"] == "correlated-unsupported"
            assert name != "p50"
            continue
        exact = nearest_rank(rtt, q)
        assert abs(value - exact) <= exact * BUCKET + 1, f"{name}: {value} is told, {exact} is measured"
        if told[name]["low"] is not None:
            assert told[name]["low"] <= value <= told[name]["high"]
