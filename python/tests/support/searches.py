"""Recordings of searches for limits."""

import numpy as np

from support.recordings import START, write

SECOND = 1_000_000_000


def end(seconds):
    return {"idle_ns": int(seconds * SECOND), "hits": 3, "of": 3, "share_95": [0.44, 1.0]}


def runs(directory, *brackets, label=None, **meanwhile):
    """A recording a bracket, all of the path `directory` names; (survived, died) in seconds. `meanwhile`:
    what moved on the connections, as the probe's settings and its result have it.
    """
    probe = {"mode": "tcp-idle-limit", "size": None, "interval_ns": None, **meanwhile}
    for number, (low, high) in enumerate(brackets):
        result = {"verdict": "found" if high else "not_found", "how": {"silent": 3} if high else {}}
        result |= meanwhile | {name: end(s) for name, s in (("survived", low), ("died", high)) if s}
        events = [{"at_ns": START + SECOND, "kind": "limits.ended", "result": result}]
        write(
            directory / f"{number}",
            np.zeros(0, dtype=np.int64),
            label=label or directory.name,
            events=events,
            manifest={"probe": probe},
        )
