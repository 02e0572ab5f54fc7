"""The laws of how an answer is sent, held against senders that are simulated in virtual time."""

import heapq
import math
import random

import numpy as np
import pytest

from fathometer.findings import windows

MS = 1e6


def sent_by_windows(segments, made_ns, rtt_ns, window, growth):
    """When the last segment leaves a sender that is clocked by acknowledgements; rows come evenly."""
    now = 0.0
    acks, sent, unacked, limit = [], 0, 0, float(window)
    while sent < segments:
        if unacked < math.floor(limit + 1e-9):
            # Not before it is made; the rows of a window are made while the one before is on its way.
            now = max(now, made_ns * (sent + 1) / segments)
            while acks and acks[0] <= now:
                heapq.heappop(acks)
                unacked, limit = unacked - 1, limit + growth - 1
            sent, unacked = sent + 1, unacked + 1
            heapq.heappush(acks, now + rtt_ns)
        else:
            now = max(now, heapq.heappop(acks))
            unacked, limit = unacked - 1, limit + growth - 1
    return now


def sent_by_pace(segments, rtt_ns, gain, answers=60):
    """How long the latest of many answers takes that are paced by the fastest delivery so far."""
    rate = windows.INITIAL / rtt_ns
    for _ in range(answers):
        took = max(segments - windows.BURST, 0) / (gain * rate)
        # Of the last segment: what was delivered until its acknowledgement since the first was sent.
        rate = max(rate, segments / (rtt_ns + took))
    return took


def one(*values):
    return tuple(np.array([float(v)]) for v in values)


@pytest.mark.parametrize("growth", [windows.DOUBLES, windows.DELAYED])
def test_windowed_model_matches_simulated_sender(growth):
    rng = random.Random(19)
    for _ in range(200):
        segments, window = rng.randrange(1, 3_000), rng.randrange(2, 60)
        rtt = rng.uniform(0.2, 150) * MS
        # Nothing is made meanwhile: rounds alone.
        n, made, first = one(segments, 0, window)
        (told,) = windows.windowed(n, made, rtt, first, growth)
        true = sent_by_windows(segments, 0.0, rtt, window, growth)
        # Windows of parts of a segment may end a round sooner or later where one grows by a half.
        slack = 0 if growth == 2 else 1
        assert abs(told - true) <= slack * rtt + 1, (segments, window, rtt / MS, told / rtt, true / rtt)


def test_row_creation_adds_at_most_its_time():
    rng = random.Random(1)
    for _ in range(200):
        segments, window = rng.randrange(1, 3_000), rng.randrange(4, 60)
        rtt, made_ns = rng.uniform(0.2, 150) * MS, rng.uniform(0, 300) * MS
        n, made, first = one(segments, made_ns, window)
        (told,) = windows.windowed(n, made, rtt, first, windows.DOUBLES)
        true = sent_by_windows(segments, made_ns, rtt, window, windows.DOUBLES)
        alone = sent_by_windows(segments, 0.0, rtt, window, windows.DOUBLES)
        # A sender with a buffer without end is at least as fast; one without any waits for both.
        case = segments, window, rtt / MS, made_ns / MS
        assert true - 1 <= told + rtt, case
        assert told <= alone + made_ns + 1, case
        assert told >= max(alone, made_ns) * (1 - 1e-9)


@pytest.mark.parametrize("gain", [windows.PACES, windows.PACES_SLOWLY])
def test_paced_model_matches_simulated_sender(gain):
    rng = random.Random(7)
    for _ in range(200):
        segments, rtt = rng.randrange(1, 5_000), rng.uniform(0.2, 150) * MS
        n, made = one(segments, 0)
        (told,) = windows.paced(n, made, rtt, gain)
        assert told == pytest.approx(sent_by_pace(segments, rtt, gain), rel=1e-3, abs=1), (segments, rtt / MS)
        # What takes longer to make than to send takes as long as that.
        (slow,) = windows.paced(n, np.array([told + MS]), rtt, gain)
        assert slow == told + MS


def test_idle_timeouts_halve_window_to_initial():
    rtt = 100 * MS
    timeout = rtt + windows.RTO_MIN_NS
    for idle, window in [(0, 2_000), (0.99, 2_000), (1, 1_000), (2.5, 500), (6, 31.25), (30, 10), (1e9, 10)]:
        segments, idle_ns = one(1_000, idle * timeout)
        assert windows.restarted(segments, idle_ns, rtt) == pytest.approx(window)
    assert windows.restarted(*one(1, 0), rtt) == windows.INITIAL
