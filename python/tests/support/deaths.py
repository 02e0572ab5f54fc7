"""Connections that end by chance, by maintenance or by an age limit, and what is known to be so."""

from dataclasses import dataclass

import numpy as np

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DEATHS = 30
LIMIT = 11 * HOUR


@dataclass
class Life:
    begun_ns: int
    ended_ns: int
    died: bool
    by_limit: bool = False


def lives(rng, lanes, span_ns, moments, share, chance_ns, limit_ns):
    """Each lane keeps one connection, and begins another two seconds after its end. At each moment of
    maintenance a connection dies with the probability `share`; between them by chance, or at the limit.
    """
    every = []
    for _ in range(lanes):
        begun = int(rng.integers(0, HOUR))
        while begun < span_ns:
            ends = [(int(begun + rng.exponential(chance_ns)), False)] if chance_ns else []
            # What maintenance takes goes within seconds.
            ends += [
                (at + int(rng.integers(0, 3 * SECOND)), False)
                for at in moments
                if at > begun and rng.random() < share
            ]
            # A middlebox looks for what is too old now and then.
            ends += [(begun + limit_ns + int(rng.integers(0, 30 * SECOND)), True)] if limit_ns else []
            end, by_limit = min(ends, default=(span_ns, False))
            if end >= span_ns:
                every.append(Life(begun, span_ns, False))
                break
            every.append(Life(begun, end, True, by_limit))
            begun = end + 2 * SECOND
    return every


def by_chance(rng):
    """Maintenance at random moments: a fleet, a span and a rate by chance, 30 deaths or more."""
    while True:
        lanes, span = int(rng.integers(1, 25)), int(rng.uniform(2, 30) * 24) * HOUR
        mean = rng.uniform(4, 48) * HOUR
        moments = np.cumsum(rng.exponential(mean, int(3 * span / mean) + 10)).astype(np.int64)
        share = float(rng.choice([0.2, 0.5, 1.0]))
        chance = int(rng.uniform(20, 400)) * HOUR if rng.random() < 0.5 else None
        made = lives(rng, lanes, span, moments[moments < span].tolist(), share, chance, None)
        if sum(life.died for life in made) >= DEATHS:
            return made, span


def by_the_clock(rng):
    """Maintenance every night or every week, within a window of an hour, that takes all or a part."""
    while True:
        lanes, days = int(rng.integers(1, 25)), int(rng.integers(30, 120))
        every, share = int(rng.choice([1, 7])), float(rng.choice([0.2, 0.5, 1.0]))
        moments = [(day * 24 + 3) * HOUR + int(rng.integers(0, HOUR)) for day in range(0, days, every)]
        chance = int(rng.uniform(100, 1000)) * HOUR if rng.random() < 0.5 else None
        made = lives(rng, lanes, days * 24 * HOUR, moments, share, chance, None)
        if sum(life.died for life in made) >= DEATHS:
            return made, days * 24 * HOUR


def of_a_limit(rng, chance):
    """Connections that live 11 h; with `chance`, some die earlier. It ends with the 30th death."""
    lanes = int(rng.integers(1, 11))
    made = lives(rng, lanes, 60 * 24 * HOUR, [], 0.0, 50 * HOUR if chance else None, LIMIT)
    over = sorted(life.ended_ns for life in made if life.died)[DEATHS - 1] + SECOND
    cut = [life for life in made if life.begun_ns < over]
    return [life if life.ended_ns < over else Life(life.begun_ns, over, False) for life in cut], over
