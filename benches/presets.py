#!/usr/bin/env python3
"""Each preset of scenarios/ against itself: a table, and with --json a JSON line for each path.

For every path `fathom probe` sends its samples on real hosts of the fabric, and these are held together, mean and p95:

* probe - log: the round trips that the probe measured, against what the packet log says that the fabric did with those
  very packets, there and back, from the moment in to the moment out: within 3 % and 60 µs. The log does not have the
  hosts' own time: stacks, wake-ups, the reflector. Its median is "extra".
* log - model: that against the model, as `fathom fabric model` computes it: within 1 % and 5 µs beyond what so few
  samples may be off by chance. (2,000 samples of a path that spreads widely can miss by more than the percent with
  nothing wrong. "~" marks where that was needed, three standard errors.)
* drawn - model: the same from the moment in to the moment when the packet was due, so without the fabric's own
  lateness, whose mean both ways is "late".
* virtual - model: in virtual time, with so many samples (--virtual) that chance plays no part: within 1 % and 5 µs.

Needs root (or user namespaces), iproute2 and pyarrow. Exit code 1 if anything is off by more."""

import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESETS = sorted(file.stem for file in (ROOT / "scenarios").glob("*.toml"))
# Near and far, wide and narrow, a balancer, a firewall, a private endpoint.
QUICK = (
    "azure-same-host", "azure-cross-zone", "azure-cross-region", "azure-hub-firewall", "azure-lb-same-zone",
    "azure-transatlantic-private-endpoint",
)  # fmt: skip

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument(
    "--only", choices=PRESETS, action="append", metavar="PRESET", help="only this; may be given again"
)
parser.add_argument(
    "--quick", action="store_true", help=f"only {', '.join(QUICK)}; 1,000 samples, 20,000 virtual"
)
parser.add_argument("--samples", type=int, metavar="N", help="samples a path (default: 2,000)")
parser.add_argument(
    "--virtual", type=int, metavar="N", help="so many in virtual time (default: 100,000; 0: none)"
)
parser.add_argument(
    "--every", default=5, type=float, metavar="MS", help="from one sample to the next (default: 5)"
)
parser.add_argument(
    "--wait", choices=("hybrid", "spin", "sleep"), default="hybrid", help="how the fabric waits"
)
parser.add_argument("--spin", action="store_true", help="the probe polls instead of sleeping")
parser.add_argument("--json", action="store_true", help="also a JSON line for each path")
parser.add_argument("--fathom", default=str(ROOT / "target/release/fathom"), help="(default: %(default)s)")
parser.add_argument("--inside", metavar="FILE", help=argparse.SUPPRESS)
ARGUMENTS = parser.parse_args()
FATHOM = str(pathlib.Path(ARGUMENTS.fathom).resolve())
SAMPLES = ARGUMENTS.samples or (1_000 if ARGUMENTS.quick else 2_000)
VIRTUAL = ARGUMENTS.virtual if ARGUMENTS.virtual is not None else (20_000 if ARGUMENTS.quick else 100_000)
# IPv4 and TCP headers with the timestamps option (RFC 7323), which Linux sends by default; a sample has 64 bytes.
HEADERS, SIZE = 52, 64
# Probe and fabric turn the same monotonic clock into UTC by anchors of their own.
SLACK_NS = 500_000


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def inside(plan):
    """Within `fathom fabric run`: one path after the other, so that none waits for another's packets."""
    for path in plan["paths"]:
        port = path["target"].rsplit(":", 1)[1]
        echo = [FATHOM, "fabric", "exec", path["to"], "--", FATHOM, "echo", "--json", "--tcp-only"]
        echo += ["--listen", f"0.0.0.0:{port}"]
        with subprocess.Popen(
            echo, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as reflector:
            try:
                if "listening" not in reflector.stdout.readline():
                    sys.exit(f"the reflector on {path['to']} does not listen on port {port}")
                probe = [FATHOM, "fabric", "exec", path["from"], "--", FATHOM, "probe", path["target"]]
                probe += ["--quiet", "--json", "--source", path["source"], "--size", str(SIZE)]
                probe += ["--every", f"{plan['every_ns']}ns"]
                probe += [
                    "--count",
                    str(plan["samples"]),
                    "--record",
                    str(pathlib.Path(plan["work"]) / path["path"]),
                ]
                probe += ["--timestamps", "off", "--pause-clock", "off"] + (
                    ["--spin"] if plan["spin"] else []
                )
                run(*probe)
            finally:
                reflector.terminate()


def samples(recording):
    """Round trips with when they were sent, by a recording's CSV."""
    rows = csv.DictReader(run(FATHOM, "recording", "export", str(recording)).splitlines())
    return [(int(row["sent_ns"]), int(row["rtt_ns"])) for row in rows if row["rtt_ns"]]


def messages(packets, path, host):
    """The samples (or their echoes) that a host sent, as (in, due, out) in ns, in order; a packet may hold several."""
    of = [
        p
        for p in packets
        if p["path"] == path and p["from"] == host and p["protocol"] == "tcp" and p["out_ns"]
    ]
    of.sort(key=lambda p: p["in_ns"])
    return [(p["in_ns"], p["due_ns"], p["out_ns"]) for p in of for _ in range((p["size"] - HEADERS) // SIZE)]


def joined(measured, requests, replies):
    """For each measured round trip what it took in the fabric, and what it was meant to take: the first message since a
    sample was sent is its own, and its echo is the first one not yet taken that was sent after that came out. What was
    sent again finds no sample, and is passed over."""
    pairs, request, reply = [], 0, 0
    for sent_ns, rtt_ns in measured:
        while request < len(requests) and requests[request][0] < sent_ns - SLACK_NS:
            request += 1
        if request == len(requests) or requests[request][0] > sent_ns + rtt_ns + SLACK_NS:
            continue
        (in_ns, due_ns, out_ns), request = requests[request], request + 1
        while reply < len(replies) and replies[reply][0] < out_ns:
            reply += 1
        if reply == len(replies) or replies[reply][2] > sent_ns + rtt_ns + SLACK_NS:
            continue
        (back_in_ns, back_due_ns, back_out_ns), reply = replies[reply], reply + 1
        took, drawn = (out_ns - in_ns + back_out_ns - back_in_ns, due_ns - in_ns + back_due_ns - back_in_ns)
        pairs.append((rtt_ns, took, drawn))
    return pairs


def figures(round_trips):
    ordered = sorted(round_trips)
    return {"mean": sum(ordered) / len(ordered), "p95": ordered[len(ordered) * 95 // 100]}


def virtual(scenario, work, models):
    """Mean and p95 of each path in virtual time, without the scenario's events and from the start on."""
    tables = re.split(r"^(?=\[)", pathlib.Path(scenario).read_text(), flags=re.MULTILINE)
    standing = [t for t in tables if not t.startswith(("[[event]]", "[simulate]", "[[simulate.probe]]"))]
    file = pathlib.Path(work) / "standing.toml"
    file.write_text("".join(standing))
    every_ns = 20_000_000
    pace = ("--every", f"{every_ns}ns", "--for", f"{VIRTUAL * every_ns}ns")
    run(FATHOM, "fabric", "simulate", str(file), "--record", f"{work}/virtual", *pace)
    return {m["path"]: figures([rtt for _, rtt in samples(f"{work}/virtual/{m['path']}")]) for m in models}


def off_by(found, wanted, share, plus_ns, chance=(0, 0)):
    """How far something is off, in ns, and in units of what is allowed: 1 is the most."""
    low, high = (min(wanted, chance[0]), max(wanted, chance[1])) if chance[1] else (wanted, wanted)
    beyond = max(found - high, low - found, 0)
    return {"ns": round(found - wanted), "of_allowed": beyond / (share * wanted + plus_ns)}


def compare(name, model, packets, work, in_virtual):
    label = model["path"]
    measured = samples(pathlib.Path(work) / label)
    pairs = joined(measured, messages(packets, label, model["from"]), messages(packets, label, model["to"]))
    if len(pairs) < 0.99 * SAMPLES:
        sys.exit(f"{name}, path {label}: only {len(pairs)} of {SAMPLES} samples were found in the packet log")
    rtts, took, meant = zip(*pairs, strict=True)
    probe, log, drawn = figures(rtts), figures(took), figures(meant)
    extra = sorted(rtt - of_it for rtt, of_it in zip(rtts, took, strict=True))
    row = {"preset": name, "path": label, "samples": len(pairs), "extra_p50_ns": extra[len(extra) // 2]}
    row["late_mean_ns"] = round(log["mean"] - drawn["mean"])
    for statistic in ("mean", "p95"):
        wanted, chance = model["rtt_ns"][statistic], model["chance"][statistic]
        row[statistic] = {
            "model_ns": wanted,
            "log_ns": round(log[statistic]),
            "probe_ns": round(probe[statistic]),
        }
        row[statistic]["probe"] = off_by(probe[statistic], log[statistic], 0.03, 60_000)
        row[statistic]["log"] = off_by(log[statistic], wanted, 0.01, 5_000, chance)
        row[statistic]["log_strict"] = off_by(log[statistic], wanted, 0.01, 5_000)
        row[statistic]["drawn"] = off_by(drawn[statistic], wanted, 0.01, 5_000, chance)
        if label in in_virtual:
            row[statistic]["virtual"] = off_by(in_virtual[label][statistic], wanted, 0.01, 5_000)
    return row


def mark(of, what):
    if of[what]["of_allowed"] > 1:
        return "!"
    return "~" if what == "log" and of["log_strict"]["of_allowed"] > 1 else " "


def tell(row):
    cells, marks = [f"{row['path']:<30}"], ""
    for statistic in ("mean", "p95"):
        of = row[statistic]
        cells.append(f"{of['model_ns'] / 1e3:>9.1f}")
        for what in ("virtual", "drawn", "log", "probe"):
            marks += mark(of, what) if what in of else ""
            cells.append(f"{of[what]['ns'] / 1e3:>+8.1f}{marks[-1]}" if what in of else f"{'-':>8} ")
    print(
        " ".join(cells), f"{row['extra_p50_ns'] / 1e3:>+7.1f} {row['late_mean_ns'] / 1e3:>+7.1f}", flush=True
    )
    if ARGUMENTS.json:
        print(json.dumps(row), flush=True)
    return "!" not in marks


def measure(name):
    import pyarrow.parquet

    scenario = str(ROOT / f"scenarios/{name}.toml")
    chance = ("--samples", str(SAMPLES))
    models = [
        json.loads(line) for line in run(FATHOM, "fabric", "model", scenario, "--json", *chance).splitlines()
    ]
    with tempfile.TemporaryDirectory() as work:
        plan = pathlib.Path(work) / "plan.json"
        every_ns = round(ARGUMENTS.every * 1e6)
        paths = {
            "paths": models,
            "work": work,
            "samples": SAMPLES,
            "every_ns": every_ns,
            "spin": ARGUMENTS.spin,
        }
        plan.write_text(json.dumps(paths))
        command = [
            FATHOM,
            "fabric",
            "run",
            scenario,
            "--name",
            f"presets-{os.getpid()}",
            "--wait",
            ARGUMENTS.wait,
        ]
        command += ["--truth", f"{work}/truth", "--packets"]
        command += ["--", sys.executable, __file__, "--fathom", FATHOM, "--inside", str(plan)]
        run(*command)
        packets = pyarrow.parquet.read_table(f"{work}/truth/truth-packets.parquet").to_pylist()
        in_virtual = virtual(scenario, work, models) if VIRTUAL else {}
        return [tell(compare(name, model, packets, work, in_virtual)) for model in models]


def main():
    if ARGUMENTS.inside:
        inside(json.loads(pathlib.Path(ARGUMENTS.inside).read_text()))
        return
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        sys.exit("presets.py reads Parquet with pyarrow, which is missing; install it: pip install pyarrow")
    print(f"µs; {SAMPLES} samples a path, one every {ARGUMENTS.every:g} ms; {VIRTUAL} in virtual time")
    names, against = ("virtual", "drawn", "log", "probe"), ("-model", "-model", "-model", "-log")
    over = [f"{statistic:>9} " + " ".join(f"{name:>8} " for name in names) for statistic in ("mean", "p95")]
    under = [f"{'model':>9} " + " ".join(f"{name:>8} " for name in against)] * 2
    print(f"{'path':<30}", *over, f"{'extra':>7} {'late':>7}")
    print(f"{'':<30}", *under, f"{'p50':>7} {'mean':>7}")
    good = []
    for name in ARGUMENTS.only or (QUICK if ARGUMENTS.quick else PRESETS):
        print(name, flush=True)
        good += measure(name)
    print(
        f"{sum(good)} of {len(good)} paths are within what is allowed (! is beyond it, ~ within it by chance only)"
    )
    sys.exit(0 if all(good) else 1)


main()
