#!/usr/bin/env python3
"""Probes killed by SIGKILL at random moments from their first millisecond on: each recording is sound after `recover`, and
lacks at most the last second.

    kills.py [--fathom FILE] [--kills 1000] [--seed 1]

A third of the probes send 500 samples a second, a third 10,000, a third back to back. What is lost is counted against an echo
server of this script's own, which knows when the last byte came: a machine that lets nothing run for a while loses no sample. What a thread of the probe had
to wait for a processor is allowed for. Exit code 1 where one recording is not sound, or lacks more than a second.
"""

import argparse
import contextlib
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

RELEASE = pathlib.Path(__file__).resolve().parent.parent / "target/release/fathom"
PACES = {"500": ["--every", "2ms"], "10,000": ["--every", "100us"], "back to back": ["--ping-pong"]}
LATEST_S = 3.0
MOST_LOST_S = 1.0


class Echo:
    """Sends back what comes, and knows when something came last and how much."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.bytes, self.first_ns, self.last_ns = 0, 0, 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        # Until the socket is closed.
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.echo, args=(peer,), daemon=True).start()

    def echo(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(1 << 16):
                self.bytes, self.last_ns = self.bytes + len(data), time.time_ns()
                self.first_ns = self.first_ns or self.last_ns
                peer.sendall(data)


def run(fathom: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([fathom, "recording", *words], capture_output=True, text=True, check=False)


def last_sent_ns(fathom: str, directory: str) -> tuple[int, int]:
    """How many rows there are, and when the latest was sent."""
    names, *rows = run(fathom, "export", directory).stdout.splitlines()
    at = names.split(",").index("sent_ns")
    return len(rows), max((int(row.split(",")[at]) for row in rows), default=0)


def longest_wait_s(pid: int) -> float:
    """How long the thread that was kept waiting most has waited for a processor (Linux, sched-stats.rst)."""
    waited = [0.0]
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            waited.append(int((task / "schedstat").read_text().split()[1]) / 1e9)
    return max(waited)


def kill_one(fathom: str, pace: str, after_s: float, home: str) -> dict:
    echo, directory = Echo(), f"{home}/r"
    words = [
        fathom,
        "probe",
        echo.address,
        *PACES[pace],
        "--record",
        directory,
        "--quiet",
    ]
    began = time.monotonic()
    probe = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(max(0.0, after_s - (time.monotonic() - began)))
    waited_s = longest_wait_s(probe.pid)
    probe.kill()
    probe.wait()
    echo.socket.close()
    if not pathlib.Path(directory, "recording.json").exists():
        # Nothing had begun: then nothing may have been sent.
        return {"begun": False, "sound": echo.bytes == 0, "lost_s": 0.0, "rows": 0, "waited_s": 0.0}
    recovered = run(fathom, "recover", directory)
    verified = run(fathom, "verify", directory)
    sound = recovered.returncode == 0 and verified.returncode == 0
    if not sound:
        print(
            f"{pace}, killed after {after_s:.4f} s: {recovered.stderr}{verified.stdout}{verified.stderr}"
        )
        return {"begun": True, "sound": False, "lost_s": 0.0, "rows": 0, "waited_s": 0.0}
    rows, last_ns = last_sent_ns(fathom, directory)
    lost_s = (echo.last_ns - (last_ns or echo.first_ns)) / 1e9 if echo.bytes else 0.0
    return {"begun": True, "sound": True, "lost_s": max(0.0, lost_s), "rows": rows, "waited_s": waited_s}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fathom", default=str(RELEASE))
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    failed = False
    results: dict[str, list[dict]] = {pace: [] for pace in PACES}
    for number in range(arguments.kills):
        pace = list(PACES)[number % len(PACES)]
        # Half of them as often in the first milliseconds as in the seconds after, half at any moment.
        early = number // len(PACES) % 2 == 0
        after_s = 0.001 * (LATEST_S / 0.001) ** chance.random() if early else chance.uniform(0, LATEST_S)
        home = tempfile.mkdtemp(prefix="fathom-kills-")
        try:
            results[pace].append(kill_one(arguments.fathom, pace, after_s, home))
        finally:
            shutil.rmtree(home)
    for pace, all_of in results.items():
        lost = sorted(r["lost_s"] for r in all_of if r["begun"] and r["sound"])
        told = {
            "pace": pace,
            "kills": len(all_of),
            "not_begun": sum(not r["begun"] for r in all_of),
            "not_sound": sum(not r["sound"] for r in all_of),
            "without_rows": sum(r["begun"] and r["sound"] and not r["rows"] for r in all_of),
            "lost_s_median": round(lost[len(lost) // 2], 3) if lost else None,
            "lost_s_most": round(lost[-1], 3) if lost else None,
            "over_a_second": sum(r["lost_s"] > MOST_LOST_S + r["waited_s"] for r in all_of),
            "over_a_second_with_a_thread_that_had_to_wait": sum(s > MOST_LOST_S for s in lost),
        }
        print(json.dumps(told), flush=True)
        failed |= bool(told["not_sound"] or told["over_a_second"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
