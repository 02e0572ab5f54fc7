#!/usr/bin/env python3
"""Probes killed by SIGKILL at random moments from their first millisecond on: each recording is sound after
`recover`, each sample that was sent more than 1.5 s before the kill has its row, or is told as lost on its connection or
without one, and none is there twice, or there and told (schema/recording.md, "What a kill takes").

    kills.py [--fathom FILE] [--kills 300] [--seed 1] [--most SECONDS] [--pace NAME]

--kills is how many are to be judged, over all paces: a kill is, where samples are older than what may be lost. Of the others,
which are about two for each of these, it is asked only that they are sound and that no sample stands twice.

The probes take turns: 500 and 10,000 samples a second, back to back, the same in recordings that follow one
another each second, over datagrams of which three of ten are not answered, over connections of which half are
silent, and on several threads. What came is counted by an echo server of this script's own, which knows when
each sample came: a machine that lets nothing run for a while loses no sample. What a thread of the probe had to
wait for a processor in the last seconds is allowed for, and nothing is judged where that is more than half of them.
Exit code 1 where one recording is not sound, a sample is neither there nor told, or one is there or told too often.
"""

import argparse
import collections
import contextlib
import dataclasses
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
import typing

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
WRONG = ("doubled", "surplus", "untold")
"""Samples of a run that are there twice, there or told too often, and neither."""
MOST_LOST_S = 1.5
# So many samples of a connection that was cut were sent, at the most, and never read.
NOT_READ = 8
# Kills for each that is to be judged: more are needed only where nothing of this host can be judged.
MOST_KILLS_EACH = 20
# What a thread had to wait for longer before the kill has nothing to do with what is lost.
LOOKED_AT_S = 2.5


