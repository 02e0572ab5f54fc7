"""Several policies on several paths: what each left unserved on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fathometer.findings.policies import PolicyComparison, like_the_best
from fathometer.stats.repeated import Mean

FEWEST: Final = 2
"""Paths; of one, the table of policies says it."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """One policy on one path."""

    policy: str
    share: Mean | None
    """Of the requests that were due; None: it was not tried on this path."""
    best: bool
    """By what they are ranked by it is told apart from others of the path, and from no other that is best."""


@dataclass(frozen=True, slots=True)
class OnPath:
    """All policies on one path, by name."""

    path: str
    policies: tuple[Unserved, ...]


def unserved_by_path(comparisons: Sequence[PolicyComparison]) -> list[OnPath]:
    """Each path has every policy that was tried on any. Empty: there are too few paths."""
    if len(comparisons) < FEWEST:
        return []
    names = sorted({p.name for c in comparisons for p in c.policies})
    return [_on(c, names) for c in comparisons]


def _on(c: PolicyComparison, names: Sequence[str]) -> OnPath:
    shares = {p.name: p.figures["unserved"] for p in c.policies}
    best = set(like_the_best(c))
    apart = len(best) < len(c.policies)
    return OnPath(c.path, tuple(Unserved(n, shares.get(n), apart and n in best) for n in names))
