#!/usr/bin/env python3
"""How often 95 % intervals hold the truth: simulated round trips whose quantiles are known, through the functions
that a report calls (histograms of blocks, `to_blocks`, `rollup_estimates`, `rollup_mean`).

Run with the Python half's environment: .venv/bin/python benches/coverage.py [--runs 400]; about a minute of one
core for each hundred runs. One row a generator: the share of intervals without a doubt that held the truth, and in
brackets the share of runs that gave one. With --flows runs of several connections on ways of unequal length instead:
the share of intervals that held what is true of all connections, of the runs in which connections were seen to
differ; and of pairs of runs of one path, how many were told apart.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from support import flows
from support.generators import GENERATORS, coverage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400, help="runs of each generator (default 400)")
    parser.add_argument("--samples", type=int, default=10_000, help="samples of a run (default 10,000)")
    parser.add_argument("--only", default="", help="generators whose name contains this")
    parser.add_argument("--flows", action="store_true", help="runs of several connections instead")
    arguments = parser.parse_args()
    if arguments.flows:
        of_flows(arguments.runs)
        return
    figures = ("p50", "p95", "p99", "mean")
    print(f"{'generator':<22}" + "".join(f"{f:>16}" for f in figures) + "  doubts")
    for generator in GENERATORS:
        if arguments.only not in generator.name:
            continue
        given, held, doubts = coverage(generator, arguments.runs, arguments.samples)
        cells = [
            f"{held[f] / given[f]:7.1%} ({given[f] / arguments.runs:4.0%})" if given[f] else "-"
            for f in figures
        ]
        told = sum((doubts[f] for f in figures), type(doubts["p50"])())
        shares = (f"{code} {n / arguments.runs / len(figures):.0%}" for code, n in told.most_common())
        print(
            f"{generator.name:<22}" + "".join(f"{c:>16}" for c in cells) + "  " + ", ".join(shares),
            flush=True,
        )


def of_flows(runs: int) -> None:
    print(f"{'connections':<24}" + "".join(f"{f:>10}" for f in (*flows.FIGURES, "differ")) + "  told apart")
    for name, several in flows.FLOWS.items():
        differ, held = flows.coverage(several, runs)
        shares = "".join(f"{held[f] / max(differ, 1):10.1%}" for f in flows.FIGURES)
        false = flows.false_verdicts(several, runs)
        print(f"{name:<24}{shares}{differ / runs:10.0%}  {false} of {runs}", flush=True)


if __name__ == "__main__":
    main()
