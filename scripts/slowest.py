#!/usr/bin/env python3
"""Prints the ten slowest tests of JUnit files, and names each above five seconds as a defect.

usage: slowest.py FILE...

A defect fails nothing: how long a test takes depends on the machine. It is to be made shorter, or moved to `make acceptance`.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SHOWN = 10
LIMIT_S = 5.0
"""A test of `make test` that takes longer is a defect."""


def main(files: list[str]) -> int:
    there = [file for file in files if Path(file).exists()]
    for file in sorted(set(files) - set(there)):
        print(f"slowest: {file} is missing: its tests did not run to their end", file=sys.stderr)
    cases = [case for file in there for case in ElementTree.parse(file).iter("testcase")]
    times = sorted(((float(case.get("time", 0)), name(case)) for case in cases), reverse=True)
    print(f"The {min(SHOWN, len(times))} slowest of {len(times)} tests:")
    for seconds, test in times[:SHOWN]:
        print(f"{seconds:7.1f} s  {test}{'  DEFECT: above 5 s' if seconds > LIMIT_S else ''}")
    more = sum(seconds > LIMIT_S for seconds, _ in times[SHOWN:])
    if more:
        print(f"           {more} more above 5 s")
    return 0


def name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
