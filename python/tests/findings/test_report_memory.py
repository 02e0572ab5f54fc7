"""A report's memory grows at most linearly with everything that a recording can have many of. A recording
with 5,000 tags took 2 GiB, because each tag kept a tuple of all the others.
"""

import numpy as np
import pytest

from support.memory import assert_linear
from support.queries import recording, swept
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
CAUSES = ("peer_closed", "reset", "timed_out", "unreachable")
VERDICTS = ("flow_forgotten", "idle_expired", "path_down", "peer_down", "unknown")


def tags(directory, n):
    """Two paths that differ in one of them."""
    for number, label in enumerate(("near", "far")):
        named = {f"tag {i}": "value" for i in range(n)} | {"tag 0": label}
        path = {"from": f"{label} a", "to": f"{label} b", "via": None, "tags": named}
        write(directory / label, lognormal_ns(number, 400), label=label, manifest={"path": path})


def marks(directory, n):
    write(directory / "a", lognormal_ns(1, 400), manifest={"marks": [f"mark {i}" for i in range(n)]})


def segments(directory, n):
    write(directory / "a", [lognormal_ns(i, 20) for i in range(n)])


def unlisted_segments(directory, n):
    """Files that no event speaks of."""
    made = write(directory / "a", lognormal_ns(1, 400))
    for i in range(1, n):
        (made / f"samples-{i:05}.parquet").write_bytes(b"x")


def damaged_lines(directory, n):
    made = write(directory / "a", lognormal_ns(1, 400))
    with (made / "events.jsonl").open("a") as file:
        file.write("no event\n" * n)


def connections(directory, n):
    """Each with twelve samples."""
    columns = {"connection": lambda seq: seq % n, "seq": lambda seq: seq // n}
    columns["flags"] = lambda seq: np.where(seq < n, 1, 0)
    opened = [{"at_ns": START + i, **_opened(i)} for i in range(n)]
    interval = SECOND // 10
    write(directory / "a", lognormal_ns(1, 12 * n), interval_ns=interval, columns=columns, events=opened)


def sizes(directory, n):
    """A sweep, whose sizes are as many paths."""
    probe = {"mode": "tcp", "size": None, "interval_ns": SECOND // 10}
    columns = {"size": lambda seq: 64 + seq % n}
    write(directory / "a", lognormal_ns(1, 4_000), columns=columns, manifest={"probe": probe})


def settings(directory, n):
    """Of a database's queries."""
    every = [{"fetch_size": 10 + i, "packet_size": None} for i in range(n)]
    recording(directory / "a", swept(1, 4, every, [1.0] * n), settings=every)


def runs(directory, n):
    for i in range(n):
        write(directory / str(i), lognormal_ns(i, 60), start_ns=START + i * 1_000 * SECOND)


def paths(directory, n):
    for i in range(n):
        write(directory / str(i), lognormal_ns(i, 60), label=f"path {i}")


def _opened(i):
    return {
        "kind": "connection.opened",
        "connection": i,
        "target": "t",
        "local": "l",
        "remote": "r",
        "connect_ns": 1,
    }


def _explained(i, about):
    verdict = VERDICTS[i % len(VERDICTS)]
    said = {
        "about": about,
        "verdict": verdict,
        "because": ["seen"],
        "fresh": "connected",
        "confidence": "high",
    }
    return {"kind": "connection.explained", "connection": i, **said}


def _stall(i, recovered):
    began = {"kind": "stall.began", "connection": i, "seq": 1, "outstanding": 1, "threshold_ns": SECOND}
    ended = {"kind": "stall.ended", "connection": i, "duration_ns": SECOND, "samples": 3}
    return [began, ended | {"recovered": recovered}]


def _refused(i):
    opening = {"kind": "connection.opening", "connection": i, "target": "t", "remote": "r", "attempt": 1}
    refused = {"kind": "connection.refused", "connection": i, "target": "t", "error": "refused", "errno": 111}
    return [opening, refused]


def _delay(i):
    began = {"kind": "delay.began", "connection": i, "seq": 1, "rtt_ns": SECOND, "threshold_ns": SECOND // 2}
    ended = {"kind": "delay.ended", "connection": i, "duration_ns": SECOND, "samples": 2, "most_ns": SECOND}
    return [began, ended | {"verdict": "delayed", "confidence": "low"}]


EVENTS = {
    "deaths": lambda i: [
        _opened(i),
        *_stall(i, recovered=False),
        {"kind": "connection.closed", "connection": i, "cause": CAUSES[i % 4], "age_ns": SECOND * (1 + i % 7)}
        | {"evidence": {"sent": 9, "answered": 4, "outstanding": 5, "silent_ns": SECOND}},
        _explained(i, "closing"),
    ],
    "stalls": lambda i: [*_stall(i, recovered=True), _explained(i, "stall")],
    "delays": _delay,
    "refusals": _refused,
    "returns": lambda i: [*_refused(i), _opened(i)],
    "pauses": lambda i: [{"kind": "pause", "host": ("local", "remote")[i % 2], "duration_ns": SECOND + i}],
    "notices": lambda i: [
        {"kind": "maintenance", "cloud": "azure", "id": str(i), "what": "Freeze", "state": "scheduled"}
        | {"not_before": "2025-03-20T00:10:00Z", "notice": {"EventId": i}}
    ],
    "overruns": lambda i: [
        {"kind": "schedule.overrun", "skipped": 3, "behind_ns": SECOND, "reason": ("late", "blocked")[i % 2]}
    ],
    "clocks": lambda i: [{"kind": "clock.stepped", "step_ns": SECOND * (1 if i % 2 else -1)}],
    "notes": lambda i: [{"kind": "note", "text": f"note {i}"}],
    "of a later version": lambda i: [{"kind": f"kind {i}", "text": "?"}],
}
"""Generators of what can happen, by name."""


def happening(name, step_ns):
    """A maker of recordings in which it happens `n` times, at this interval."""

    def make(directory, n):
        lines = [line for i in range(n) for line in EVENTS[name](i)]
        events = [line | {"at_ns": START + SECOND + i * step_ns} for i, line in enumerate(lines)]
        write(directory / "a", lognormal_ns(1, 400), events=events)

    return make


FAST = {
    tags: 1_000,
    marks: 400,
    segments: 50,
    unlisted_segments: 400,
    damaged_lines: 400,
    connections: 150,
    settings: 8,
}
"""Count in the smaller recording."""


@pytest.mark.parametrize("count", FAST, ids=lambda count: count.__name__)
def test_report_memory_is_linear_in_count(count, tmp_path):
    assert_linear(tmp_path, count, FAST[count])


@pytest.mark.parametrize("name", ["deaths", "overruns"])
def test_report_memory_is_linear_in_events(name, tmp_path):
    assert_linear(tmp_path, happening(name, SECOND), 100)


@pytest.mark.acceptance
@pytest.mark.parametrize("step_ns", [SECOND // 10, 100 * SECOND], ids=["at once", "far apart"])
@pytest.mark.parametrize("name", EVENTS)
def test_report_memory_is_linear_in_any_events(name, step_ns, tmp_path):
    assert_linear(tmp_path, happening(name, step_ns), 1_000)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("count", "n"), [(paths, 50), (runs, 40), (sizes, 25)], ids=["paths", "runs", "sizes"]
)
def test_report_memory_is_linear_in_paths(count, n, tmp_path):
    assert_linear(tmp_path, count, n)


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [tags, connections, segments, happening("deaths", SECOND)])
def test_page_memory_is_linear_in_count(count, tmp_path):
    assert_linear(tmp_path, count, 400, tmp_path / "page.html")
