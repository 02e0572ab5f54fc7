"""Recordings of a study's rounds, in each of which something happened once."""

import numpy as np

from support.ends import closed, opened
from support.recordings import START, write

MS = 1_000_000
SECOND = 1_000 * MS


def path(directory, label, waits_ms, *, rounds=True, died=()):
    """A run a wait; those in `died` end their connection in a silence of that length."""
    for number, wait in enumerate(waits_ms, 1):
        rtt = np.full(200, MS)
        at_ns = START + 150 * SECOND
        events = [opened(0, START)]
        if number in died:
            end = closed(0, at_ns, 150 * SECOND, silent_ns=wait * MS, outstanding=3)
            events.append(end | {"verdict": "flow_forgotten"})
        else:
            rtt[100] = wait * MS
            events += [closed(0, at_ns, 150 * SECOND, cause="finished")]
            events[1:1] = stall(START + 100 * SECOND, wait * MS)
        tags = {"study": "s", "round": str(number)} if rounds else {}
        where = {"from": "a", "to": "b", "via": None, "tags": tags}
        write(directory / label / f"{number}", rtt, label=label, events=events, manifest={"path": where})


def stall(at_ns, length_ns):
    began = {"at_ns": at_ns, "kind": "stall.began", "connection": 0, "seq": 100}
    ended = {"at_ns": at_ns + length_ns, "kind": "stall.ended", "connection": 0, "duration_ns": length_ns}
    return [
        began | {"outstanding": 1, "threshold_ns": 5 * MS},
        ended | {"samples": 1, "recovered": True, "retransmits": 0},
    ]
