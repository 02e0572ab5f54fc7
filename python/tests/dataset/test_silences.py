"""Which silence came before a sample, against a walk along each connection; what selections make of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import Selection, Silence, open_recording, raw, silences
from fathometer.errors import FathometerError
from support.recordings import START, UNANSWERED, write

MS = 1_000_000
GAPS = (10 * MS, 100 * MS)


def walked(connection, due, received, answered, gaps):
    """As the probe does it (fathom_core::statistics::gaps): one sample after another."""
    latest, codes = {}, []
    for who, at, back, came in zip(connection, due, received, answered, strict=True):
        before = latest.pop(who, None)
        silent = None if before is None else at - before[0]
        first = next((g for g in gaps if silent is not None and abs(silent - g) <= g // 20), 0)
        follows = silent is not None and abs(silent) <= min(gaps) // 2
        gap = first or (before[1] if follows else 0)
        codes.append(first or -gap)
        if came:
            latest[who] = (back, gap)
    return codes


STEPS = st.tuples(
    st.sampled_from((0, 0, 0, *GAPS, 30 * MS, -5 * MS, 60 * MS)), st.integers(-MS, MS), st.booleans()
)


@given(st.lists(st.lists(STEPS, min_size=1, max_size=30), min_size=1, max_size=4))
def test_silences_match_sequential_reference(plan):
    connection, due, received, answered = [], [], [], []
    for who, steps in enumerate(plan):
        at = 0
        for silent, error, came in steps:
            at += silent + error
            connection.append(who)
            due.append(at)
            at += 2 * MS
            received.append(at)
            answered.append(came)
    found = silences.silences(
        np.array(connection), np.array(due), np.array(received), np.array(answered), GAPS
    )
    assert found.tolist() == walked(connection, due, received, answered, GAPS)


def bursts(directory, rounds=8, lost=()):
    """A connection's samples: a burst after the handshake, then one after each silence."""
    sent, rtt = [], []
    at = START
    for burst in range(1 + 2 * rounds):
        silent = 0 if burst == 0 else GAPS[burst % 2]
        at += silent
        for i in range(4):
            took = (2 if burst == 0 else 9 if silent == GAPS[0] else 12) * MS if i == 0 else MS
            sent.append(at)
            rtt.append(UNANSWERED if len(sent) - 1 in lost else took)
            at += took
    probe = {"mode": "tcp-idle-gap", "size": 64, "interval_ns": None, "idle_gaps_ns": list(GAPS)}
    columns = {"sent_ns": lambda seq: np.array(sent)[seq], "flags": lambda seq: np.where(seq < 4, 2, 0)}
    # Two segments: a burst may lie across them.
    parts = iter([np.array(rtt[:10]), np.array(rtt[10:])])
    write(directory, parts, columns=columns, manifest={"probe": probe})
    return np.array(rtt)


def test_a_selection_has_the_samples_around_one_silence(tmp_path):
    bursts(tmp_path / "r")
    recording = open_recording(tmp_path / "r")
    assert recording.totals.silences == tuple(Silence(g, first) for g in GAPS for first in (True, False))
    for gap, took in zip(GAPS, (9 * MS, 12 * MS), strict=True):
        first, warm = (Selection(silence=Silence(gap, of)) for of in (True, False))
        assert recording.rollup.histogram(first).count == 8
        assert recording.rollup.histogram(first).min_ns == took
        assert recording.rollup.histogram(warm).count == 24
        assert recording.rollup.histogram(warm).max_ns == MS
        assert recording.totals.part(first).samples == 8
        assert raw.samples(recording, first).value_ns.tolist() == [took] * 8
    # Without a word about silences all count but warm-up, as everywhere.
    assert recording.rollup.histogram().count == 64


def test_what_follows_a_loss_follows_no_silence(tmp_path):
    # The first after the second silence: its warm ones begin no burst that is known.
    bursts(tmp_path / "r", lost={8})
    recording = open_recording(tmp_path / "r")
    of = {g.silence for g in recording.totals.groups if g.answered < g.samples}
    assert len(of) == 1
    (lost,) = of
    assert lost > 0, "a first one that was not answered still follows its silence"
    left_out = sum(g.samples for g in recording.totals.groups if not g.silence and not g.warm_up)
    assert left_out == 3


def test_a_recording_without_silences_is_read_as_ever(tmp_path):
    write(tmp_path / "r", np.full(50, MS))
    recording = open_recording(tmp_path / "r")
    assert len(recording.source.closed) == 1
    assert recording.totals.silences == ()


def test_too_many_silence_samples_are_refused(tmp_path, monkeypatch):
    bursts(tmp_path / "r")
    monkeypatch.setattr(silences, "MOST", 10)
    with pytest.raises(FathometerError, match="68 samples around silences, more than 10"):
        open_recording(tmp_path / "r")
