"""What statistics found, in words: made last, and read by nothing."""

from __future__ import annotations

from fathometer.counts import are, count
from fathometer.findings.words import duration
from fathometer.stats.ages import Ages
from fathometer.stats.calendar import FEWEST_WEEKS, Rhythm
from fathometer.stats.coincidence import Rivals
from fathometer.stats.first import First
from fathometer.stats.lifetimes import FEWEST_DEATHS, Refresh
from fathometer.stats.segments import FEWEST_PLACEBOS, Ending


def of_rhythm(rhythm: Rhythm) -> str:
    """Whether hours or weekdays differ."""
    if rhythm.p_value is None:
        if rhythm.of == "day":
            return (
                f"measured: {count(rhythm.seen, 'whole day')}; {rhythm.needed} are needed to speak of hours"
            )
        return f"weekdays can only be compared when at least two were seen {FEWEST_WEEKS} times"
    apart = "" if rhythm.swing is None else f", {100 * rhythm.swing:.1f} % apart"
    chance = f"p = {rhythm.p_value:.3f}"
    if rhythm.of == "day":
        if not rhythm.shown:
            return (
                f"no rhythm of the day is shown ({count(rhythm.seen, 'whole day')}, p = {rhythm.p_value:.2f})"
            )
        return (
            f"the hour matters: highest at {rhythm.highest:02d}h, lowest at {rhythm.lowest:02d}h{apart} "
            f"(the same on {count(rhythm.seen, 'day')}, {chance})"
        )
    if not rhythm.shown:
        return f"no rhythm of the week is shown ({count(rhythm.seen, 'day')}, p = {rhythm.p_value:.2f})"
    return f"the weekday matters: the highest and the lowest are{apart.removeprefix(',')} ({chance})"


def of_first(first: First) -> str:
    """What a new connection costs its first sample."""
    if first.connections == 0:
        return "no connection had a first sample and others"
    of = count(first.connections, "connection")
    if first.differs is None:
        return (
            f"the first sample took {first.ratio:.2f} times as long as the others; {of} "
            f"{are(first.connections)} too few to generalise"
        )
    if first.differs:
        return f"the first sample of a connection takes {first.ratio:.2f} times as long as the others ({of})"
    return f"the first sample of a connection is not shown to differ from the others ({of})"


def of_ending(ending: Ending) -> str:
    """Whether a connection's last samples were unusual."""
    if ending.p_value is None:
        return (
            f"the connection was too short to say what is usual for it "
            f"({count(ending.placebos, 'window')}, {FEWEST_PLACEBOS} are needed)"
        )
    changed = f"the last {ending.length} samples changed by {100 * ending.last_change:+.1f} %"
    if ending.unusual:
        share = f"{100 * ending.p_value:.1f} %"
        return f"{changed}; at other times of this connection only {share} of windows did as much"
    share = f"{100 * ending.p_value:.0f} %"
    return f"{changed}, which is usual for this connection: {share} of its windows changed as much"


def of_rivals(rivals: Rivals) -> str:
    """Whether deaths agree in age or in time."""
    if rivals.better == "either":
        return (
            "an age limit explains these deaths as well as a common moment does: the connections were of "
            "nearly the same age"
        )
    if rivals.better == "age":
        return (
            "the connections agree in age better than in time: an age or idle limit is the better explanation"
        )
    return "the connections died at one time but at different ages: a common event is the better explanation"


def of_ages(told: Ages) -> str:
    """Whether connections die of their age."""
    chance = f"p = {told.p_value:.2g}"
    if told.better == "chance":
        return f"they fall as chance makes them, and no age limit is shown ({chance})"
    if told.told_by == "order":
        return (
            f"where some died and others lived on, it was the older ones that died ({chance}): an age or "
            "idle limit is the better explanation"
        )
    alike = f"the connections were of nearly one age, {duration(told.typical_ns)} ({chance})"
    if told.better == "age":
        return f"{alike}, at moments that no clock makes: an age or idle limit is the better explanation"
    other = (
        "a common moment"
        if told.every_ns is None
        else f"something that comes every {duration(told.every_ns)}"
    )
    return (
        f"{alike}: an age limit explains these deaths as well as {other} does; connections that begin at "
        "different moments would tell (fathom limits --age)"
    )


def of_refresh(refresh: Refresh) -> str:
    """Whether refreshing connections prevents deaths."""
    fit = refresh.hazard
    if fit is None:
        return f"too few deaths (at least {FEWEST_DEATHS}) to say whether age matters"
    shape = f"Weibull shape {fit.shape:.2f}, {fit.shape_interval.low:.2f} to {fit.shape_interval.high:.2f}"
    match refresh.why:
        case "rises":
            return f"connections die sooner the older they are ({shape}, p = {fit.p_value:.1g})"
        case "saves little":
            return f"no refresh age would cost much less than letting connections die ({shape})"
        case "beyond what was seen":
            return f"the best refresh age is beyond the oldest connection seen ({shape})"
        case _:
            return f"the hazard is not shown to rise with age ({shape})"
