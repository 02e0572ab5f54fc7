"""Whether fewer samples were answered than in an earlier report, or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fathometer.findings.model import Scenario
from fathometer.stats.family import holm
from fathometer.stats.results import LEVEL

Answers = Literal["fewer", "more", "no difference shown", "cannot be decided"]


class LostShare(NamedTuple):
    """Samples that were due and not answered, of how many."""

    lost: int
    due: int
    worth: float = 1.0
    """As of `Scenario`; an earlier report does not say it."""

    @property
    def share(self) -> float:
        """Of all that were due; at least one was."""
        return self.lost / self.due


def lost(scenario: Scenario) -> LostShare:
    """As a scenario has it."""
    return LostShare(scenario.lost + scenario.unsent, scenario.due, scenario.worth)


def answered(pairs: Sequence[tuple[LostShare, LostShare]], matters: float) -> list[Answers]:
    """Of each pair (then, now); the pairs are one family. `matters`: what changed by less than this part of
    what is lost is not told.
    """
    from scipy.stats import fisher_exact  # Imported late: a second of a report's start.

    known = [(i, a, b) for i, (a, b) in enumerate(pairs) if a.due and b.due]
    p_values = []
    for _, a, b in known:
        # How the losses of then came is not known: at best as those of now do.
        worth = min(a.worth, b.worth)
        p_values.append(float(fisher_exact([_counts(a, worth), _counts(b, worth)]).pvalue))
    verdicts: list[Answers] = ["cannot be decided"] * len(pairs)
    for (i, a, b), p_value in zip(known, holm(p_values), strict=True):
        less, more = sorted((a.share, b.share))
        sure = p_value < 1 - LEVEL and more > less * (1 + matters)
        verdicts[i] = "no difference shown" if not sure else "fewer" if b.share > a.share else "more"
    return verdicts


def _counts(one: LostShare, worth: float) -> tuple[int, int]:
    """Lost and answered, in independent samples."""
    behind = max(round(one.due * worth), 1)
    unanswered = round(one.share * behind)
    return unanswered, behind - unanswered
