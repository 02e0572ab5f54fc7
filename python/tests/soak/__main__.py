"""Real faults, at random, in networks of their own: what the recording says is held against what was done.

As root, in python/tests: python -m soak [--seed N] [--rounds N] [--beside N] [--keep DIR] [KIND ...]; a kind
takes some twenty seconds. It fails where anything said is wrong, missed or invented; "not known" is counted.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from soak.kinds import KINDS
from soak.scene import Scene, StuckError

OURS = {"finished", "refreshed"}
PAUSES = {"peer_paused", "local_paused"}


def incidents(events):
    """What was said last of each stall that was survived or goes on, and of each end that nobody wanted."""
    told, latest = [], {}
    for event in events:
        connection = event.get("connection")
        match event["kind"]:
            case "stall.began":
                latest[connection, "stall"] = stall = {"about": "stall"}
                told.append(stall)
            case "stall.ended" if not event["recovered"]:
                told.remove(latest.pop((connection, "stall")))
            case "connection.closed" if event["cause"] not in OURS:
                latest[connection, "closing"] = end = {"about": event["cause"]}
                told.append(end)
            case "connection.explained" if (connection, event["about"]) in latest:
                latest[connection, event["about"]]["said"] = event
    return told


def judged(incident, truth):
    """Its words, and how they stand to the truth."""
    said = incident.get("said")
    if said is None or said["verdict"] == "unknown":
        return "unknown", "unknown"
    words = "/".join(filter(None, [said["verdict"], said.get("direction")]))
    if words in truth.allowed:
        return words, "right"
    if not truth.allowed and truth.least == 0 and said["verdict"] in PAUSES:
        # This machine's own, which nobody made.
        return words, "right"
    return words, "WRONG"


def run(fathom, directory, name, seed):
    """One fault: its account, and how each incident was judged."""
    rng = random.Random(f"{name}/{seed}")
    with Scene(
        fathom, directory / f"{name}-{seed}", f"soak{os.getpid()}-{list(KINDS).index(name)}-{seed}", rng
    ) as scene:
        truth = KINDS[name](scene)
        scene.end()
        told = incidents(scene.events())
    lines, counts = [f"{name} {seed}: {scene.truth}"], Counter()
    for incident in told:
        words, judgement = judged(incident, truth)
        counts[judgement] += 1
        said = incident.get("said", {})
        because = "; ".join(said.get("because", [])) if judgement == "WRONG" else ""
        lines.append(f"  {judgement}: {incident['about']}: {words} ({said.get('confidence')}) {because}")
    if len(told) < truth.least:
        counts["missed"] += 1
        lines.append(f"  missed: {len(told)} of {truth.least} incidents")
    story = subprocess.run(
        [fathom, "recording", "explain", scene.directory / "recording", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines += [f"  {json.loads(line)['statement']}" for line in story.stdout.splitlines() if counts["WRONG"]]
    return lines, counts


def main():
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", default=os.environ.get("FATHOM", "fathom"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--beside", type=int, default=2, help="how many at a time")
    parser.add_argument("--keep", type=Path, help="a directory for what was recorded")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    arguments = parser.parse_args()
    if (
        os.geteuid() != 0
        or not Path("/dev/net/tun").exists()
        or not (shutil.which("nft") and shutil.which("ss"))
    ):
        print("SKIPPED: the soak of real faults needs root, /dev/net/tun, nftables and iproute2")
        return int(os.environ.get("CI") == "true")
    os.environ["FATHOM_CLOUD"] = "off"
    fathom = str(Path(shutil.which(arguments.fathom) or arguments.fathom).resolve())
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    total = Counter()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(arguments.beside) as workers:
        directory = arguments.keep or Path(scratch)
        runs = [
            workers.submit(run, fathom, directory, name, seed)
            for seed in seeds
            for name in arguments.kinds or KINDS
        ]
        for one in runs:
            try:
                lines, counts = one.result()
            except (StuckError, OSError, subprocess.SubprocessError) as error:
                lines, counts = [f"stuck: {error}"], Counter(stuck=1)
            print("\n".join(lines), flush=True)
            total += counts
    print(", ".join(f"{n} {judgement}" for judgement, n in sorted(total.items())))
    return int(bool(total["WRONG"] or total["missed"] or total["stuck"]))


if __name__ == "__main__":
    sys.exit(main())
