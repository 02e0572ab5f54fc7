"""How long a sender takes to send an answer over a path of a given round trip, from its first segment to its
last: laws of how TCP's windows grow, and of senders that pace.

Every array has an element an answer. Times are ns, lengths segments. An answer is made at an even rate; what
is made while a window is full waits in the sender's buffer, and the next window takes it at once.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

INITIAL: Final = 10
"""Segments. RFC 6928, 2: "a TCP sender MAY increase its initial window to min (10*MSS, max (2*MSS,
14600))"."""
SEGMENT_BYTES: Final = 1460
"""Of payload, over Ethernet without options."""
DOUBLES: Final = 2.0
"""A window grows by what a round trip acknowledged: Linux, and RFC 3465 with L = 2."""
DELAYED: Final = 1.5
"""The same where one ACK comes for two segments and each counts as one: RFC 5681, 3.1."""
RTO_MIN_NS: Final = 200e6
"""Linux: a retransmission timeout is the round trip and at least so much."""
PACES: Final = 2 / math.log(2)
"""BBR's gain until the path is full, which answers with pauses between them never show (Linux `tcp_bbr.c`,
`bbr_high_gain`): the pace by the rate that was delivered."""
PACES_SLOWLY: Final = 4 * math.log(2)
"""The same in later versions (draft-ietf-ccwg-bbr, `BBR.StartupPacingGain`)."""
BURST: Final = 2
"""Segments that a paced sender sends at once (`BBR.send_quantum`, at the least)."""
_MOST_ROUNDS: Final = 64


def windowed(
    segments: Floats, made_ns: Floats, rtt_ns: float | Floats, window: Floats, growth: float
) -> Floats:
    """By windows that begin with `window` segments and grow by `growth` a round trip (slow start)."""
    left, window = np.maximum(segments, 1.0), np.maximum(window, 1.0)
    each = made_ns / left
    took = np.zeros_like(left)
    for _ in range(_MOST_ROUNDS):
        more = left > window
        if not more.any():
            break
        took += np.where(more, np.maximum(rtt_ns, each * window), 0.0)
        left = np.where(more, left - window, left)
        window = np.where(more, window * growth, window)
    return took + each * left


def restarted(segments: Floats, idle_ns: Floats, rtt_ns: float | Floats) -> Floats:
    """The window after so long without sending: twice the latest answer, which is as far as it grows beyond
    need, and half of that for each timeout (Linux `tcp_cwnd_restart`; RFC 2861); the initial one at least.
    """
    timeouts = np.floor(np.maximum(idle_ns, 0.0) / (rtt_ns + RTO_MIN_NS))
    return np.maximum(2.0 * segments * 0.5 ** np.minimum(timeouts, 60.0), float(INITIAL))


def paced(segments: Floats, made_ns: Floats, rtt_ns: float | Floats, gain: float) -> Floats:
    """By a sender that paces by the rate at which earlier answers of this length were delivered, or by the
    initial window in a round trip, whichever is faster.

    An answer of n segments that takes D to send is delivered in R + D. The next one is paced by
    gain * n / (R + D), and takes D again where D = (n - burst) / pace.
    """
    later = np.maximum(segments - BURST, 0.0)
    by_initial = later * rtt_ns / (gain * INITIAL)
    share = later / (gain * np.maximum(segments, 1.0))
    spread: Floats = np.minimum(by_initial, share / (1.0 - share) * rtt_ns)
    return np.maximum(made_ns, spread)
