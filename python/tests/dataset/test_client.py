"""What became of an application's requests, of recordings whose story is known."""

import json
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest

from fathometer.dataset import open_recording
from fathometer.dataset.truth import Happened, Truth
from fathometer.findings.policies import applications
from support.recordings import START, write

S = 1_000_000_000
MS = 1_000_000
POLICY = {"requests": {"deadline_ns": 4 * S}}
THERE, OTHER = "192.0.2.7:7", "192.0.2.8:7"


def at(due_s, kind, later_ns=0, /, **fields):
    return {"at_ns": START + due_s * S + later_ns, "kind": kind, **fields}


def opening(connection, s, target=THERE, opened=True):
    fields = {"connection": connection, "target": target, "remote": target}
    began = at(s, "connection.opening", **fields, attempt=1)
    if not opened:
        return [began, at(s, "connection.refused", 1, **fields, error="refused", retry_in_ns=0)]
    return [began, at(s, "connection.opened", 1, **fields, local="192.0.2.1:9", connect_ns=1)]


def closed(connection, s):
    evidence = {"sent": 1, "answered": 1, "outstanding": 0}
    return at(s, "connection.closed", connection=connection, cause="reset", age_ns=S, evidence=evidence)


def ended(request, outcome, after_ns, tries=1, **more):
    fields = {"request": request, "outcome": outcome, "waited_ns": after_ns, "tries": tries}
    return at(request, "request.ended", after_ns, **fields, **more)


def failed(request, after_ns, *, sent=True, **more):
    fields = {"request": request, "attempt": 1, "why": "timed_out", "sent": sent, "after_ns": after_ns}
    return at(request, "try.failed", after_ns, **fields, **more)


def recorded(directory, answers, events, **more):
    """A request a second. `answers`: (request, connection, waited), each 1 ms on its way."""
    numbers, connections, waited = (np.array(column) for column in zip(*answers, strict=True))
    rtt = np.full(len(answers), MS)
    columns = {
        "sent_ns": lambda _: START + numbers * S + waited - MS,
        "lateness_ns": lambda _: waited - MS,
    }
    probe = {"mode": "tcp-client", "size": 64, "interval_ns": S, "policy": POLICY}
    return write(
        directory,
        rtt,
        connection=connections.astype(np.uint32),
        columns=columns,
        events=events,
        manifest={"probe": probe, **more.pop("manifest", {})},
        **more,
    )


def story(directory, *others, **more):
    """Forty requests. 10: nothing came for 3 s. 11: tried again, answered after 2 s. 12: shed. 13: never
    sent. 14: the fallback's. 30: ambiguous. All others after 2 ms.
    """
    trouble = {10, 12, 13, 14, 30}
    answers = [(n, 0, 2 * MS) for n in range(40) if n not in trouble | {11}]
    answers += [(11, 1, 2 * S), (14, 2, 900 * MS)]
    events = [
        *opening(0, 0),
        *opening(1, 11),
        *opening(2, 14, OTHER),
        closed(0, 12),
        *opening(3, 13, opened=False),
        *opening(4, 13),
        failed(10, 3 * S),
        ended(10, "ambiguous", 3 * S),
        failed(11, S, retry_in_ns=MS),
        ended(12, "shed", 0, 0),
        failed(13, S, sent=False, retry_in_ns=MS),
        ended(13, "failed", S, 1, retry_not_made=True),
        ended(14, "fallback", 900 * MS, 0),
        failed(30, 3 * S),
        ended(30, "ambiguous", 3 * S),
        at(12, "breaker.changed", **{"from": "closed", "to": "open"}),
    ]
    return recorded(directory, sorted(answers), [*events, *others], **more)


def test_every_request_has_one_end(tmp_path):
    c = open_recording(story(tmp_path / "r")).client
    assert (c.due, c.not_known, c.unserved) == (40, 0, 4)
    assert dict(c.ended) == {"answered": 35, "failed": 1, "ambiguous": 2, "shed": 1, "fallback": 1}
    assert c.due == sum(c.ended.values()) + c.not_known
    # A retry that was decided on and not made is none.
    assert (c.retries, c.breaker_opened) == (1, 1)
    assert (c.notice.count, c.notice.max_ns) == (3, 3 * S)
    # Each request waited once, by whichever end; what the fallback's row took is told by its event.
    assert (c.waited.count, c.waited.max_ns, c.waited.p99_ns) == (40, 3 * S, None)
    assert c.waited.p50_ns == pytest.approx(2 * MS, rel=0.001)


