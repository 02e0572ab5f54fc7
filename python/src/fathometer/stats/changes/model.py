"""What the search for changes is asked and answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["level", "tail"]


@dataclass(frozen=True, slots=True)
class Change:
    """One moment from which the series was different."""

    index: int
    """Of the first sample of the new regime in the array that was given, unanswered samples counted."""
    at_ns: int | None
    """When that sample was taken, from `at_ns`; None where no times were given."""
    kind: Kind
    """level: the middle of the distribution moved. tail: samples far above it became more, or
    fewer."""
    before_ns: float
    """level: median RTT from the change before (or the beginning) to this one. tail: the p99 of the distance
    above the window's median there."""
    after_ns: float
    """The same figure from here to the next change of this kind, or the end."""
    confidence: float
    """0.5 for a change that just passed, towards 1 for one far above every threshold: 1 - 1 / (2 m), m being
    the smallest ratio of what there is to what was asked (see `consolidate.margin` and `tails`). It ranks
    changes; it is not a probability."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A question that these samples cannot answer, so that "no change" is not read into silence."""

    kind: Kind
    events: int
    """What there was: tail events (samples above the p99), or answered samples for a level."""
    needed: int
    reason: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True)
class Examined:
    """The changes of a series and what could not be decided."""

    changes: tuple[Change, ...]
    """In order of index; a level before a tail at the same index."""
    undecided: tuple[Undecided, ...]


def confidence_of(margin: float) -> float:
    """`Change.confidence` of something that passed its thresholds by a factor of `margin`."""
    return 1 - 1 / (2 * max(1.0, margin))


LEAST_SAMPLES: Final = 3
"""Minimum number of samples of a level, also at the ends of a series; fewer are a spike. With 4, labels of
short levels are missed (F1 on the generated traces 0.04 lower).
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """One setting for every series of every length. Lengths are in samples; sizes are ratios, so that neither
    the unit nor the distance of the hosts matters.

    How they were chosen: `least_impact` and `filter_width` on labelled traces, by cross-validation;
    `strictness` and `tail_strictness` on simulated series in which nothing changes. The others are round
    numbers for the reason that stands with each, but they, `fewest_windows` and the form of the rule were
    settled while all labelled traces were in view: what they owe to those no cross-validation can tell
    (docs/change-points.md).
    """

    fewest: int = 8
    """Answered samples below which no level change is decided: two groups of four is the least that a median
    and a spread can be taken from."""

    # The search (jumps.py, levels.py).
    strictness: float = 1.7
    """A jump must be sqrt(2 ln(samples / width + 1)) + this times its usual size: with 1.2 to 1.7, one
    series of twenty has such a jump by chance (simulated: AR(1) of 0.8 to 0.99, 500 to 50,000 samples)."""
    fewest_windows: int = 10
    """The widest window is this part of the series: of fewer windows one cannot know what is usual."""
    filter_width: int = 7
    """Samples that a running median is taken of before windows are averaged: up to three that lie apart are a
    spike and no level."""
    clip: float = 4.0
    """How far from that median a sample counts, in noise."""

    # What is worth a person's attention (consolidate.py).
    least_relative: float = 0.004
    """Smallest change of level, as a fraction of it: the magnitude filter of Hunter (Fleming et al. 2023)."""
    least_spread: float = 4.0
    """Smallest change of level that lasts `spread_length` samples or fewer, in robust standard deviations of
    the calmer side: a short one is seen by people where samples of both sides hardly overlap."""
    spread_length: int = 10
    """Of a longer one less is asked, by the root of its length."""
    least_impact: float = 250.0
    """Least size x length, size in noise: a step of forty times the noise that stays needs 4 samples, one of
    ten times 16; one that comes back counts half."""
    ramp_longest: int = 20
    """A stretch this short between a lower and a higher level, and not steady itself, is the way from one to
    the other: one change, not two."""
    ramp_spread: float = 0.3
    """Not steady: its spread is at least this share of the smaller step."""
    placement_reach: int = 5
    """Samples to either side in which a clear change is placed again once its neighbours are known."""
    placement_freedom: float = 1.0
    """Degrees of freedom for that: Cauchy's distribution, so that one odd sample does not move a change."""

    # Tails (tails.py).
    tail_quantile: float = 0.99
    """A tail event is a sample further above its running median than this quantile of all samples."""
    tail_strictness: float = 2.7
    """`strictness` for tails: counts of few events are more often extreme than means are. With 2.2, 4 of 60
    and 5 of 60 series of GARCH with a long memory (10,000 and 20,000 samples) had a change of tail; with 2.6,
    3 each."""
    tail_events_a_window: int = 5
    """Expected events in a window; fewer, and Anscombe's transform no longer evens out their variance."""
