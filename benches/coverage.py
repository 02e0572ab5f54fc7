#!/usr/bin/env python3
"""How often 95 % intervals hold the truth: simulated round trips whose quantiles are known.

Run with the Python half's environment: .venv/bin/python benches/coverage.py [--runs 2000]. Prints one row a process and a
figure: the share of runs that gave an interval without a doubt, and the share of these that held the truth.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from fathometer.stats.quantiles import mean_estimate, quantile_estimates
from support import round_trips

PS = (0.5, 0.95, 0.99, 0.999)
SIGMA = 0.8
PROCESSES = (
    (40_000, 1, 0.0),
    (40_000, 30, 0.25),
    (10_000, 30, 0.25),
    (200_000, 150, 0.8),
    (40_000, 150, 0.8),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="runs of each process (default 2000)")
    parser.add_argument("--only", type=int, help="one process, by its number from 0")
    arguments = parser.parse_args()
    print(
        f"{'samples':>8} {'time':>5} {'share':>6}   "
        + " ".join(f"{f'p{100 * p:g}':>13}" for p in PS)
        + f" {'mean':>13}"
    )
    for i, (n, time, share) in enumerate(PROCESSES):
        if arguments.only not in {None, i}:
            continue
        rng = np.random.default_rng(1)
        held = np.zeros(len(PS) + 1)
        given = np.zeros(len(PS) + 1)
        for _ in range(arguments.runs):
            x = round_trips.lognormal(rng, n, time=time, share=share, sigma=SIGMA)
            estimates = [*quantile_estimates(x, PS), mean_estimate(x)]
            truths = [*(np.exp(SIGMA * norm.ppf(p)) for p in PS), np.exp(SIGMA**2 / 2)]
            for j, (estimate, truth) in enumerate(zip(estimates, truths, strict=True)):
                if estimate.interval and not estimate.doubt:
                    given[j] += 1
                    held[j] += truth in estimate.interval
        cells = [
            f"{h / g:6.1%} ({g / arguments.runs:4.0%})" if g else "     -       "
            for h, g in zip(held, given, strict=True)
        ]
        print(f"{n:8,} {time:5} {share:6.0%}   " + " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
