"""The peers that Debian packages, run on loopback: each writes its real output into a file."""

import json
import socket
import subprocess

from support.programs import LIMIT, free_port, missing, serving, tool, until_it_answers


def sockperf(directory, *options):
    """A full log of a second of ping-pong over TCP, and what it printed: two files."""
    program, port, log = tool("sockperf"), str(free_port()), directory / "full.csv"
    with serving(program, "server", "--tcp", "-i", "127.0.0.1", "-p", port):
        ran = until_it_answers(
            [program, "ping-pong", "--tcp", "-i", "127.0.0.1", "-p", port, "-t", "1", "--mps", "200",
             "-m", "64", "--full-log", str(log), *options],
            # Refused, sockperf exits with 0 all the same.
            lambda _: log.exists() and "txTime" in log.read_text(),
        )  # fmt: skip
    printed = directory / "summary.txt"
    printed.write_text(ran.stdout)
    return log, printed


def qperf(directory):
    """Its mean of a second of round trips over TCP."""
    program, port, out = tool("qperf"), str(free_port()), directory / "q.txt"
    with serving(program, "-lp", port):
        ran = until_it_answers([program, "-lp", port, "-t", "1", "127.0.0.1", "tcp_lat"])
    out.write_text(ran.stdout)
    return out


def iperf3(directory):
    """A transfer of two seconds, with the kernel's round trips."""
    program, port, out = tool("iperf3"), str(free_port()), directory / "i.json"
    with serving(program, "-s", "-B", "127.0.0.1", "-p", port):
        ran = until_it_answers(
            [program, "-c", "127.0.0.1", "-p", port, "-t", "2", "-b", "20M", "-J"],
            # Refused, iperf3 -J exits with 0 all the same and says so in its JSON.
            accept=lambda ended: ended.returncode == 0 and "error" not in json.loads(ended.stdout),
        )
    out.write_text(ran.stdout)
    return out


def irtt(directory):
    """Half a second of one packet every 10 ms."""
    program, port, out = tool("irtt"), free_port(socket.SOCK_DGRAM), directory / "irtt.json"
    with serving(program, "server", "-b", f"127.0.0.1:{port}"):
        until_it_answers(
            [program, "client", "-i", "10ms", "-d", "500ms", "-q", "-o", str(out), f"127.0.0.1:{port}"]
        )
    return out


def ping(directory, *options):
    """Five packets."""
    program, out = tool("ping"), directory / "ping.txt"
    command = [program, "-c", "5", "-i", "0.2", *options, "127.0.0.1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if "permitted" in ran.stderr:
        missing("the right to ping")
    out.write_text(ran.stdout)
    return out
