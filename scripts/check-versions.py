#!/usr/bin/env python3
"""Every file that bears our version bears the same one."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def borne():
    """Yields (where, version) for each place that states a version of ours."""
    workspace = (ROOT / "Cargo.toml").read_text()
    yield "Cargo.toml", re.search(r'\[workspace\.package\][^\[]*?^version = "([^"]+)"', workspace, re.M | re.S)[1]
    ours = {}
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        text = manifest.read_text()
        ours[re.search(r'^name = "([^"]+)"', text, re.M)[1]] = True
        stated = re.search(r'^version = "([^"]+)"', text, re.M)
        if stated:
            yield str(manifest.relative_to(ROOT)), stated[1]
    for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
        if not (ROOT / lock).exists():
            continue
        for name, version in re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', (ROOT / lock).read_text(), re.M):
            if name in ours:
                yield f"{lock} ({name})", version
    for pyproject in sorted(ROOT.glob("python/**/pyproject.toml")):
        stated = re.search(r'^version = "([^"]+)"', pyproject.read_text(), re.M)
        if stated:
            yield str(pyproject.relative_to(ROOT)), stated[1]
    package = ROOT / "python/src/fathometer/__init__.py"
    yield str(package.relative_to(ROOT)), re.search(r'^__version__ = "([^"]+)"', package.read_text(), re.M)[1]
    lock = (ROOT / "python/uv.lock").read_text()
    yield "python/uv.lock", re.search(r'^name = "fathometer"\nversion = "([^"]+)"', lock, re.M)[1]


def main() -> int:
    places = list(borne())
    truth = places[0][1]
    wrong = [(where, version) for where, version in places if version != truth]
    for where, version in wrong:
        print(f"versions: {where} says {version}, Cargo.toml says {truth}; make them equal", file=sys.stderr)
    if not wrong:
        print(f"versions: {truth} in {len(places)} places")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
