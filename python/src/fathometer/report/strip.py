"""The verdict at the top of a report: goals, what changed since an earlier report, and what was measured, in
a few words each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fathometer.findings.interruptions import Interrupted, interrupted, steps
from fathometer.findings.limits_compared import Searched, alike, kinds, searched
from fathometer.findings.model import Analysis, Scenario, is_search
from fathometer.findings.policies import like_the_best
from fathometer.findings.policy_words import repetitions
from fathometer.findings.words import count, duration, listed, span
from fathometer.report.baseline import Drift, Since
from fathometer.report.goals import Goal, Outcome, percent
from fathometer.report.judgement import Judgement
from fathometer.report.sections.limits import beside_it, found
from fathometer.report.tables import is_throughput

Tone = Literal["good", "bad", "open", "plain"]
SIGNS: dict[Tone, str] = {"good": "✓", "bad": "✗", "open": "?", "plain": ""}
"""Besides the colour, so that it is not needed."""
_MOST = 3
"""Paths that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One statement of the strip."""

    head: str
    """What it is about: `p99 < 2.00 ms`."""
    answer: str
    """In a word or two: `met`, `93.7 %`."""
    tone: Tone
    details: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        """Of its tone."""
        return SIGNS[self.tone]


def verdicts(analysis: Analysis, judgement: Judgement) -> list[Verdict]:
    """Goals come first, the missed ones before the others; then changes, then measurements."""
    goals = list(dict.fromkeys(o.goal for o in judgement.outcomes))
    strip = [_of_goal(goal, [o for o in judgement.outcomes if o.goal == goal]) for goal in goals]
    strip.sort(key=lambda verdict: verdict.tone != "bad")
    if judgement.drift is not None:
        strip.append(_of_drift(judgement.drift))
    return strip + _measured(analysis)


def _of_goal(goal: Goal, outcomes: Sequence[Outcome]) -> Verdict:
    head = goal.name if goal.path == "*" else f"{goal.path}: {goal.name}"
    missed = [o for o in outcomes if o.status == "not met"]
    undecided = [o for o in outcomes if o.status == "cannot be decided"]
    unsure = [o for o in outcomes if o.status == "met" and not o.sure]
    details = [_missed(goal, o) for o in missed[:_MOST]]
    if len(missed) > _MOST:
        details.append(f"and {count(len(missed) - _MOST, 'other path')}")
    if undecided:
        details.append(f"cannot be decided for {_paths(undecided)}: {undecided[0].reason}")
    if unsure:
        details.append(f"not sure for {_paths(unsure)}: {unsure[0].reason}")
    if missed:
        one = len(outcomes) == 1
        return Verdict(
            head, "not met" if one else f"not met by {len(missed)} of {len(outcomes)}", "bad", tuple(details)
        )
    if undecided:
        return Verdict(head, "cannot be decided", "open", tuple(details))
    every = "met" if len(outcomes) == 1 else f"met by all {len(outcomes)}"
    return Verdict(head, every, "good", tuple(details))


def _missed(goal: Goal, outcome: Outcome) -> str:
    sure = "" if outcome.sure else " (not sure)"
    return f"{outcome.path}: {goal.shown(outcome.value or 0.0)}{sure}"


def _paths(outcomes: Sequence[Outcome]) -> str:
    return listed([o.path for o in outcomes], _MOST)


def _of_drift(drift: Drift) -> Verdict:
    worse = [p for p in drift.paths if p.worse]
    better = [p for p in drift.paths if p.better]
    otherwise = [p for p in drift.paths if p.differs]
    undecided = [p for p in drift.paths if not p.decided and not p.differs]
    details = [_since(p) for p in [*worse, *(b for b in better if b not in worse)][: 2 * _MOST]]
    if undecided:
        details.append(f"cannot be decided for {listed([p.path for p in undecided], _MOST)}")
    details += [f"{p.path}: not compared, as its {p.differs}" for p in otherwise[:_MOST]]
    if len(otherwise) > _MOST:
        details.append(f"nor {count(len(otherwise) - _MOST, 'other path')}")
    if drift.only_then:
        details.append(f"no longer measured: {listed(list(drift.only_then), _MOST)}")
    if drift.only_now:
        details.append(f"new: {listed(list(drift.only_now), _MOST)}")
    head = "Since the earlier report"
    if worse:
        slower = all(p.answers != "fewer" for p in worse)
        answer = f"{count(len(worse), 'path')} {'slower' if slower else 'worse'}"
        return Verdict(head, answer, "bad", tuple(details))
    if drift.only_then:
        gone = f"{count(len(drift.only_then), 'path')} no longer measured"
        return Verdict(head, gone, "bad", tuple(details))
    if undecided or otherwise or not drift.paths:
        answer = "not compared" if otherwise and not undecided else "cannot be decided"
        return Verdict(head, answer, "open", tuple(details))
    if better:
        faster = all(p.answers != "more" for p in better)
        answer = f"{count(len(better), 'path')} {'faster' if faster else 'better'}"
        return Verdict(head, answer, "good", tuple(details))
    if all(d.verdict == "no difference that matters" for p in drift.paths for d in p.differences):
        return Verdict(head, "nothing that matters changed", "good", tuple(details))
    return Verdict(head, "no difference shown", "plain", tuple(details))


def _since(path: Since) -> str:
    changed = [f"{d.metric} {duration(d.a)} → {duration(d.b)}" for d in (*path.slower, *path.faster)]
    if path.answers in {"fewer", "more"}:
        then, now = (percent(share) for share in path.availability if share is not None)
        changed.insert(0, f"answered {then} → {now}")
    return f"{path.path}: {listed(changed)}"


def _measured(analysis: Analysis) -> list[Verdict]:
    measured = [s for s in analysis.scenarios if not is_throughput(s) and not is_search(s.key.mode)]
    strip = _limits(analysis)
    if measured:
        counts = (
            sum(getattr(s, name) for s in measured) for name in ("sent", "unanswered", "corrupt", "unsent")
        )
        strip.append(_never_reached(_answered(*counts), measured))
        strip += _extremes([s for s in measured if s.rtt.count])
    strip += _interruptions(analysis)
    strip += _applications(analysis)
    searches = [s for s in analysis.scenarios if is_search(s.key.mode)]
    if analysis.sampled and (not searches or len(searches) < len(analysis.scenarios)):
        number = len(analysis.incidents)
        ends = sum(i.toll.connections for i in analysis.incidents)
        of_them = (f"{count(ends, 'connection')} ended",) if ends else ()
        strip.append(Verdict("Incidents", f"{number:,}" if number else "none", "plain", of_them))
    if tests := [s for s in analysis.scenarios if is_throughput(s)]:
        runs = count(sum(len(s.runs) for s in tests), "test")
        strip.append(Verdict("Throughput", runs, "plain", (f"of {count(len(tests), 'path')}",)))
    if analysis.summaries:
        tools = listed(sorted({s.tool for s in analysis.summaries}))
        strip.append(
            Verdict("Other tools", count(len(analysis.summaries), "summary", "summaries"), "plain", (tools,))
        )
    return strip


def _interruptions(analysis: Analysis) -> list[Verdict]:
    """How long the paths of a study were interrupted at the longest, and which of them differ."""
    groups = steps(interrupted(analysis))
    if not groups:
        return []
    every = [x for group in groups for x in group]
    ends = [min(x.longest_ns.mean for x in every), max(x.longest_ns.mean for x in every)]
    details = [
        f"{span(*_means(group)) if len(group) > 1 else duration(group[0].longest_ns.mean)}: "
        f"{listed([x.name for x in group], 2 * _MOST)}"
        for group in groups[: 2 * _MOST]
    ]
    details.insert(0, "paths differ" if len(groups) > 1 else "no path is told apart from the others")
    strip = [Verdict("Longest wait of a run", span(*ends), "plain", tuple(details))]
    if ended := sum(x.ended for x in every):
        of_each = [
            f"{x.name}: {x.ended:,} of {x.of:,}" for x in sorted(every, key=lambda x: -x.ended) if x.ended
        ]
        spared = [x.name for x in every if not x.ended]
        more = (f"none of {listed(spared, _MOST)}",) if spared else ()
        strip.append(Verdict("Connections that ended", f"{ended:,}", "plain", (*of_each[: 2 * _MOST], *more)))
    return strip


def _means(group: Sequence[Interrupted]) -> tuple[float, float]:
    means = [x.longest_ns.mean for x in group]
    return min(means), max(means)


def _limits(analysis: Analysis) -> list[Verdict]:
    """Of each kind of search: the shortest limit, and which paths differ."""
    strip = []
    for every in kinds(searched(analysis.scenarios)):
        groups = alike(every)
        short = groups[0]
        answer = _found(short)
        if len(groups) > 1:
            answer = f"{answer} at the {'lowest' if every[0].limit == 'rate' else 'shortest'}"
        details = [f"{_found(g)}: {listed([x.name for x in g], 2 * _MOST)}" for g in groups[: 2 * _MOST]]
        if len(every) > 1:
            told = "paths differ" if len(groups) > 1 else "no path is told apart from the others"
            details.insert(0, told)
        if not all(x.sure for x in every):
            details.append(f"not sure for {listed([x.name for x in every if not x.sure], _MOST)}")
        limit = "Rate ceiling" if every[0].limit == "rate" else f"{every[0].limit.capitalize()} limit"
        name = f"{limit}{beside_it(every[0])}"
        strip.append(Verdict(name, answer, "plain", tuple(details)))
    return strip


def _found(group: Sequence[Searched]) -> str:
    """What was found on all paths of a group, or between which ends, where each has a limit; else each."""
    if any(x.dies_from_ns is not None for x in group) or len({x.high is None for x in group}) > 1:
        return listed(list(dict.fromkeys(found(x) for x in group)), _MOST)
    return found(group[0]) if len(group) == 1 else found(_hull(group))


def _hull(group: Sequence[Searched]) -> Searched:
    """Between which ends the limits of a group lie."""
    lows, highs = [x.low for x in group], [x.high for x in group]
    low = None if None in lows else min((x for x in lows if x), key=lambda e: e.at)
    high = None if None in highs else max((x for x in highs if x), key=lambda e: e.at)
    return replace(group[0], low=low, high=high, unanswered_ns=None)


def _applications(analysis: Analysis) -> list[Verdict]:
    """What became of requests, and the policy that did best."""
    due = sum(a.client.due for a in analysis.applications)
    unknown = sum(a.client.not_known for a in analysis.applications)
    if not analysis.applications:
        return []
    if not due:
        return [Verdict("Requests served", "none was due", "open")]
    if due == unknown:
        return [Verdict("Requests served", "not known", "open", (f"of {count(due, 'request')}",))]
    lost = sum(a.client.unserved for a in analysis.applications)
    of = f"{lost:,} of {count(due, 'request')} not served" if lost else f"of {count(due, 'request')}"
    of = of if lost or unknown else f"all of {count(due, 'request')}"
    # Of what is not known all may have been served, or nothing.
    ends = dict.fromkeys(percent(1 - n / due) for n in (lost + unknown, lost))
    doubt = (f"the end of {unknown:,} not known",) if unknown else ()
    strip = [Verdict("Requests served", " to ".join(ends), "plain", (of, *doubt))]
    if len(analysis.policies) > _MOST:
        return [*strip, _policies(analysis)]
    for c in analysis.policies:
        first = like_the_best(c)
        if not first or len(first) == len(c.policies):
            strip.append(Verdict("Best policy", "not told apart", "open", (c.path, repetitions(c))))
            continue
        alike = (f"not told apart from it: {listed(first[1:], _MOST)}",) if first[1:] else ()
        runs = repetitions(c)
        strip.append(Verdict("Best policy", first[0], "plain", (f"{c.path}, by {c.matters}", runs, *alike)))
    return strip


def _policies(analysis: Analysis) -> Verdict:
    """Of many paths: which policies did best on each, in one place."""
    details, alike = [], []
    for c in analysis.policies:
        first = like_the_best(c)
        if not first or len(first) == len(c.policies):
            alike.append(c.path)
        else:
            details.append(f"{c.path}: {listed(first)}")
    if alike:
        details.append(f"not told apart: {listed(alike, 2 * _MOST)}")
    answer = "by path" if len(details) > 1 else "not told apart"
    return Verdict("Best policies", answer, "plain", tuple(details))


def _answered(sent: int, unanswered: int, corrupt: int, unsent: int) -> Verdict:
    """Of the samples that were due: whoever had no connection had no answer either."""
    if not sent + unsent:
        return Verdict("Answered", "nothing was sent", "open")
    waiting = (f"{unsent:,} not sent for want of a connection",) if unsent else ()
    changed = (f"{corrupt:,} of {count(sent, 'sample')} came back changed",) if corrupt else ()
    lost = unanswered + corrupt
    if lost == sent:
        return Verdict("Answered", "none", "bad", (f"of {count(sent, 'sample')}", *changed, *waiting))
    of = (f"{unanswered:,} of {count(sent, 'sample')} lost",) if unanswered else ()
    of = of if lost else (f"all of {count(sent, 'sample')}",)
    share = percent(1 - (lost + unsent) / (sent + unsent))
    return Verdict("Answered", share, "plain", (*of, *changed, *waiting))


def _never_reached(verdict: Verdict, measured: Sequence[Scenario]) -> Verdict:
    """With the paths that had no connection in all the time: no sample of theirs is among those counted."""
    never = [s.name for s in measured if not s.sent and not any(run.recording.connections for run in s.runs)]
    if not never or len(never) == len(measured):
        return verdict
    was = "was" if len(never) == 1 else "were"
    return replace(verdict, tone="bad", details=(*verdict.details, f"{listed(never, 3)} {was} never reached"))


def _extremes(answered: Sequence[Scenario]) -> list[Verdict]:
    """The fastest and the slowest median; of too few samples the smallest and the largest."""
    supported = [s for s in answered if s.figure("p50").shown]
    if supported:
        fast, slow = supported[0], supported[-1]
        head = "Median" if len(supported) == 1 else "Fastest median"
        strip = [Verdict(head, duration(fast.figure("p50").value), "plain", (fast.name,))]
        if len(supported) > 1:
            strip.append(Verdict("Slowest median", duration(slow.figure("p50").value), "plain", (slow.name,)))
        return strip
    ends = [end for s in answered for end in (s.rtt.min_ns, s.rtt.max_ns) if end is not None]
    if not ends:
        return []
    trips = sum(s.rtt.count for s in answered)
    if trips == 1:
        return [Verdict("A single round trip", duration(ends[0]), "plain", ("one value has no spread",))]
    return [Verdict("Round trips", span(min(ends), max(ends)), "plain", ("too few for a median",))]
