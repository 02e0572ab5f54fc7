#!/usr/bin/env python3
"""Whether `fathom sql` shows a difference of packet sizes where there is none, and where there is one.

Equal sizes are swept again and again, over loopback and over a path of the fabric, against `fathom echo --tds --tds-encrypt`, which
grants 16,383 bytes of whatever is more (a size is named once): at most 5 of 100 sweeps may show a difference. Then 512 against 16,384
bytes, not encrypted. As root for the fabric, with iproute2, in hosts that it takes away again.

    sudo benches/sweeps.py [--fathom FILE] [--sweeps N] [--sizes N,…] [--rows N] [--only loopback|fabric]
"""

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile

from hosts import ROOT, SERVER, fabric, on

DELAY_MS = 5.0
GRANTED = 16_383
DIFFERENT, DIFFERENT_ROWS = "512,16384", 10_000


@contextlib.contextmanager
def serving(before, fathom, address, *options):
    """Our own server for clients of SQL Server, there; gives its port."""
    words = ["echo", "--tcp-only", "--json", "--listen", f"{address}:0", "--tds", "0", *options]
    argv = [*before, fathom, *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            lines = (json.loads(process.stdout.readline()) for _ in range(4))
            yield next(line["port"] for line in lines if line.get("protocol") == "tds")
        finally:
            process.terminate()


def sweep(before, fathom, address, port, mode, sizes, rows):
    """The settings of one sweep."""
    url = f"mssql://reader@{address}:{port}/sales?sslmode={mode}"
    words = ["sql", url, "--rows", str(rows), "--packet-size", sizes, "--quiet", "--json"]
    environment = {**os.environ, "FATHOM_CLOUD": "off"}
    argv = [*before, fathom, *words]
    ran = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout)["settings"]


def measure(name, before, fathom, address, ports, arguments):
    """Equal sizes, and then different ones."""
    encrypted, plain = ports
    shown, verdicts, ratios = 0, collections.Counter(), []
    for _ in range(arguments.sweeps):
        settings = sweep(before, fathom, address, encrypted, "require", arguments.sizes, arguments.rows)
        if any(one["packet_size"]["granted"] != GRANTED for one in settings):
            sys.exit(f"--sizes {arguments.sizes}: they are not equal; name sizes of {GRANTED} and more")
        of = [one["ratio"] for one in settings[1:]]
        shown += any(one["verdict"] in {"slower", "faster"} for one in of)
        verdicts.update(one["verdict"] for one in of)
        ratios += [one["value"] for one in of]
    ratios.sort()
    middle = [ratios[int(len(ratios) * share)] for share in (0.05, 0.5, 0.95)]
    print(
        f"{name}, {arguments.sizes}, {arguments.rows} rows: {shown} of {arguments.sweeps} sweeps show a difference"
        f" ({dict(verdicts)}); ratios {middle[0]:.3f} to {middle[2]:.3f}, median {middle[1]:.3f}",
        flush=True,
    )
    found = collections.Counter()
    for _ in range(max(arguments.sweeps // 10, 1)):
        ratio = sweep(before, fathom, address, plain, "disable", DIFFERENT, DIFFERENT_ROWS)[1]["ratio"]
        found[ratio["verdict"]] += 1
    print(f"{name}, {DIFFERENT}, {DIFFERENT_ROWS} rows: {dict(found)}, the last {ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = str(ROOT / "target/release/fathom")
    parser.add_argument("--fathom", default=default, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--sweeps", type=int, default=200, metavar="N", help="of each (default 200)")
    sizes = f"{GRANTED},20000,24000,32767"
    parser.add_argument(
        "--sizes", default=sizes, metavar="N,…", help=f"all granted {GRANTED} (default: %(default)s)"
    )
    parser.add_argument("--rows", type=int, default=500, metavar="N", help="of a query (default 500)")
    parser.add_argument("--only", choices=("loopback", "fabric"))
    arguments = parser.parse_args()
    fathom = os.path.abspath(arguments.fathom)
    if arguments.only != "fabric":
        here = ([], fathom, "127.0.0.1")
        with serving(*here, "--tds-encrypt") as encrypted, serving(*here) as plain:
            measure("loopback", *here, (encrypted, plain), arguments)
    if arguments.only != "loopback":
        with tempfile.TemporaryDirectory() as directory, fabric(fathom, directory, (DELAY_MS,)):
            there = (on(fathom, "server"), fathom, SERVER, "--allow", "10.97.0.0/16")
            with serving(*there, "--tds-encrypt") as encrypted, serving(*there) as plain:
                ports = (encrypted, plain)
                measure(f"{DELAY_MS:g} ms", on(fathom, "c0"), fathom, SERVER, ports, arguments)


if __name__ == "__main__":
    main()
