"""Recordings with everything in them that a rollup must keep apart: sizes, load, warm-up, silences, losses,
corrupted and late echoes, several connections and segments, times and round trips of many lengths.
"""

import numpy as np

from support.recordings import START, UNANSWERED, write

SIZES = (64, 1024, 9000)
GAPS = (20_000_000, 90_000_000)


def random_recording(directory, seed, derived=None):
    """Writes one; seeds that are multiples of 7 have silences. `derived`: as `write` has it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 1_500))
    median = 10.0 ** rng.uniform(2, 7.5)
    rtt = np.round(median * np.exp(rng.uniform(0.01, 1.5) * rng.standard_normal(n))).astype(np.int64)
    if rng.random() < 0.3:
        rtt = rtt // 1000 * 1000  # Whole microseconds: ties, and zeros.
    lost = rng.random(n) < rng.choice([0.0, 0.05, 0.6])
    rtt[lost] = UNANSWERED
    interval = int(10.0 ** rng.uniform(3, 12))
    connections = int(rng.integers(1, 4))
    bits = np.where(rng.random(n) < 0.1, 4, 0) * ~lost | np.where(lost & (rng.random(n) < 0.3), 128, 0)
    if rng.random() < 0.4:
        bits |= np.where(np.arange(n) // 50 % 2, 64, 0)
    swept = rng.random() < 0.4
    size = rng.choice(SIZES, n) if swept else np.full(n, 64)
    lateness = rng.integers(0, 50_000, n)
    sent = START + np.arange(n) * interval + rng.integers(0, interval, n)
    probe = {"mode": "tcp", "size": None if swept else 64, "interval_ns": interval}
    if seed % 7 == 0:
        probe |= {"mode": "tcp-idle-gap", "interval_ns": None, "idle_gaps_ns": list(GAPS)}
        sent = _bursts(rng, rtt, connections, lateness)
    columns = {
        "connection": lambda seq: seq % connections,
        "seq": lambda seq: seq // connections,
        "size": lambda seq: size[seq],
        "sent_ns": lambda seq: sent[seq],
        "lateness_ns": lambda seq: lateness[seq],
        "flags": lambda seq: bits[seq],
    }
    parts = np.array_split(rtt, int(rng.integers(1, 4)))
    # An empty segment is none that a recorder writes.
    parts = iter([p for p in parts if len(p)])
    return write(
        directory,
        parts,
        label=f"path-{seed % 3}",
        warm_up=int(rng.integers(0, 20)),
        columns=columns,
        manifest={"probe": probe},
        # Recordings of either layout, and of both.
        derived=derived or (lambda ordinal: (seed + ordinal * (seed // 3)) % 2 == 1),
    )


def _bursts(rng, rtt, connections, lateness):
    """Times of sending on each connection: silences of the plan, near ones, and back to back."""
    sent = np.zeros(len(rtt), dtype=np.int64)
    at = [START + c for c in range(connections)]
    for i in range(len(rtt)):
        c = i % connections
        wait = int(rng.choice([0, 0, 0, *GAPS, GAPS[0] * 51 // 50, GAPS[1] * 3 // 2]))
        sent[i] = at[c] + wait + lateness[i]
        at[c] = int(sent[i] + max(rtt[i], 1_000_000))
    return sent