def test_connections_in_the_place_of_others(tmp_path):
    c = open_recording(story(tmp_path / "r")).client
    # 0, 1 and 2 were open at once before 0 ended, so that 2 is one more than ever and 4 is in 0's place.
    assert (c.connections, c.not_established, c.extra_connections, c.reconnections_a_second) == (5, 1, 1, 1)


def test_first_fallback_connection_is_not_extra(tmp_path):
    """Its target had one, which is gone; the fallback had none."""
    events = [*opening(0, 0), closed(0, 5), *opening(1, 6, OTHER), closed(1, 7), *opening(2, 8, OTHER)]
    c = open_recording(recorded(tmp_path / "r", [(0, 0, MS)], events)).client
    assert (c.connections, c.extra_connections) == (3, 1)


def test_killed_run_counts_due_from_progress_file(tmp_path):
    """As `fathom recording summary` counts it: by the file that the application writes each second."""
    directory = story(tmp_path / "r", ended=False)
    (directory / ".progress").write_text('{"due":51}')
    c = open_recording(directory).client
    assert (c.due, c.not_known, c.unserved, c.uncounted, c.breaks_off) == (51, 11, 4, True, True)
    (directory / ".progress").write_text('{"due":"many"')
    assert open_recording(directory).client.due == 40


def test_trouble_ends_at_first_lasting_answer(tmp_path):
    """Requests 10 to 14 are one trouble: from 10 to the answer to 15. 30 is more than 10 s later: another,
    and the recording ends before it is known to be over.
    """
    c = open_recording(story(tmp_path / "r")).client
    assert not c.recovered
    assert (c.recover.count, c.recover.max_ns) == (1, 5 * S + 2 * MS)


def troubled(directory, *numbers, until, waited=()):
    """A request a second; these are not answered, some after a time of their own, and all others at once."""
    waits = dict(waited)
    answers = [(n, 0, waits.get(n, MS)) for n in range(until) if n not in numbers]
    events = [*opening(0, 0)]
    for n in numbers:
        events += [failed(n, S), ended(n, "ambiguous", S)]
    return open_recording(recorded(directory, answers, events)).client


@pytest.mark.parametrize(
    ("numbers", "until", "waited", "longest_s"),
    [
        # Within ten seconds it is one trouble, whatever is answered in between: from 10 to the answer to 22.
        ((10, 21), 40, (), (12,)),
        # Or 10 to 11, and 22 to 23.
        ((10, 22), 40, (), (1, 1)),
        # The ten seconds begin at a late answer: that to 11 came at 18, and 22 is within 4 s of it.
        ((10, 22), 40, [(11, 7 * S)], (13,)),
        # The answer to 11 came 1 ms after 11: the request of 22 is the first that shows ten good seconds.
        ((10,), 22, (), ()),
        ((10,), 23, (), (1,)),
    ],
)
def test_trouble_ends_after_ten_good_seconds(tmp_path, numbers, until, waited, longest_s):
    c = troubled(tmp_path / "r", *numbers, until=until, waited=waited)
    assert c.recovered == bool(longest_s)
    assert c.recover.count == len(longest_s)
    assert c.recover.max_ns == (max(longest_s) * S + MS if longest_s else None)


def test_unfinished_trouble_is_not_recovery(tmp_path):
    events = [*opening(0, 0), failed(2, S), ended(2, "ambiguous", S)]
    c = open_recording(recorded(tmp_path / "r", [(0, 0, MS), (1, 0, MS)], events)).client
    assert (c.due, c.recovered, c.recover.count, c.recover.max_ns) == (3, False, 0, None)