class Echo:
    """Sends back what comes, and knows which sample came when."""

    def __init__(self, pace: str) -> None:
        self.loses, self.silent = "datagrams" in pace, "silent" in pace
        self.came: list[tuple[int, int, int]] = []
        self.serving: list[threading.Thread] = []
        while True:
            self.listener = socket.create_server(("127.0.0.1", 0))
            port = self.listener.getsockname()[1]
            self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                self.datagrams.bind(("127.0.0.1", port))
                break
        self.address = f"127.0.0.1:{port}"
        self.port = port
        threading.Thread(target=self.accept, daemon=True).start()
        self.serve(self.serve_datagrams)

    def serve(self, *work: typing.Any) -> None:
        self.serving.append(threading.Thread(target=work[0], args=work[1:], daemon=True))
        self.serving[-1].start()

    def finish(self) -> int:
        """Reads what the probe has sent before its end; gives how many datagrams the kernel had no room for."""
        rows = [line.split() for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]]
        dropped = sum(int(row[-1]) for row in rows if int(row[1].split(":")[1], 16) == self.port)
        # After all that was sent before it.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        # A connection that the probe's end has not told yet is not accepted any more.
        self.listener.close()
        for thread in self.serving:
            thread.join(timeout=10)
        self.datagrams.close()
        return dropped

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
                self.serve(self.echo, peer)

    def echo(self, peer: socket.socket) -> None:
        held = b""
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(1 << 16):
                held += data
                whole = len(held) // FRAME * FRAME
                frames = [held[at : at + FRAME] for at in range(0, whole, FRAME)]
                held = held[whole:]
                answers = b"".join(frame for frame in frames if self.answers(frame))
                # A peer that is gone has sent what is left to be read.
                with contextlib.suppress(OSError):
                    peer.sendall(answers)

    def serve_datagrams(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                frame, peer = self.datagrams.recvfrom(2048)
                if not frame:
                    return
                if len(frame) < FRAME or self.answers(frame):
                    self.datagrams.sendto(frame, peer)


def run(fathom: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([fathom, "recording", *words], capture_output=True, text=True, check=False)


def rows(fathom: str, directory: pathlib.Path) -> list[tuple[int, int]]:
    """Connection and number of each row's sample."""
    names, *lines = run(fathom, "export", str(directory)).stdout.splitlines()
    columns = names.split(",")
    connection, seq = columns.index("connection"), columns.index("seq")
    fields = [line.split(",") for line in lines]
    return [(int(row[connection]), int(row[seq])) for row in fields]


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


@dataclasses.dataclass
class Kept:
    """What the recordings of a run say, and what came."""

    came: list[tuple[int, int, int]]
    rows: collections.Counter
    told: dict[int | None, int]
    dropped: int

    def doubled(self) -> int:
        """Rows of samples that have another, in this recording or in another of the run."""
        return sum(count - 1 for count in self.rows.values())

    def missing_s(self, killed_ns: int) -> float:
        """How old the oldest sample without a row is, be it told or not."""
        gone = [at for connection, seq, at in self.came if (connection, seq) not in self.rows]
        return max(0, killed_ns - min(gone, default=killed_ns)) / 1e9

    def untold(self, until_ns: int) -> int:
        """Samples that came until then and are neither there nor told: on their connection, or of several."""
        missing = collections.Counter(
            connection
            for connection, seq, at in self.came
            if at < until_ns and (connection, seq) not in self.rows
        )
        left = sum(max(0, count - self.told.get(connection, 0)) for connection, count in missing.items())
        return max(0, left - self.told.get(None, 0))

    def surplus(self) -> int:
        """Rows and told losses beyond what can have been sent: on the worst connection, or of all."""
        came = collections.Counter(connection for connection, _, _ in self.came)
        there = collections.Counter(connection for connection, _ in self.rows.elements())
        each = [
            there[connection] + self.told.get(connection, 0) - came[connection] - NOT_READ - self.dropped
            for connection in came | there
        ]
        all_told = self.rows.total() + sum(self.told.values())
        whole = all_told - len(self.came) - NOT_READ * len(came) - self.dropped
        return max(0, whole, *each)


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
    dropped = echo.finish()
    recordings = sorted(directory.glob("*")) if "rotated" in pace else [directory]
    recordings = [one for one in recordings if (one / "recording.json").exists()]
    result = {"begun": bool(recordings), "sound": True, "waited_s": waited_s, "judged": False}
    if not recordings:
        # Nothing had begun: then nothing may have been sent.
        return result | {"sound": not echo.came}
    there: collections.Counter = collections.Counter()
    lost: dict[int | None, int] = collections.Counter()
    for one in recordings:
        recovered, verified = run(fathom, "recover", str(one)), run(fathom, "verify", str(one))
        if recovered.returncode or verified.returncode:
            print(
                f"{pace}, killed after {after_s:.4f} s: {recovered.stderr}{verified.stdout}{verified.stderr}"
            )
            return result | {"sound": False}
        there.update(rows(fathom, one))
        lost.update(told(one))
    kept = Kept(echo.came, there, lost, dropped)
    result |= {"rows": len(there), "doubled": kept.doubled(), "surplus": kept.surplus()}
    until_ns = killed_ns - int((MOST_LOST_S + waited_s) * 1e9)
    # A run that is no longer than what may be lost says nothing of that, nor one that was not let run.
    if waited_s * 2 <= LOOKED_AT_S and any(at < until_ns for _, _, at in echo.came):
        result |= {"judged": True, "untold": kept.untold(until_ns), "missing_s": kept.missing_s(killed_ns)}
    if wrong := {key: result[key] for key in WRONG if result.get(key)}:
        print(f"{pace}, killed after {after_s:.4f} s, {waited_s:.2f} s of waiting: {wrong}", flush=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fathom", default=str(RELEASE))
    parser.add_argument("--kills", type=int, default=300, help="to be judged, over all paces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=LATEST_S, help="the latest moment of a kill")
    parser.add_argument("--pace", choices=PACES, action="append", help="only these")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    failed = False
    results: dict[str, list[dict]] = {pace: [] for pace in arguments.pace or PACES}
    judged = number = 0
    while judged < arguments.kills and number < MOST_KILLS_EACH * max(arguments.kills, len(results)):
        pace = list(results)[number % len(results)]
        # Half of them as often in the first milliseconds as in the seconds after, half at any moment.
        early = number // len(results) % 2 == 0
        most = arguments.most
        after_s = 0.001 * (most / 0.001) ** chance.random() if early else chance.uniform(0, most)
        home = tempfile.mkdtemp(prefix="fathom-kills-")
        try:
            results[pace].append(kill_one(arguments.fathom, pace, after_s, home))
            judged += results[pace][-1]["judged"]
            number += 1
        finally:
            shutil.rmtree(home)
    for pace, all_of in results.items():
        missing = sorted(r["missing_s"] for r in all_of if r["judged"])
        summary = {
            "pace": pace,
            "kills": len(all_of),
            "judged": len(missing),
            "not_begun": sum(not r["begun"] for r in all_of),
            "not_sound": sum(not r["sound"] for r in all_of),
            "without_rows": sum(r["begun"] and r["sound"] and not r["rows"] for r in all_of),
            "missing_s_median": round(missing[len(missing) // 2], 3) if missing else None,
            "missing_s_most": round(missing[-1], 3) if missing else None,
        }
        summary |= {f"with_{key}": sum(bool(r.get(key)) for r in all_of) for key in WRONG}
        print(json.dumps(summary), flush=True)
        failed |= any(summary[key] for key in ("not_sound", *(f"with_{key}" for key in WRONG)))
    print(f"{judged} of {number} kills judged")
    if judged < arguments.kills:
        print(
            f"{arguments.kills} were to be judged: this host lets the probes wait too long", file=sys.stderr
        )
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
