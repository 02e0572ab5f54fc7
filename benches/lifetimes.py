#!/usr/bin/env python3
"""Studies of long-lived connections that end by chance, by maintenance at random moments or by an age limit, through
`findings.analyse` as a report calls it: how often an age limit is claimed where there is none, and how often one
that is there is found.

Run with the Python half's environment: .venv/bin/python benches/lifetimes.py [--studies 200]; below a second of one core
a study. Shares are told with their 95 % intervals (Clopper and Pearson).
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from support.deaths import LIMIT, SECOND, by_chance, by_the_clock, of_a_limit
from support.ends import closed, opened
from support.recordings import START, lognormal_ns, write

SAMPLES_EVERY = 10 * 60 * SECOND


def claims(directory, made, span):
    """Whether the report of a study says that age ends connections, and the ages at which it would refresh them."""
    events = []
    for n, life in enumerate(made):
        events.append(opened(n, START + life.begun_ns))
        if life.died:
            events.append(closed(n, START + life.ended_ns, life.ended_ns - life.begun_ns))
    rtt_ns = lognormal_ns(len(made), span // SAMPLES_EVERY + 1)
    write(directory / "r", rtt_ns, interval_ns=SAMPLES_EVERY, events=sorted(events, key=lambda e: e["at_ns"]))
    analysis = analyse(open_recordings([directory]))
    agree = any(f.kind == "ages" and f.result.better == "age" for f in analysis.findings)
    return agree, [a.quantities["setting"].value for a in analysis.advice if a.topic == "refresh age"]


def told(what, hits, of):
    low, high = binomtest(hits, of).proportion_ci(0.95)
    print(f"{what}: {hits} of {of}, {hits / of:.1%} ({low:.1%} to {high:.1%})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200, help="studies of each kind (default 200)")
    parser.add_argument("--first-seed", type=int, default=1, help="default 1")
    arguments = parser.parse_args()
    kinds = {
        "maintenance at random: an age limit or a refresh age claimed": by_chance,
        "maintenance by the clock: an age limit or a refresh age claimed": by_the_clock,
        "a limit of 11 h, 30 deaths: found": lambda rng: of_a_limit(rng, chance=False),
        "a limit of 11 h, 30 deaths, a part of them by chance: found": lambda rng: of_a_limit(
            rng, chance=True
        ),
    }
    for what, make in kinds.items():
        claimed, advised, late = 0, 0, 0
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.studies):
            made, span = make(np.random.default_rng(seed))
            with tempfile.TemporaryDirectory() as directory:
                agree, ages = claims(Path(directory), made, span)
            claimed += agree or bool(ages)
            advised += bool(ages)
            late += any(age >= LIMIT for age in ages)
        told(what, claimed, arguments.studies)
        print(
            f"  of them with a refresh age: {advised}"
            + ("" if make in (by_chance, by_the_clock) else f", at or above the limit: {late}")
        )


if __name__ == "__main__":
    main()
