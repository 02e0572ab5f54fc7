"""The verdict at the top of a report: goals, what changed since an earlier report, and what was measured, in
a few words each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.policies import MATTERS, like_the_best
from fathometer.findings.words import count, duration, listed, span
from fathometer.report.baseline import Drift, Since
from fathometer.report.goals import Goal, Outcome, percent
from fathometer.report.judgement import Judgement
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
    """Goals first, then what changed, then what was measured."""
    goals = list(dict.fromkeys(o.goal for o in judgement.outcomes))
    strip = [_of_goal(goal, [o for o in judgement.outcomes if o.goal == goal]) for goal in goals]
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
    undecided = [p for p in drift.paths if not p.decided]
    details = [_since(p) for p in [*worse, *(b for b in better if b not in worse)][: 2 * _MOST]]
    if undecided:
        details.append(f"cannot be decided for {listed([p.path for p in undecided], _MOST)}")
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
    if undecided or not drift.paths:
        return Verdict(head, "cannot be decided", "open", tuple(details))
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
    measured = [s for s in analysis.scenarios if not is_throughput(s)]
    strip: list[Verdict] = []
    if measured:
        counts = (
            sum(getattr(s, name) for s in measured) for name in ("sent", "unanswered", "corrupt", "unsent")
        )
        strip.append(_never_reached(_answered(*counts), measured))
        strip += _extremes([s for s in measured if s.rtt.count])
    strip += _applications(analysis)
    if analysis.sampled:
        number = len(analysis.incidents)
        ends = sum(i.toll.connections for i in analysis.incidents)
        of_them = (f"{count(ends, 'connection')} ended",) if ends else ()
        strip.append(Verdict("Incidents", f"{number:,}" if number else "none", "plain", of_them))
    if len(measured) < len(analysis.scenarios):
        tests = [s for s in analysis.scenarios if is_throughput(s)]
        runs = count(sum(len(s.runs) for s in tests), "test")
        strip.append(Verdict("Throughput", runs, "plain", (f"of {count(len(tests), 'path')}",)))
    if analysis.summaries:
        tools = listed(sorted({s.tool for s in analysis.summaries}))
        strip.append(
            Verdict("Other tools", count(len(analysis.summaries), "summary", "summaries"), "plain", (tools,))
        )
    return strip


def _applications(analysis: Analysis) -> list[Verdict]:
    """What became of requests, and the policy that did best."""
    due = sum(a.client.due for a in analysis.applications)
    if not analysis.applications:
        return []
    if not due:
        return [Verdict("Requests served", "none was due", "open")]
    lost = sum(a.client.unserved for a in analysis.applications)
    of = f"{lost:,} of {count(due, 'request')} not served" if lost else f"all of {count(due, 'request')}"
    strip = [Verdict("Requests served", percent(1 - lost / due), "plain", (of,))]
    for c in analysis.policies:
        first = like_the_best(c)
        if not first or len(first) == len(c.policies):
            strip.append(Verdict("Best policy", "not told apart", "open", (c.path,)))
            continue
        alike = (f"not told apart from it: {listed(first[1:], _MOST)}",) if first[1:] else ()
        runs = count(c.runs, "repetition")
        strip.append(
            Verdict("Best policy", first[0], "plain", (f"{c.path}, by {MATTERS[c.weigh]}", runs, *alike))
        )
    return strip


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
