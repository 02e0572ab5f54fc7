"""What a bench calls right."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benches"))

import attribution

MS = 10**6
TRUE = {"server": 100 * MS, "path": MS, "client": MS}


def _query(has_estimate):
    row = {"wall_ns": sum(TRUE.values())}
    for party, ns in TRUE.items():
        row |= {f"{party}_low_ns": ns, f"{party}_high_ns": ns, f"{party}_ns": ns if has_estimate else None}
    return row


@pytest.mark.parametrize(
    ("estimates", "party", "confidence", "is_ok", "names", "is_sure"),
    [
        # One good guess of six had been right.
        (1, "server", "medium", False, True, False),
        (3, "server", "high", True, True, True),
        (6, "none", "none", True, False, False),
        (6, "path", "high", False, False, False),
        (0, "server", "high", False, True, True),
    ],
)
def test_attribution_needs_estimates_for_half_the_queries(
    estimates, party, confidence, is_ok, names, is_sure
):
    queries = [_query(False), *(_query(n < estimates) for n in range(6))]
    truth = attribution.Truth(*((ns, ns) for ns in TRUE.values()))
    outcome = {"verdict": {"party": party, "confidence": confidence}}
    one = attribution.judged("server", outcome, queries, [truth] * 7)
    assert (one.estimates, one.is_ok, one.names_owner, one.is_sure) == ((estimates, 6), is_ok, names, is_sure)
