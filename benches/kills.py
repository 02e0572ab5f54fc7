#!/usr/bin/env python3
"""Probes killed by SIGKILL at random moments from their first millisecond on: each recording is sound after
`recover`, and each sample that was sent more than 1.5 s before the kill has its row, or is told as lost
(schema/recording.md, "What a kill takes").

    kills.py [--fathom FILE] [--kills 1000] [--seed 1] [--most SECONDS] [--pace NAME]

The probes take turns: 500 and 10,000 samples a second, back to back, the same in recordings that follow one
another each second, over datagrams of which three of ten are not answered, over connections of which half are
silent, and on several threads. What came is counted by an echo server of this script's own, which knows when
each sample came: a machine that lets nothing run for a while loses no sample. What a thread of the probe had to
wait for a processor in the last seconds is allowed for. Exit code 1 where one recording is not sound, or a
sample is neither there nor told.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

RELEASE = pathlib.Path(__file__).resolve().parent.parent / "target/release/fathom"
FRAME = 64
ROTATED = ["--rotate", "1s"]
THREADS = ["--ping-pong", "--allow-high-rate", "--threads"]
PACES = {
    "500": ["--every", "2ms"],
    "10,000": ["--every", "100us"],
    "back to back": ["--ping-pong"],
    "back to back, rotated": ["--ping-pong", *ROTATED],
    "10,000, rotated": ["--every", "100us", *ROTATED],
    "datagrams": ["--udp", "--every", "10ms", "--connections", "4"],
    "datagrams, rotated": ["--udp", "--every", "1ms", "--connections", "2", *ROTATED],
    "half silent": ["--every", "10ms", "--connections", "4"],
    "threads": [*THREADS, "4", "--connections", "4"],
    "16 threads": [*THREADS, "16", "--connections", "16"],
    "threads, datagrams": [*THREADS, "2", "--connections", "4", "--udp", "--timeout", "50ms"],
}
LATEST_S = 3.0
MOST_LOST_S = 1.5
# What a thread had to wait for longer before the kill has nothing to do with what is lost.
LOOKED_AT_S = 2.5


class Echo:
    """Sends back what comes, and knows which sample came when."""

    def __init__(self, pace: str) -> None:
        self.loses, self.silent = "datagrams" in pace, "silent" in pace
        self.came: list[tuple[int, int, int]] = []
        while True:
            self.listener = socket.create_server(("127.0.0.1", 0))
            port = self.listener.getsockname()[1]
            self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                self.datagrams.bind(("127.0.0.1", port))
                break
        self.address = f"127.0.0.1:{port}"
        for serve in (self.accept, self.serve_datagrams):
            threading.Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        self.listener.close()
        self.datagrams.close()

    def answers(self, frame: bytes) -> bool:
        """Notes a sample; whether it is to be answered. What has no such connection asks about a silent one."""
        connection, sequence = struct.unpack_from(">IQ", frame, 12)
        if connection >= 1 << 16:
            return True
        self.came.append((connection, sequence, time.monotonic_ns()))
        if self.loses:
            return sequence % 10 not in (3, 8, 9)
        return not (self.silent and connection % 2 and sequence > 4)

    def accept(self) -> None:
        # Until the socket is closed.
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                threading.Thread(target=self.echo, args=(peer,), daemon=True).start()

    def echo(self, peer: socket.socket) -> None:
        held = b""
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(1 << 16):
                held += data
                whole = len(held) // FRAME * FRAME
                frames = [held[at : at + FRAME] for at in range(0, whole, FRAME)]
                held = held[whole:]
                peer.sendall(b"".join(frame for frame in frames if self.answers(frame)))

    def serve_datagrams(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                frame, peer = self.datagrams.recvfrom(2048)
                if len(frame) < FRAME or self.answers(frame):
                    self.datagrams.sendto(frame, peer)


def run(fathom: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([fathom, "recording", *words], capture_output=True, text=True, check=False)


def rows(fathom: str, directory: pathlib.Path) -> set[tuple[int, int]]:
    """Connection and number of each sample that has a row."""
    names, *lines = run(fathom, "export", str(directory)).stdout.splitlines()
    columns = names.split(",")
    connection, seq = columns.index("connection"), columns.index("seq")
    fields = [line.split(",") for line in lines]
    return {(int(row[connection]), int(row[seq])) for row in fields}


def told(directory: pathlib.Path) -> dict[int | None, int]:
    """Samples that are told as lost, by connection."""
    lost: dict[int | None, int] = collections.Counter()
    for line in (directory / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "recording.overflowed":
            lost[event.get("connection")] += event["lost"]
    return lost


def waits_s(pid: int) -> dict[str, float]:
    """How long each thread that sends or writes has waited for a processor (Linux, sched-stats.rst)."""
    waits = {}
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() not in ("probe", "record"):
                continue
            waits[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return waits


def lost_s(came: list, killed_ns: int, there: set, lost: dict[int | None, int]) -> float:
    """How old the oldest sample is of those that are neither there nor told."""
    left, of_several = dict(lost), lost.get(None, 0)
    for connection, sequence, at_ns in sorted(came, key=lambda sample: sample[2]):
        if (connection, sequence) in there:
            continue
        if left.get(connection, 0) > 0:
            left[connection] -= 1
        elif of_several > 0:
            of_several -= 1
        else:
            return max(0, killed_ns - at_ns) / 1e9
    return 0.0


def kill_one(fathom: str, pace: str, after_s: float, home: str) -> dict:
    echo, directory = Echo(pace), pathlib.Path(home, "r")
    words = [fathom, "probe", echo.address, *PACES[pace], "--record", str(directory), "--quiet"]
    began = time.monotonic()
    probe = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(max(0.0, after_s - LOOKED_AT_S))
    before = waits_s(probe.pid)
    time.sleep(max(0.0, after_s - (time.monotonic() - began)))
    waited_s = max((s - before.get(task, 0.0) for task, s in waits_s(probe.pid).items()), default=0.0)
    killed_ns = time.monotonic_ns()
    probe.kill()
    probe.wait()
    echo.close()
    recordings = sorted(directory.glob("*")) if "rotated" in pace else [directory]
    recordings = [one for one in recordings if (one / "recording.json").exists()]
    result = {"begun": bool(recordings), "sound": True, "lost_s": 0.0, "rows": 0, "waited_s": waited_s}
    # A run that is no longer than what may be lost says nothing of that.
    result["judged"] = after_s > MOST_LOST_S + waited_s
    if not recordings:
        # Nothing had begun: then nothing may have been sent.
        return result | {"sound": not echo.came}
    there: set[tuple[int, int]] = set()
    lost: dict[int | None, int] = collections.Counter()
    for one in recordings:
        recovered, verified = run(fathom, "recover", str(one)), run(fathom, "verify", str(one))
        if recovered.returncode or verified.returncode:
            print(
                f"{pace}, killed after {after_s:.4f} s: {recovered.stderr}{verified.stdout}{verified.stderr}"
            )
            return result | {"sound": False}
        there |= rows(fathom, one)
        lost.update(told(one))
    return result | {"rows": len(there), "lost_s": lost_s(echo.came, killed_ns, there, lost)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fathom", default=str(RELEASE))
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=LATEST_S, help="the latest moment of a kill")
    parser.add_argument("--pace", choices=PACES, action="append", help="only these")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    failed = False
    results: dict[str, list[dict]] = {pace: [] for pace in arguments.pace or PACES}
    for number in range(arguments.kills):
        pace = list(results)[number % len(results)]
        # Half of them as often in the first milliseconds as in the seconds after, half at any moment.
        early = number // len(results) % 2 == 0
        most = arguments.most
        after_s = 0.001 * (most / 0.001) ** chance.random() if early else chance.uniform(0, most)
        home = tempfile.mkdtemp(prefix="fathom-kills-")
        try:
            results[pace].append(kill_one(arguments.fathom, pace, after_s, home))
        finally:
            shutil.rmtree(home)
    for pace, all_of in results.items():
        lost = sorted(r["lost_s"] for r in all_of if r["begun"] and r["sound"])
        summary = {
            "pace": pace,
            "kills": len(all_of),
            "not_begun": sum(not r["begun"] for r in all_of),
            "not_sound": sum(not r["sound"] for r in all_of),
            "without_rows": sum(r["begun"] and r["sound"] and not r["rows"] for r in all_of),
            "lost_s_median": round(lost[len(lost) // 2], 3) if lost else None,
            "lost_s_most": round(lost[-1], 3) if lost else None,
            "judged": sum(r["judged"] for r in all_of),
            "too_old": sum(r["lost_s"] > MOST_LOST_S + r["waited_s"] for r in all_of),
            "too_old_with_a_thread_that_had_to_wait": sum(s > MOST_LOST_S for s in lost),
        }
        print(json.dumps(summary), flush=True)
        failed |= bool(summary["not_sound"] or summary["too_old"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