def made(root, name, began_s, *happened, ended_s=None, scenario="x"):
    """The truth of a fabric of a study."""
    first = {"at": utc(began_s), "kind": "truth.started", "place": "fabric", "scenario": scenario}
    cut = {"place": "way", "kind": "event.began", "event": "link-cut"}
    events = [
        {"at": utc(s), **cut, "parameters": {"duration_ns": lasts * S} if lasts else {}}
        for s, lasts in happened
    ]
    last = [] if ended_s is None else [{"at": utc(ended_s), "place": "fabric", "kind": "truth.ended"}]
    (root / "truth" / name).mkdir(parents=True)
    lines = [json.dumps(line) for line in (first, *events, *last)]
    (root / "truth" / name / "truth.jsonl").write_text("\n".join(lines) + "\n")


def utc(s):
    return datetime.fromtimestamp(START // S + s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def asked(root, **tags):
    """A minute of an application on a path of that fabric, asked from 100 s on."""
    tags = {"policy": "p", "fabric-places": "way,app,there", **tags}
    path = {"from": "a", "to": "b", "via": None, "tags": tags}
    where = root / "label=way" / "policy=p" / "run=01"
    answers = [(100 + n, 0, MS) for n in range(60)]
    recorded(where, answers, opening(0, 100), manifest={"path": path}, start_ns=START + 100 * S)
    (one,) = applications([open_recording(where)])
    return one.unservable


@pytest.mark.parametrize("tags", [{}, {"fabric-truth": "study-1-2"}])
def test_resumed_study_uses_last_fabric_truth(tmp_path, tags):
    """The first was killed: its cut ended with it, and its truth has no end. Of the second one cut of 10 s,
    of which seven requests could not be served.
    """
    made(tmp_path, "study-1", 0, (50, None))
    made(tmp_path, "study-1-2", 90, (110, 10), ended_s=1000)
    assert asked(tmp_path, **tags) == 7


def test_recording_selects_its_named_fabric(tmp_path):
    made(tmp_path, "study-1", 80, (110, 10), ended_s=1000, scenario="one")
    made(tmp_path, "study-2", 81, (110, 20), ended_s=1000, scenario="other")
    assert asked(tmp_path, **{"fabric-truth": "study-1"}) == 7
    shutil.rmtree(tmp_path / "label=way")
    assert asked(tmp_path) is None, "an older recording does not say which"


def test_what_a_kill_took_is_not_known(tmp_path):
    """50 had been due; of ten nothing is known."""
    told = at(41, "client.interrupted", due=50, not_known=10)
    c = open_recording(story(tmp_path / "r", told, ended=False)).client
    assert (c.due, c.not_known, c.uncounted) == (50, 10, True)
    assert c.due == sum(c.ended.values()) + c.not_known


@pytest.mark.parametrize(("answered", "agrees"), [(35, True), (36, False)])
def test_client_count_mismatch_is_detected(tmp_path, answered, agrees):
    counts = {"due": 40, "answered": answered, "failed": 1, "ambiguous": 2, "shed": 1, "fallback": 1}
    c = open_recording(story(tmp_path / "r", at(40, "client.ended", result=counts))).client
    assert c.agrees == agrees


def test_other_recordings_have_no_client(tmp_path):
    assert open_recording(write(tmp_path / "r", np.full(10, MS))).client is None


def unservable(*happened, due=60, places=("way", "app", "there")):
    every = tuple(Happened(s * S, place, event, lasts, None) for s, place, event, lasts in happened)
    return Truth(0, None, every, frozenset()).unservable(places, 0, S, 4 * S, due)


def test_unservable_requests_are_counted():
    """By hand: a request a second, each waits for 4 s. The path is cut from 10 s to 20 s: those due at 10 to
    16 cannot be served, seven; at 17 there is an answer within 4 s. A host stops from 18 s to 25 s: until 21,
    so that all of 10 to 21 are not served: twelve.
    """
    cut = (10, "way", "link-cut", 10 * S)
    stop = (18, "there", "host-pause", 7 * S)
    assert unservable(cut) == 7
    assert unservable(cut, stop) == 12
    assert unservable(cut, stop, places=("way", "app")) == 7
    assert unservable(cut, stop, places=("elsewhere", "app")) == 0
    # One that is not over is not over before the end: all have given up then.
    assert unservable((10, "way", "link-cut", None), due=15) == 5
    # A second cut within the first goes on when that is over.
    assert unservable(cut, (12, "way", "link-cut", 30 * S)) == 10 + 10 + 9
    # A gateway changes over for 6 s.
    assert unservable((5, "there", "switchover", 6 * S)) == 3
