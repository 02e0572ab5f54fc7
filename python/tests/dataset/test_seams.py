"""A run that goes on from one recording to the next: what was open before the seam is open after it."""

import json

from fathometer.dataset.events import connections, event_of, stalls

SECOND = 1_000_000_000
SEAM = {
    "at": "2026-11-22T10:00:00Z",
    "mono_ns": 100 * SECOND,
    "kind": "recording.continues",
    "previous": "00000000-0000-4000-8000-000000000000",
    "samples": 900,
    "not_sent": 0,
    "connections": [
        {"connection": 3, "samples": 500, "lane": 0, "remote": "192.0.2.7:7"},
        {
            "connection": 4, "samples": 400, "lane": 1, "remote": "192.0.2.7:7",
            "stall": {
                "seq": 398, "outstanding": 2, "threshold_ns": SECOND // 5, "since_ns": 97 * SECOND,
            },
        },
    ],
}  # fmt: skip
ENDED = {
    "at": "2026-11-22T10:00:02Z",
    "mono_ns": 102 * SECOND,
    "kind": "stall.ended",
    "connection": 4,
    "duration_ns": 5 * SECOND,
    "samples": 50,
    "recovered": True,
}


def read(*lines):
    events = [event_of(json.dumps(line).encode() + b"\n") for line in lines]
    assert all(event is not None and event.known for event in events)
    return events


def test_a_stall_that_goes_on_is_one_stall_from_its_beginning():
    seam, ended = events = read(SEAM, ENDED)
    (stall,) = stalls(events)
    assert (stall.connection, stall.seq, stall.outstanding, stall.recovered) == (4, 398, 2, True)
    assert stall.ended_ns - stall.duration_ns == seam.at_ns - 3 * SECOND
    assert stall.began_ns - stall.threshold_ns == seam.at_ns - 3 * SECOND
    assert stall.ended_ns == ended.at_ns


def test_a_stall_that_goes_on_over_two_seams_is_told_between_them():
    (stall,) = stalls(read(SEAM))
    assert (stall.connection, stall.ended_ns, stall.duration_ns) == (4, None, None)


def test_connections_that_stay_open_are_known_from_the_seam_on():
    seam, *_ = events = read(SEAM)
    three, four = connections(events)
    assert (three.id, four.id) == (3, 4)
    assert {three.opened_ns, four.opened_ns} == {seam.at_ns}
    assert (three.remote, three.closed_ns, three.cause) == ("192.0.2.7:7", None, None)
