#!/usr/bin/env python3
"""The figures of the fabric: a table, and a JSON line for each row.

* lateness: by the fabric's own stamps, when a packet was handed to its host minus when it was due, with paths of 0.3 to
  145 ms each way and a probe that sends every millisecond;
* excess: what that probe's round trips have over the configured ones (the probe blocking, then spinning; the reflector
  blocks: three that spin do not fit on two cores);
* floor: the round trip on a path of no delay at all;
* load: 20,000 packets a second through the one thread that moves them, and how many of them were lost;
* many: how long 200 hosts take to come up and to go.

Needs root (or user namespaces) and iproute2."""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

RELEASE = pathlib.Path(__file__).resolve().parent.parent / "target/release/fathom"
FIGURES = ("lateness", "floor", "load", "many")
DELAYS_MS = (0.3, 1, 2.4, 5, 20, 145)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="shorten every run")
parser.add_argument("--only", choices=FIGURES, action="append", help="this figure only; may be given again")
parser.add_argument(
    "--fathom", default=str(RELEASE), metavar="FILE", help="the binary to measure (default: %(default)s)"
)
parser.add_argument(
    "--wait", choices=("hybrid", "spin", "sleep"), default="hybrid", help="how the fabric waits"
)
parser.add_argument("--send", nargs=2, metavar=("TARGET", "SECONDS"), help=argparse.SUPPRESS)
ARGUMENTS = parser.parse_args()
FATHOM, QUICK = ARGUMENTS.fathom, ARGUMENTS.quick
NAME = f"bench-{os.getpid()}"
RATE = 20_000


def run(*command):
    done = subprocess.run([FATHOM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join([FATHOM, *command])}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def fabric(work, text):
    scenario = pathlib.Path(work) / "scenario.toml"
    scenario.write_text(text)
    run("fabric", "up", str(scenario), "--name", NAME, "--wait", ARGUMENTS.wait)
    try:
        yield
    finally:
        run("fabric", "down", NAME)


def status():
    return json.loads(run("fabric", "status", NAME, "--json"))


def pair(delay_ms):
    hosts = "".join(
        f'[[host]]\nname = "{n}"\naddress = "10.99.0.{i}"\n' for i, n in enumerate(("client", "server"), 1)
    )
    path = f'[[path]]\nlabel = "path"\nfrom = "client"\nto = "server"\nboth = {{ delay = "{round(delay_ms * 1e6)}ns" }}\n'
    return "format = 1\n" + hosts + path


def on(host, *command):
    return [FATHOM, "fabric", "exec", "--name", NAME, host, "--", *command]


@contextlib.contextmanager
def reflector():
    command = on("server", FATHOM, "echo", "--json", "--tcp-only")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            process.stdout.readline()
            yield
        finally:
            process.terminate()


def probe(count, *extra):
    command = on("client", FATHOM, "probe", "server", "--no-record", "--quiet", "--json", "--allow-high-rate")
    command += ["--every", "1ms", "--count", str(count), "--warm-up", "100", "--pause-clock", "off", *extra]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)


def tell(figure, text, **figures):
    print(f"{figure:<10} {text}")
    print(json.dumps({"figure": figure, "quick": QUICK, "wait": ARGUMENTS.wait, **figures}), flush=True)


def us(nanoseconds):
    return "-" if nanoseconds is None else f"{nanoseconds / 1e3:.1f}"


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def distance(work, figure, delay_ms):
    count = 2_000 if QUICK else 20_000
    with fabric(work, pair(delay_ms)):
        for name, extra in (("blocking", []), ("spinning", ["--spin"])):
            before, began = cpu_seconds(status()["fabric"]["pid"]), time.monotonic()
            with reflector():
                summary = probe(count, *extra)
            share = (cpu_seconds(status()["fabric"]["pid"]) - before) / (time.monotonic() - began)
            late = status()["lateness_ns"]
            excess = summary["rtt_ns"]["p50"] - 2 * delay_ms * 1e6
            text = f"{delay_ms:>6} ms  {name}: late p50 {us(late['p50'])} p99 {us(late['p99'])} µs"
            text += f"; RTT p50 - configured {us(excess)} µs; {100 * share:.0f} % of a core"
            tell(
                figure,
                text,
                delay_ms=delay_ms,
                mode=name,
                lateness_ns=late,
                excess_ns=excess,
                core=round(share, 3),
            )


