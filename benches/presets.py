#!/usr/bin/env python3
"""Each preset of scenarios/ against itself: a table, and with --json a JSON line for each path.

For every path, `fathom probe` sends its samples on real hosts of the fabric, and three things are held together:

* probe: mean and p95 of the round trips that it measured, against what the packet log says that the fabric did with
  those very packets (there and back, from the moment in to the moment out): within 3 % and 60 µs. What the log does not
  have is the hosts' own time: stacks, wake-ups, the reflector.
* log: mean and p95 of the log's round trips against the model, as `fathom fabric model` computes them: within 1 % and
  5 µs beyond what so few samples may be off by chance (three standard errors; 2,000 samples of a path that spreads
  widely can miss by more than that percent with nothing wrong: a "~" marks where only chance was left). What the
  fabric was late itself is in it ("late", both ways).
* virtual: the same with so many samples in virtual time (--virtual) that chance plays no part: within 1 % and 5 µs.

Needs root (or user namespaces), iproute2 and pyarrow. Exit code 1 if anything is off by more."""

import argparse
import csv
import json
import pathlib
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
parser.add_argument("--only", choices=PRESETS, action="append", metavar="PRESET", help="this preset; may be given again")
parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}; 1,000 samples, 20,000 virtual")
parser.add_argument("--samples", type=int, metavar="N", help="samples a path (default: 2,000)")
parser.add_argument("--virtual", type=int, metavar="N", help="samples a path in virtual time (default: 100,000; 0: none)")
parser.add_argument("--every", default=5, type=float, metavar="MS", help="from one sample to the next (default: 5)")
parser.add_argument("--wait", choices=("hybrid", "spin", "sleep"), default="hybrid", help="how the fabric waits")
parser.add_argument("--spin", action="store_true", help="the probe polls instead of sleeping")
parser.add_argument("--json", action="store_true", help="also a JSON line for each path")
parser.add_argument(
    "--fathom", default=str(ROOT / "target/release/fathom"), metavar="FILE", help="the binary (default: %(default)s)"
)
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
        echo = [FATHOM, "fabric", "exec", path["to"], "--", FATHOM, "echo", "--json", "--tcp-only", "--listen", f"0.0.0.0:{port}"]
        with subprocess.Popen(echo, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reflector:
            try:
                if "listening" not in reflector.stdout.readline():
                    sys.exit(f"the reflector on {path['to']} does not listen on port {port}")
                probe = [FATHOM, "fabric", "exec", path["from"], "--", FATHOM, "probe", path["target"], "--quiet", "--json"]
                probe += ["--source", path["source"], "--size", str(SIZE), "--every", f"{plan['every_ns']}ns"]
                probe += ["--count", str(plan["samples"]), "--record", str(pathlib.Path(plan["work"]) / path["path"])]
                probe += ["--timestamps", "off", "--pause-clock", "off"] + (["--spin"] if plan["spin"] else [])
                run(*probe)
            finally:
                reflector.terminate()


def samples(recording):
    """Round trips with when they were sent, by a recording's CSV."""
    rows = csv.DictReader(run(FATHOM, "recording", "export", str(recording)).splitlines())
    return [(int(row["sent_ns"]), int(row["rtt_ns"])) for row in rows if row["rtt_ns"]]


def messages(packets, path, host):
    """The samples (or their echoes) that a host sent, as (in, due, out) in ns, in order; a packet may hold several."""
    of = [p for p in packets if p["path"] == path and p["from"] == host and p["protocol"] == "tcp" and p["out_ns"]]
    of.sort(key=lambda p: p["in_ns"])
    return [(p["in_ns"], p["due_ns"], p["out_ns"]) for p in of for _ in range((p["size"] - HEADERS) // SIZE)]


def joined(measured, requests, replies):
    """For each measured round trip what the fabric took of it, and how late it was in that: the first message since a
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
        pairs.append((rtt_ns, out_ns - in_ns + back_out_ns - back_in_ns, out_ns - due_ns + back_out_ns - back_due_ns))
    return pairs


def figures(round_trips):
    ordered = sorted(round_trips)
    return {"mean": sum(ordered) / len(ordered), "p95": ordered[len(ordered) * 95 // 100]}


def virtual(scenario, work, models):
    """Mean and p95 of each path in virtual time; a path whose probe begins late in its scenario comes without."""
    every_ns = 20_000_000
    length = f"{VIRTUAL * every_ns}ns"
    run(FATHOM, "fabric", "simulate", scenario, "--record", f"{work}/virtual", "--every", f"{every_ns}ns", "--for", length)
    found = {}
    for model in models:
        directory = pathlib.Path(work) / "virtual" / model["path"]
        round_trips = [rtt for _, rtt in samples(directory)] if (directory / "recording.json").exists() else []
        if len(round_trips) > VIRTUAL / 2:
            found[model["path"]] = figures(round_trips)
    return found


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
    rtts, took, late = zip(*pairs, strict=True)
    probe, log = figures(rtts), figures(took)
    extra = sorted(rtt - of_it for rtt, of_it in zip(rtts, took, strict=True))
    row = {"preset": name, "path": label, "samples": len(pairs), "extra_p50_ns": extra[len(extra) // 2]}
    row["late_mean_ns"] = round(sum(late) / len(late))
    for statistic in ("mean", "p95"):
        wanted, chance = model["rtt_ns"][statistic], model["chance"][statistic]
        row[statistic] = {"model_ns": wanted, "log_ns": round(log[statistic]), "probe_ns": round(probe[statistic])}
        row[statistic]["probe"] = off_by(probe[statistic], log[statistic], 0.03, 60_000)
        row[statistic]["log"] = off_by(log[statistic], wanted, 0.01, 5_000, chance)
        row[statistic]["log_strict"] = off_by(log[statistic], wanted, 0.01, 5_000)
        if label in in_virtual:
            row[statistic]["virtual"] = off_by(in_virtual[label][statistic], wanted, 0.01, 5_000)
    return row


def tell(row):
    cells, bad = [f"{row['path']:<31}"], False
    for statistic in ("mean", "p95"):
        of = row[statistic]
        cells.append(f"{of['model_ns'] / 1e3:>9.1f}")
        for what in ("virtual", "log", "probe"):
            if what not in of:
                cells.append(f"{'-':>8} ")
                continue
            mark = "!" if of[what]["of_allowed"] > 1 else "~" if what == "log" and of["log_strict"]["of_allowed"] > 1 else " "
            bad |= mark == "!"
            cells.append(f"{of[what]['ns'] / 1e3:>+8.1f}{mark}")
    print(" ".join(cells), f"{row['extra_p50_ns'] / 1e3:>+8.1f} {row['late_mean_ns'] / 1e3:>+8.1f}", flush=True)
    if ARGUMENTS.json:
        print(json.dumps(row), flush=True)
    return not bad


def measure(name):
    import pyarrow.parquet

    scenario = str(ROOT / f"scenarios/{name}.toml")
    chance = ("--samples", str(SAMPLES))
    models = [json.loads(line) for line in run(FATHOM, "fabric", "model", scenario, "--json", *chance).splitlines()]
    with tempfile.TemporaryDirectory() as work:
        plan = pathlib.Path(work) / "plan.json"
        every_ns = round(ARGUMENTS.every * 1e6)
        paths = {"paths": models, "work": work, "samples": SAMPLES, "every_ns": every_ns, "spin": ARGUMENTS.spin}
        plan.write_text(json.dumps(paths))
        command = [FATHOM, "fabric", "run", scenario, "--truth", f"{work}/truth", "--packets", "--wait", ARGUMENTS.wait]
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
    heads = [f"{'path':<31}"]
    for statistic in ("mean", "p95"):
        heads += [f"{statistic:>9}", f"{'virtual':>8} ", f"{'log':>8} ", f"{'probe':>8} "]
    print(" ".join(heads), f"{'extra':>8} {'late':>8}")
    print(f"{'':<31} " + " ".join([f"{'model':>9} {'-model':>8}  {'-model':>8}  {'-log':>8} "] * 2), f"{'p50':>8} {'mean':>8}")
    good = []
    for name in ARGUMENTS.only or (QUICK if ARGUMENTS.quick else PRESETS):
        print(name, flush=True)
        good += measure(name)
    print(f"{sum(good)} of {len(good)} paths are within what is allowed (! is beyond it, ~ within it by chance only)")
    sys.exit(0 if all(good) else 1)


main()
