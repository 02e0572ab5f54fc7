"""`fathom echo` on loopback and `fathom probe` against it: real recordings of every mode."""

import contextlib
import json
import os
import subprocess

from support.programs import LIMIT, fathom


@contextlib.contextmanager
def echo(*options):
    """A reflector; the addresses that it listens on, by protocol."""
    wanted = {"tcp", "udp"} | {
        p for p, o in (("stamp", "--stamp"), ("iperf3", "--throughput"), ("tds", "--tds")) if o in options
    }
    command = [fathom(), "echo", "--listen", "127.0.0.1:0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        listening = {}
        # Each line says where it listens; an end of the output before that fails here.
        while not wanted <= set(listening):
            said = json.loads(process.stdout.readline())
            listening[said["protocol"]] = said["address"]
        yield listening
    finally:
        process.kill()
        process.communicate()


def probe(directory, address, *options):
    """Records a run under a directory named after its label; the probe's own summary."""
    command = [fathom(), "probe", address, "--record", str(directory), "--label", directory.name]
    ran = subprocess.run(
        [*command, "--quiet", "--json", *map(str, options)],
        env={**os.environ, "FATHOM_CLOUD": "off"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
