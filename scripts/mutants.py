#!/usr/bin/env python3
"""Each line of `scripts/mutants.toml` breaks one rule of the Python half; its tests must notice. One that survives
is a missing test.

usage: mutants.py [NAME...]   (all of them without a name; `make mutants`)

The sources are copied, changed there and tested there: nothing in the work tree is touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "mutants.toml"
SECONDS = 900
"""In which the tests of one mutant must be over, on a machine that has more to do; one that never ends has been
noticed, too."""


def main(names: list[str]) -> int:
    mutants = tomllib.loads(LIST.read_text())["mutant"]
    unknown = set(names) - {m["name"] for m in mutants}
    if unknown:
        print(f"mutants: {', '.join(sorted(unknown))} is not in {LIST.relative_to(ROOT)}; see there for the names")
        return 2
    mutants = [m for m in mutants if not names or m["name"] in names]
    with tempfile.TemporaryDirectory(prefix="fathometer-mutants-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "python" / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        tests = sorted({test for m in mutants for test in m["tests"]})
        code = tested(source, tests)
        if code != 0:
            print(f"mutants: the tests fail without any mutant (pytest ended with {code}); mend them first")
            return 1
        survivors = [m["name"] for m in mutants if not killed(source, m)]
    print(f"mutants: {len(mutants) - len(survivors)} of {len(mutants)} killed")
    return 1 if survivors else 0


def killed(source: Path, mutant: dict) -> bool:
    """Whether its tests fail with it."""
    path = source / mutant["file"]
    text = path.read_text()
    if text.count(mutant["old"]) != 1:
        print(f"{mutant['name']}: SURVIVES: {mutant['file']} has its `old` {text.count(mutant['old'])} times, not once")
        return False
    path.write_text(text.replace(mutant["old"], mutant["new"]))
    try:
        code = tested(source, mutant["tests"])
    except subprocess.TimeoutExpired:
        code = 1
    finally:
        path.write_text(text)
    # 1: a test failed. Anything else says that no test was run.
    print(f"{mutant['name']}: {'killed' if code == 1 else f'SURVIVES (pytest ended with {code})'}", flush=True)
    return code == 1


def tested(source: Path, tests: list[str]) -> int:
    """How pytest ends with these sources; tests of both tiers count."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "acceptance or not acceptance", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        command, cwd=ROOT / "python", env=environment, capture_output=True, timeout=SECONDS, check=False
    )
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
