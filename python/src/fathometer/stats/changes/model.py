"""What the search for changes is asked and answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    the smallest ratio of what was found to what was asked (see `consolidate.margin` and `windows`). It ranks
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


@dataclass(frozen=True, slots=True)
class Settings:
    """One setting for every series. Lengths are in samples; sizes are ratios, so that neither the unit nor
    the distance of the hosts matters.

    "Noise" is the noise floor of the whole series, from the differences of neighbouring samples.
    """

    precise_longest: int = 20_000
    """Longest series searched sample by sample: about 1.5 s at this length, and linear in it."""
    fewest: int = 8
    """Answered samples below which no level change is decided: two groups of four is the least that a median
    of five and a spread can be taken from."""

    # The search (states.py).
    penalty_per_log: float = 1.75
    """Cost of a change over the natural logarithm of the number of samples; a change of mean pays 2 ln n
    under Schwarz's criterion, but half of that is its location, which the list of levels already limits."""
    freedom: float = 4.0
    """Degrees of freedom of Student's t for the noise. Round trips have heavy tails; 3, 4 and 5 give the same
    result within 0.005 of F1, 2 is worse."""
    loss_cap: float = 20.0
    """Most that one sample may cost, whatever its distance. One spike costs less than the two changes that
    would set it apart (32 at ten thousand samples); two or three that agree cost more."""
    scales: int = 8
    """Spreads a regime may have: 1, 2, 4 ... 128 times the noise. Congestion is a regime of wide spread."""
    level_step: float = 1.0
    """Distance of the candidate levels, in noise. Half of it and twice it gave F1 0.004 lower or the same."""
    most_levels: int = 600
    """Candidate levels at most; beyond that the step is widened. Bounds time at scales x levels a sample."""

    # What is worth a person's attention (consolidate.py).
    least_relative: float = 0.004
    """Smallest change of level, as a fraction of it: the magnitude filter of Hunter (Fleming et al. 2023). On
    the labelled paths anything from 0.2 to 0.5 % gives the same; 0.8 % misses changes that people marked."""
    least_noise: float = 4.0
    """Smallest change of level, in noise."""
    least_spread: float = 4.0
    """Smallest change of level, in robust standard deviations of the calmer side. Below it two regimes
    overlap and slow drift (day and night) would be cut into steps."""
    least_impact: float = 530.0
    """How large and lasting a change must be together: size x length ** 1.4, size in `impact` units. Where
    noise is 0.1 % of the level, a step of forty times the noise that stays needs 4 samples, one of ten times
    11; one that comes back counts half: 7 and 18 samples."""
    impact_exponent: float = 1.4
    noise_share: float = 0.85
    """The unit of size is noise ** 0.85 x (0.1 % of the level) ** 0.15: noise alone makes a little too much
    of quiet paths, the level alone far too little of near ones."""
    ramp_longest: int = 20
    """A stretch this short between a lower and a higher level, and not steady itself, is the way from one to
    the other: one change, not two."""
    ramp_spread: float = 0.3
    """Not steady: its spread is at least this share of the smaller step."""
    placement_reach: int = 5
    """Samples to either side in which a change is placed again once its neighbours are known."""
    placement_freedom: float = 1.0
    """Degrees of freedom for that: Cauchy's distribution, so that one odd sample does not move a change."""

    # Large changes of noisy short series, found by windows.
    large_relative: float = 0.15
    """Change of level, as a fraction of it, that is worth telling although samples of both sides overlap:
    nobody overlooks a step of a sixth that lasts."""
    large_window: int = 20
    """Samples in a window: enough for its median to stand out of noise as large as the change."""
    fewest_large: int = 800
    """Samples below which windows are too few for their long-run deviation."""

    # Long series (windows.py).
    windows: int = 2_000
    """Windows at most. 2,000 gave full recall and no false alarm at one and ten million samples."""
    penalty_windows: float = 3.0
    """Cost of a change in windows over ln(windows), in long-run variances."""
    tail_quantile: float = 0.99
    """A tail event is a sample further above its window's median than this quantile of all samples."""
    tail_events_a_window: int = 5
    """Expected events in a window; fewer, and Anscombe's transform no longer evens out their variance."""
    fewest_tail_windows: int = 60
    """Windows below which no change of tail is decided, since not even their long-run variance is known."""
