"""A run that goes on from one recording to the next: what was open before the seam is open after it."""

import json

from fathometer.dataset.events import MAX_LINE, connections, event_of, read_events, stalls
from fathometer.dataset.follow import RecordingFollower

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


def test_stall_across_seam_keeps_its_start():
    seam, ended = events = read(SEAM, ENDED)
    (stall,) = stalls(events)
    assert (stall.connection, stall.seq, stall.outstanding, stall.recovered) == (4, 398, 2, True)
    assert stall.ended_ns - stall.duration_ns == seam.at_ns - 3 * SECOND
    assert stall.began_ns - stall.threshold_ns == seam.at_ns - 3 * SECOND
    assert stall.ended_ns == ended.at_ns


def test_stall_open_at_seam_has_no_end():
    (stall,) = stalls(read(SEAM))
    assert (stall.connection, stall.ended_ns, stall.duration_ns) == (4, None, None)


def test_open_connections_start_at_seam():
    seam, *_ = events = read(SEAM)
    three, four = connections(events)
    assert (three.id, four.id) == (3, 4)
    assert {three.opened_ns, four.opened_ns} == {seam.at_ns}
    assert (three.remote, three.closed_ns, three.cause) == ("192.0.2.7:7", None, None)


MANY = 10_000


def lines_of_many():
    """A seam with `MANY` connections, all in a stall: in lines, none too long (schema/recording.md)."""
    stall = {"seq": 2, "outstanding": 1, "threshold_ns": SECOND // 5, "since_ns": 97 * SECOND}
    all_of_them = [
        {"connection": n, "samples": 2, "lane": n, "remote": "192.0.2.7:65535", "stall": stall}
        for n in range(MANY)
    ]
    outages = [
        {"lane": MANY, "began_at": "2026-11-22T09:00:00Z", "began_ns": SECOND, "tried": True, "down_ns": 1}
    ]
    seam = {k: v for k, v in SEAM.items() if k != "connections"}
    part = {"at": SEAM["at"], "mono_ns": SEAM["mono_ns"], "kind": "recording.carries"}
    carried = [{"connections": all_of_them[at : at + 1_500]} for at in range(0, MANY, 1_500)]
    carried[-1]["outages"] = outages
    parts = [{**part, "part": n + 1, **some} for n, some in enumerate(carried)]
    events = [*parts, {**seam, "parts": len(parts), "connections": []}, ENDED]
    lines = [json.dumps(event) + "\n" for event in events]
    assert sum(map(len, lines)) > MAX_LINE
    assert max(map(len, lines)) < MAX_LINE
    return lines, len(parts)


def test_multiline_seam_is_one_event(tmp_path):
    """It was one line of megabytes: nothing behind it was read, and so no row of a closed segment."""
    lines, parts = lines_of_many()
    # What a kill left of the same seam stands before the whole of it.
    (tmp_path / "events.jsonl").write_text("".join([*lines[: parts // 2], *lines]))
    events, damage = read_events(tmp_path)
    assert damage == ()
    assert [e.kind for e in events] == ["recording.continues", "stall.ended"]
    every = stalls(events)
    assert [stall.connection for stall in every] == list(range(MANY))
    assert [stall.connection for stall in every if stall.ended_ns is not None] == [4]
    assert len(connections(events)) == MANY
    assert [outage["lane"] for outage in events[0].fields["outages"]] == [MANY]


def test_follower_joins_seam_lines_across_polls(tmp_path):
    lines, parts = lines_of_many()
    follower, told = RecordingFollower(samples=False), []
    for at in (0, parts // 2):
        (tmp_path / "events.jsonl").write_text("".join(lines[: parts // 2] if at == 0 else lines))
        told += follower.poll(tmp_path).events
    assert len(connections(told)) == MANY


def test_incomplete_seam_is_damage_and_later_events_read(tmp_path):
    lines, parts = lines_of_many()
    for missing in (0, parts // 2, parts - 1):
        (tmp_path / "events.jsonl").write_text("".join([*lines[:missing], *lines[missing + 1 :]]))
        events, damage = read_events(tmp_path)
        assert [e.kind for e in events] == ["stall.ended"]
        (one,) = damage
        assert "are missing" in one.reason
        assert not one.torn
