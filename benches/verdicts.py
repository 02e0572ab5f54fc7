#!/usr/bin/env python3
"""False and missed differences of reports: twelve scenarios that are alike, runs that are alike, and a shift of 20 %,
through `findings.comparisons` (by blocks) and `compare_runs` with `judged` (by runs), as a report calls them.

Run with the Python half's environment: .venv/bin/python benches/verdicts.py [--reports 500] [--trials 1000]; about
1 s of one core a report. With --trials 0 only the reports; with --queries N nothing but N reports each of the same query
over two paths that share a drift, alike and 3 and 5 % apart, side by side and as if of other hours. The share is told with its 95 % interval (Clopper and
Pearson); --first-seed N makes others, so that parts may run at different times and be added.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from support.alike import false_verdicts
from support.queries_alike import counted, template
from support.verdicts import false_report, false_runs, found_shift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=500, help="reports of twelve scenarios (default 500)")
    parser.add_argument(
        "--trials", type=int, default=1000, help="trials of runs, and of shifts (default 1000)"
    )
    parser.add_argument("--first-seed", type=int, default=1, help="of the reports (default 1)")
    parser.add_argument("--queries", type=int, default=0, metavar="N", help="reports of queries, and no others")
    arguments = parser.parse_args()
    if arguments.queries:
        of_queries(arguments.queries)
        return
    if arguments.trials:
        of_runs_and_pairs(arguments.trials)
    rng = np.random.default_rng(arguments.first_seed)
    false = 0
    for done in range(1, arguments.reports + 1):
        false += false_report(rng)
        if done % 25 == 0 or done == arguments.reports:
            low, high = binomtest(false, done).proportion_ci(0.95)
            print(
                f"A/A of twelve scenarios: {false} of {done} reports with any false difference, "
                f"{false / done:.1%} ({low:.1%} to {high:.1%})",
                flush=True,
            )


def of_queries(trials: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        one = template(Path(directory, "r"))
    for queries in (400, 1_200):
        for runs in (1, 3, 6):
            for factor in (1.0, 1.03, 1.05):
                for apart in (False, True):
                    differ, held, width = counted(one, factor, trials, queries // runs, runs, apart=apart)
                    print(
                        f"{queries} queries in {runs} runs, {factor:g} times as long, "
                        f"{'other hours' if apart else 'side by side'}: told apart in {differ} of {trials}, "
                        f"held by {held} intervals, {width:.3f} wide",
                        flush=True,
                    )


def of_runs_and_pairs(trials_of_runs: int) -> None:
    for runs in (6, 10, 20):
        for interleaved in (False, True):
            rng = np.random.default_rng(runs)
            false = sum(false_runs(rng, runs, interleaved) for _ in range(trials_of_runs))
            how = "in turn" if interleaved else "apart"
            print(
                f"A/A of two scenarios of {runs} runs each, {how}: {false / trials_of_runs:.1%} of "
                f"{trials_of_runs} trials with a false difference",
                flush=True,
            )
    trials = max(trials_of_runs // 20, 10)
    for name in ("bursts", "regimes", "AR 0.8", "AR 0.95", "far and narrow"):
        for runs, side_by_side, unlike in ((1, True, 0.0), (1, False, 0.0), (2, False, 0.2), (3, True, 0.2), ((1, 5), False, 0.2)):
            false, _ = false_verdicts(name, runs, trials, side_by_side=side_by_side, unlike=unlike)
            how = "side by side" if side_by_side else "in turn"
            print(f"A/A of {name}, runs {runs}, {how}: {false} of {trials} with a false difference", flush=True)
    for name in ("AR 0.8", "GARCH", "two values", "ties: rounded to ms"):
        rng = np.random.default_rng(7)
        shown = sum(found_shift(rng, name) for _ in range(trials))
        print(f"20 % slower, {name}, 10,000 samples: found in {shown / trials:.0%} of {trials}", flush=True)


if __name__ == "__main__":
    main()
