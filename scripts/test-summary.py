#!/usr/bin/env python3
"""Prints the ten slowest tests of JUnit files, each above five seconds as a defect, or the rates that tests reported.

usage: test-summary.py slowest FILE...
       test-summary.py rates FILE...

A defect fails nothing, because the machine may be busy: shorten the test, or move it to `make acceptance`.
A rate is a line `RATE 19 of 20 (bound 18)` in a test's output.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SHOWN = 10
LIMIT_S = 5.0
"""A test of `make test` that takes longer is a defect."""


def main(what: str, files: list[str]) -> int:
    cases = []
    for file in files:
        if Path(file).exists():
            cases += ElementTree.parse(file).iter("testcase")
        else:
            print(f"test-summary: {file} is missing: its tests did not run to their end", file=sys.stderr)
    lines = {"slowest": slowest, "rates": rates}[what](cases)
    print("\n".join(lines))
    return 0


def slowest(cases: list[ElementTree.Element]) -> list[str]:
    times = sorted(((float(case.get("time", 0)), name(case)) for case in cases), reverse=True)
    lines = [f"The {min(SHOWN, len(times))} slowest of {len(times)} tests:"]
    for seconds, test in times[:SHOWN]:
        lines.append(f"{seconds:7.1f} s  {test}{'  DEFECT: above 5 s' if seconds > LIMIT_S else ''}")
    more = sum(seconds > LIMIT_S for seconds, _ in times[SHOWN:])
    return [*lines, f"           and {more} more DEFECTS above 5 s"] if more else lines


def rates(cases: list[ElementTree.Element]) -> list[str]:
    lines = []
    for case in cases:
        for rate in re.findall(r"^RATE (.*)$", case.findtext("system-out") or "", re.MULTILINE):
            lines.append(f"{name(case)}: {rate}")
    return [f"{len(lines)} rates:", *sorted(lines)]


def name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"slowest", "rates"}:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
