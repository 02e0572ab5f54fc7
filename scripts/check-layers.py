#!/usr/bin/env python3
"""The dependency rule between our crates: wire <- core <- {os, settings, tls} <- {cloud, recording, fabric, host, iperf3, mysql, tds} <- {client, emulator, limits, reflector, simulate, sql} <- fathom.

And one edge more that the layers would allow: the emulated network knows no socket, clock or file, so it may not use os."""

import json
import subprocess
import sys

LAYERS = {
    "fathom-wire": 0,
    "fathom-core": 1,
    "fathom-os": 2,
    "fathom-settings": 2,
    "fathom-cloud": 3,
    "fathom-recording": 3,
    "fathom-fabric": 3,
    "fathom-host": 3,
    "fathom-iperf3": 3,
    "fathom-mysql": 3,
    "fathom-tds": 3,
    "fathom-tls": 2,
    "fathom-client": 4,
    "fathom-emulator": 4,
    "fathom-limits": 4,
    "fathom-reflector": 4,
    "fathom-simulate": 4,
    "fathom-sql": 4,
    "fathom": 5,
}
FORBIDDEN = {("fathom-fabric", "fathom-os"): "the emulated network runs in virtual time, without sockets, clocks and files"}


def main() -> int:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {p["name"]: p for p in metadata["packages"]}
    wrong = [f"{name} has no layer; give it one in scripts/check-layers.py" for name in packages if name not in LAYERS]
    edges = 0
    for name, package in packages.items():
        for dependency in package["dependencies"]:
            to = dependency["name"]
            # A test may use what lies above it; what is shipped may not.
            if to not in packages or dependency["kind"] == "dev" or name not in LAYERS or to not in LAYERS:
                continue
            edges += 1
            if (name, to) in FORBIDDEN:
                wrong.append(f"{name} -> {to}: {FORBIDDEN[name, to]} (ARCHITECTURE.md)")
            elif LAYERS[to] >= LAYERS[name]:
                wrong.append(f"{name} -> {to}: a crate may use only the layers below its own (ARCHITECTURE.md)")
    for line in wrong:
        print(f"layers: {line}", file=sys.stderr)
    if not wrong:
        print(f"layers: {len(packages)} crates, {edges} edges, all of them downwards")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
