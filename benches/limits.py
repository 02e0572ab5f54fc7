#!/usr/bin/env python3
"""How well `fathom limits` finds idle limits and rate ceilings that are known, and what many idle connections cost it.

Limits of 2 to 20 s drawn by chance, by connection tracking of a router that drops or resets (nftables), by HAProxy, and by
the middleboxes of the emulated cloud: 10 of each, several searches at a time. A router that drops what is beyond 700 packets a
second, searched over one connection and over eight, one search after the other. Then 10,000 connections left idle at one
time. As root, with nftables and haproxy; in network namespaces of its own, which it takes away again. About 40 minutes.

    sudo benches/limits.py [--fathom FILE] [--only KIND] [--of-each N]
"""

import argparse
import contextlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHIN_S, WITHIN = 0.5, 0.05
UP_TO_S = 30
AT_A_TIME = 5
KINDS = ("conntrack", "haproxy", "fabric", "ceiling", "many")


def sh(*words, where=None):
    prefix = ["ip", "netns", "exec", where] if where else []
    return subprocess.run([*prefix, *words], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def running(*words, where=None, ready=None):
    """A program that is ended when this is over; `ready` is in the line that it says once it listens."""
    prefix = ["ip", "netns", "exec", where] if where else []
    with subprocess.Popen(
        [*prefix, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        try:
            if ready:
                assert ready in program.stdout.readline()
            yield
        finally:
            program.terminate()


@contextlib.contextmanager
def routed(number):
    """Two hosts and a router between them: their names, and the server's address."""
    hosts = [f"bl{number}{role}" for role in ("c", "r", "s")]
    client, router, server = hosts
    try:
        for host in hosts:
            sh("ip", "netns", "add", host)
            sh("ip", "link", "set", "lo", "up", where=host)
        for net, host in ((1, client), (2, server)):
            sh(
                "ip",
                "link",
                "add",
                "up0",
                "netns",
                host,
                "type",
                "veth",
                "peer",
                "name",
                f"to{net}",
                "netns",
                router,
            )
            for interface, where, end in (("up0", host, 2), (f"to{net}", router, 1)):
                sh("ip", "addr", "add", f"10.213.{net}.{end}/24", "dev", interface, where=where)
                sh("ip", "link", "set", interface, "up", where=where)
            sh("ip", "route", "add", "default", "via", f"10.213.{net}.1", where=host)
        sh("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", where=router)
        yield client, router, server, "10.213.2.2"
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def search(fathom, target, where=None, *more):
    """The result of a search, and its exit code."""
    prefix = ["ip", "netns", "exec", where] if where else []
    words = [*prefix, fathom, "limits", target, "--up-to", f"{UP_TO_S}s", "--json", "--quiet", *more]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(ran.stdout.splitlines()[-1]) if ran.stdout else {"verdict": ran.stderr.strip()}


def forwarding(router, priority, rule):
    """A rule for what the router forwards."""
    sh("nft", "add", "table", "ip", "t", where=router)
    chain = f"{{ type filter hook forward priority {priority}; policy accept; }}"
    sh("nft", "add", "chain", "ip", "t", "f", chain, where=router)
    sh("nft", "add", "rule", "ip", "t", "f", *rule.split(), where=router)


def conntrack(fathom, limit_s, number, *, reset):
    with routed(number) as (client, router, server, address):
        forwarding(router, 0, f"ct state invalid {'reject with tcp reset' if reset else 'drop'}")
        sh("sysctl", "-q", "-w", "net.netfilter.nf_conntrack_tcp_loose=0", where=router)
        sh(
            "sysctl",
            "-q",
            "-w",
            f"net.netfilter.nf_conntrack_tcp_timeout_established={round(limit_s)}",
            where=router,
        )
        with running(
            fathom, "echo", "--json", "--tcp-only", "--listen", f"{address}:7007", where=server, ready="port"
        ):
            return round(limit_s), search(fathom, f"{address}:7007", client)


def haproxy(fathom, limit_s, number):
    with routed(number) as (client, router, server, address), tempfile.TemporaryDirectory() as directory:
        conf = pathlib.Path(directory, "haproxy.cfg")
        ms = round(limit_s * 1000)
        conf.write_text(
            f"global\n maxconn 5000\ndefaults\n mode tcp\n timeout connect 5s\n timeout client {ms}ms\n timeout server {ms}ms\n"
            f"listen l\n bind 10.213.1.1:7007\n server s {address}:7007\n"
        )
        with (
            running(
                fathom,
                "echo",
                "--json",
                "--tcp-only",
                "--listen",
                f"{address}:7007",
                where=server,
                ready="port",
            ),
            running("haproxy", "-db", "-f", str(conf), where=router),
        ):
            wait_for(lambda: "10.213.1.1:7007" in sh("ss", "-Hltn", where=router))
            return ms / 1000, search(fathom, "10.213.1.1:7007", client)


def wait_for(is_so):
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    sys.exit("it did not come up")


FABRIC = (
    ("10.70.1.4", "10.71.0.100", "silent"),
    ("10.70.1.14", "10.71.0.101", "RST while idle"),
    ("10.70.1.34", "10.71.1.34", "RST to the next packet"),
)


def of_fabric(fathom, limits_s):
    """The middleboxes of `azure-idle-limits` with other limits, each in its way; (kind, limit, result)."""
    for limit_s in limits_s:
        text = re.sub(
            r'"[45]m"',
            f'"{round(limit_s * 1000)}ms"',
            (ROOT / "scenarios/azure-idle-limits.toml").read_text(),
        )
        with tempfile.TemporaryDirectory() as directory:
            scenario, script = pathlib.Path(directory, "s.toml"), pathlib.Path(directory, "run.sh")
            scenario.write_text(text)
            lines = [
                f"{fathom} fabric exec idle-server --name bl-limits -- {fathom} echo --tcp-only --listen 0.0.0.0:7 2>{directory}/echo & echo=$!",
                f"until grep -q listening {directory}/echo; do sleep 0.1; done",
            ]
            for i, (source, target, _) in enumerate(FABRIC):
                words = f"limits {target}:7 --source {source} --up-to {UP_TO_S}s --json --quiet"
                lines.append(
                    f"{fathom} fabric exec idle-client --name bl-limits -- {fathom} {words} > {directory}/{i}.json & p{i}=$!"
                )
            lines += [f"wait $p{i}" for i in range(len(FABRIC))] + [
                "kill $echo; wait $echo 2>/dev/null; true"
            ]
            script.write_text("\n".join(lines))
            sh(fathom, "fabric", "run", str(scenario), "--name", "bl-limits", "--", "bash", str(script))
            for i, (_, _, kind) in enumerate(FABRIC):
                told = pathlib.Path(directory, f"{i}.json").read_text().splitlines()
                yield (
                    kind,
                    round(limit_s * 1000) / 1000,
                    json.loads(told[-1]) if told else {"verdict": "nothing"},
                )


def judged(limit_s, result):
    """How far the bracket's middle is from the limit, s; None: no limit was found, or it is not in the bracket."""
    if result.get("verdict") != "found" or not (result.get("survived") and result.get("died")):
        return None
    low, high = (result[end]["idle_ns"] / 1e9 for end in ("survived", "died"))
    return (low + high) / 2 - limit_s


def told(kind, cases):
    off = [judged(limit_s, result) for limit_s, result in cases]
    good = [
        o is not None and abs(o) <= max(WITHIN * limit_s, WITHIN_S)
        for o, (limit_s, _) in zip(off, cases, strict=True)
    ]
    most = max((abs(o) for o in off if o is not None), default=float("nan"))
    print(f"{kind}: {sum(good)} of {len(good)} within 5 % or 0.5 s; farthest {most:.2f} s", flush=True)
    for ok, o, (limit_s, result) in zip(good, off, cases, strict=True):
        if not ok:
            print(f"  limit {limit_s} s: off by {o}: {json.dumps(result)[:600]}", flush=True)


POLICED_PER_S = 700


def ceilings(fathom, number, searches, connections):
    """Searches for the ceiling of a router that drops what is beyond a rate, over so many connections each."""
    with routed(number) as (client, router, server, address):
        policer = f"tcp dport 7007 tcp flags & (syn) == 0 limit rate over {POLICED_PER_S}/second burst 50 packets drop"
        forwarding(router, 5, policer)
        with running(
            fathom, "echo", "--json", "--tcp-only", "--listen", f"{address}:7007", where=server, ready="port"
        ):
            words = [fathom, "limits", f"{address}:7007", "--rate-ceiling", "5000", "--json", "--quiet"]
            for _ in range(searches):
                ran = subprocess.run(
                    ["ip", "netns", "exec", client, *words, "--connections", str(connections)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                yield json.loads(ran.stdout) if ran.stdout else {"verdict": ran.stderr.strip()}


def told_ceilings(connections, results):
    ends = [
        tuple(result[end]["rate_per_s"] for end in ("good", "bad"))
        for result in results
        if result["verdict"] == "found"
    ]
    within = sum(good <= POLICED_PER_S < bad for good, bad in ends)
    others = [f"{r['verdict']}: {r.get('why')}" for r in results if r["verdict"] != "found"]
    print(
        f"ceiling of {POLICED_PER_S}/s over {connections} connection(s): {within} of {len(results)} within the step "
        f"({', '.join(f'{good} to {bad}' for good, bad in sorted(ends))}) {'; '.join(others)}",
        flush=True,
    )


def many(fathom):
    """About 10,000 connections idle at one time (20,000 over the search): its peak resident memory."""
    with running(
        fathom,
        "echo",
        "--json",
        "--tcp-only",
        "--listen",
        "127.0.0.1:7907",
        "--max-connections",
        "19900",
        ready="port",
    ):
        words = [
            fathom,
            "limits",
            "127.0.0.1:7907",
            "--up-to",
            "2h",
            "--per-length",
            "79",
            "--max-connections",
            "19900",
            "--quiet",
            "--json",
        ]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            most, began = 0, time.monotonic()
            while process.poll() is None and time.monotonic() - began < 600 and most < 10_000:
                time.sleep(5)
                most = max(
                    most, int(sh("ss", "-Htn", "state", "established", "dst", "127.0.0.1:7907").count("\n"))
                )
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
            process.terminate()
    print(f"{most:,} connections idle at one time: {peak:.1f} MiB at most", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--fathom", default=str(ROOT / "target/release/fathom"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument(
        "--of-each", type=int, default=10, metavar="N", help="searches of each kind (default 10)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the limits (default 1)")
    arguments = parser.parse_args()
    wanted, draw = arguments.only or KINDS, random.Random(arguments.seed)
    limits_s = [draw.uniform(2, 20) for _ in range(arguments.of_each)]
    fathom = arguments.fathom
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        if "conntrack" in wanted:
            for reset in (False, True):
                ran = pool.map(
                    lambda one, reset=reset: conntrack(fathom, one[1], one[0], reset=reset),
                    enumerate(limits_s),
                )
                told(
                    f"connection tracking (nftables), {'RST to the next packet' if reset else 'silent'}",
                    list(ran),
                )
        if "haproxy" in wanted:
            told(
                "HAProxy, FIN while idle",
                list(pool.map(lambda one: haproxy(fathom, one[1], one[0]), enumerate(limits_s))),
            )
    if "fabric" in wanted:
        found = list(of_fabric(fathom, limits_s))
        for kind in dict.fromkeys(kind for kind, _, _ in found):
            told(f"emulated cloud, {kind}", [(limit_s, result) for k, limit_s, result in found if k == kind])
    if "ceiling" in wanted:
        for number, connections in ((91, 1), (92, 8)):
            told_ceilings(connections, list(ceilings(fathom, number, arguments.of_each, connections)))
    if "many" in wanted:
        many(fathom)


if __name__ == "__main__":
    main()
