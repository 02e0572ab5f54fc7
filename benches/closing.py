"""What fathom's round trips are while a segment of its recording is being closed, in runs of benches/peers.py."""

import datetime
import json
import pathlib
import statistics


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def closed_at(recording):
    """When each segment was closed (UTC, ns), and how many rows it has."""
    events = [json.loads(line) for line in pathlib.Path(recording, "events.jsonl").read_text().splitlines()]
    for event in events:
        if event["kind"] == "segment.closed":
            at, _, fraction = event["at"].rstrip("Z").partition(".")
            whole = datetime.datetime.fromisoformat(at + "+00:00")
            yield int(whole.timestamp()) * 10**9 + int(fraction.ljust(9, "0")), event["rows"]


def beside(recording, sent, rtt):
    """Round trips while a full segment was being closed, until that was listed, and all others. The last segment is closed
    after the run."""
    rows, spans = 0, []
    for at, count in closed_at(recording):
        rows += count
        if at < sent[-1]:
            spans.append((rows, next(i for i in range(rows, len(sent)) if sent[i] > at)))
    during = sorted(value for first, end in spans for value in rtt[first:end])
    edges = [0, *(edge for span in spans for edge in span), len(rtt)]
    others = sorted(value for at in range(0, len(edges), 2) for value in rtt[edges[at] : edges[at + 1]])
    if not during:
        return {"segments": 0}
    figures = {
        name: {
            label: percentile(values, share)
            for label, share in (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999))
        }
        for name, values in (("beside", during), ("others", others))
    }
    return {"segments": len(spans), "share": len(during) / len(rtt), **figures}


def tell(runs):
    """What fathom's round trips are while a segment is being closed, in runs in which one was."""
    closing = [run.closing for run in runs if run.closing and run.closing["segments"]]
    each = ", ".join(str(run.closing["segments"]) for run in runs)
    share = statistics.median(one["share"] for one in closing)
    print(f"    segments closed while it ran: {each}; {share:.1%} of the round trips beside that")
    for name in ("beside", "others"):
        row = [statistics.median(one[name][key] for one in closing) / 1e3 for key in ("p50", "p99", "p99_9")]
        print(f"    {name:<10} {' '.join(f'{value:8.2f}' for value in row)}")
