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


def unanswered(directory, survived_s, from_s):
    """A recording of a search whose requests were acknowledged and not answered from so long on."""
    result = {"verdict": "unclear", "survived": end(survived_s), "how": {"not_answered": 3}}
    result["dies_from_ns"] = int(from_s * SECOND)
    events = [{"at_ns": START + SECOND, "kind": "limits.ended", "result": result}]
    probe = {"mode": "tcp-idle-limit", "size": None, "interval_ns": None}
    none = np.zeros(0, dtype=np.int64)
    write(directory, none, label=directory.name, events=events, manifest={"probe": probe})


def unclear(directory, survived_s, from_s):
    """A recording of a search whose connections died from so long on, of no one limit."""
    result = {"verdict": "unclear", "survived": end(survived_s), "how": {}, "strays": 29}
    result["dies_from_ns"] = int(from_s * SECOND)
    events = [{"at_ns": START + SECOND, "kind": "limits.ended", "result": result}]
    probe = {"mode": "tcp-idle-limit", "size": None, "interval_ns": None}
    none = np.zeros(0, dtype=np.int64)
    write(directory, none, label=directory.name, events=events, manifest={"probe": probe})


def rate_end(rate, lost, due):
    return {"rate_per_s": rate, "lost": lost, "due": due, "share_95": [0.0, 1.0]}


def rates(directory, *brackets, connections=1, began="delay"):
    """As `runs`, of searches for the rate ceiling; (carried, too much) in packets a second."""
    probe = {"mode": "tcp-rate-ceiling", "size": None, "interval_ns": None, "connections": connections}
    for number, (low, high) in enumerate(brackets):
        result = {"limit": "rate", "verdict": "found" if high else "not_found", "connections": connections}
        result |= {"good": rate_end(low, 0, 2 * low)} if low else {}
        result |= {"bad": rate_end(high, 7, 2 * high), "began": began} if high else {}
        events = [{"at_ns": START + SECOND, "kind": "limits.ended", "result": result}]
        none = np.zeros(0, dtype=np.int64)
        write(directory / f"{number}", none, label=directory.name, events=events, manifest={"probe": probe})