def load(work):
    seconds = 3 if QUICK else 10
    with fabric(work, pair(1)):
        counter = on("server", sys.executable, __file__, "--send", "-", str(seconds))
        sender = on("client", sys.executable, __file__, "--send", "10.99.0.2", str(seconds))
        with subprocess.Popen(counter, stdout=subprocess.PIPE, text=True) as receiving:
            receiving.stdout.readline()
            sent = json.loads(subprocess.run(sender, stdout=subprocess.PIPE, text=True, check=True).stdout)
            received = json.loads(receiving.stdout.readline())
        after = status()
        counters, late = after["world"]["counters"], after["lateness_ns"]
        text = f"{sent['sent'] / sent['seconds']:.0f} packets/s for {sent['seconds']:.1f} s: {sent['sent']} sent, "
        text += f"{counters['packets_in']} in, {counters['delivered']} out, {received['received']} received"
        text += f"; late p50 {us(late['p50'])} p99 {us(late['p99'])} µs"
        tell("load", text, **sent, **received, counters=counters, lateness_ns=late)


def send(target, seconds):
    """On a host of the fabric: sends datagrams at an even pace, or counts them until one says that it is the last."""
    plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if target == "-":
        # SO_RCVBUFFORCE, which Python does not name: beyond net.core.rmem_max, for root; else what that allows.
        with contextlib.suppress(PermissionError):
            plug.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        plug.bind(("10.99.0.2", 4000))
        plug.settimeout(seconds + 30)
        print("ready", flush=True)
        received = 0
        while plug.recv(2048) != b"last":
            received += 1
        print(json.dumps({"received": received}), flush=True)
        return
    plug.connect((target, 4000))
    began = time.perf_counter()
    for number in range(round(RATE * seconds)):
        while time.perf_counter() < began + number / RATE:
            pass
        plug.send(b"x" * 64)
    ended = time.perf_counter()
    time.sleep(0.5)
    plug.send(b"last")
    print(json.dumps({"sent": round(RATE * seconds), "seconds": ended - began}), flush=True)


def many(work):
    text = 'format = 1\n[[host]]\nname = "hub"\naddress = "10.98.255.1"\n'
    for i in range(1, 200):
        text += f'[[host]]\nname = "h{i}"\naddress = "10.98.0.{i}"\n'
        text += f'[[path]]\nlabel = "p{i}"\nfrom = "h{i}"\nto = "hub"\nboth = {{ delay = "1ms" }}\n'
    began = time.monotonic()
    with fabric(work, text):
        up = time.monotonic() - began
        subprocess.run(on("h199", "ping", "-c", "1", "hub"), stdout=subprocess.DEVNULL, check=True)
        began = time.monotonic()
    down = time.monotonic() - began
    tell("many", f"200 hosts: up in {up:.2f} s, down in {down:.2f} s", up_s=up, down_s=down)


def main():
    if ARGUMENTS.send:
        send(ARGUMENTS.send[0], float(ARGUMENTS.send[1]))
        return
    wanted = ARGUMENTS.only or FIGURES
    with tempfile.TemporaryDirectory() as work:
        for delay_ms in DELAYS_MS if "lateness" in wanted else ():
            distance(work, "lateness", delay_ms)
        if "floor" in wanted:
            distance(work, "floor", 0)
        if "load" in wanted:
            load(work)
        if "many" in wanted:
            many(work)


main()
