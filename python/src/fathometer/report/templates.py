"""A report as one HTML file that needs no network, and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from fathometer import __version__
from fathometer.clean import all_cleaned, cleaned
from fathometer.counts import are
from fathometer.findings import marks, policy_words
from fathometer.findings import render as words
from fathometer.findings.finding import SILENT, Finding, Incident
from fathometer.findings.model import Analysis, Scenario, is_making, is_search
from fathometer.findings.seen import ways
from fathometer.findings.words import capital, count, duration, listed, moment, zone_name
from fathometer.report import modes, page, render, tables
from fathometer.report.interest import MOST_INCIDENTS, as_shown, by_interest, foremost_pairs
from fathometer.report.page import Page
from fathometer.report.strip import verdicts

LIMIT: Final = 4_000_000
"""Bytes of a page. Mail, tickets and phones take that."""
MOST_OPEN: Final = 3
"""Paths whose details are open from the start."""


@dataclass(frozen=True, slots=True)
class NumberedIncident:
    """An incident with its number in the order of the page."""

    number: int
    incident: Incident


def stories(
    incidents: Sequence[Incident],
) -> tuple[NumberedIncident | None, list[NumberedIncident], list[NumberedIncident]]:
    """The costliest incident, those with a line, and the others (`interest.as_shown`)."""
    every = [NumberedIncident(n, i) for n, i in enumerate(as_shown(incidents), 1)]
    return (every[0] if every else None, every[1 : MOST_INCIDENTS + 1], every[MOST_INCIDENTS + 1 :])


def html(report: Page) -> str:
    """One file: pictures inside, the script of the charts inside, nothing to fetch. Where it would be larger
    than `LIMIT`, detail goes first, then what zooms, then the script, then charts over time.
    """
    text = _html(report)
    for thinner in (page.coarser, page.mostly_still, page.still, page.fewer, page.without_time):
        if len(text.encode()) <= LIMIT:
            break
        report = thinner(report)
        text = _html(report)
    return text


def _html(report: Page) -> str:
    live = {f.name: {"spec": f.live.spec, "data": f.live.columns} for f in report.every() if f.live}
    # Within a script element only `<` could end it.
    data = json.dumps(all_cleaned(live), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    context = _context(report) | {
        "live": Markup(data) if live else None,  # noqa: S704 - see above
        "runtime": Markup(render.script()) if live else "",  # noqa: S704 - vl-convert's
    }
    return _environment(report, _in_html).get_template("report.html.j2").render(**context)


def markdown(report: Page, pictures: str | None = None) -> str:
    """For a repository or a ticket. `pictures`: the directory, relative to the file, in which the figures lie
    as SVG.
    """
    where = Markup(quote(pictures)) if pictures else None  # noqa: S704 - quoted
    template = _environment(report, _in_markdown).get_template("report.md.j2")
    return template.render(**_context(report), where=where)


def _environment(report: Page, shown: Callable[[Any], Any]) -> jinja2.Environment:
    """`shown`: what becomes of every value that a template shows."""
    names = tuple(
        {n for s in report.analysis.scenarios for n in (s.name, s.key.label)}
        | {n for x in report.analysis.applications for n in (x.path, x.policy)}
    )
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fathometer.report"),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "are": are,
        "counted": count,
        "duration": duration,
        "moment": moment,
        "sentence": lambda text: sentence(text, names),
        "when": _when,
        "name": lambda i: capital(words.name(i)),
        "what": words.what,
        "whom": words.whom,
        "when_each": words.when_each,
        "cost": words.cost,
        "remedies": words.remedies,
        "statement": words.statement,
        "evidence": words.evidence,
        "advice": words.advice,
        "advice_evidence": words.advice_evidence,
        "snippets": words.snippets,
        "coded": _coded,
    }
    return environment


def _coded(text: str) -> Markup:
    """Lines of ours (names and numbers, nothing from outside) as code in Markdown."""
    return Markup(", ".join(f"`{line}`" for line in text.splitlines()))  # noqa: S704 - see above


def _when(incident: Incident) -> str:
    """From when to when: `2025-03-20 10:04:12 to 10:06:44 UTC`; of a silence for how long:
    `2025-03-20 10:04:12.250 UTC, 3.00 s`.
    """
    began, ended = moment(incident.from_ns), moment(incident.to_ns)
    if incident.kind in SILENT and incident.lasted_ns:
        return f"{began}, {duration(incident.lasted_ns)}"
    if incident.to_ns - incident.from_ns < 1_000_000_000:
        return began
    same_day = began[:10] == ended[:10]
    return f"{began[:19]} to {ended[11 if same_day else 0 : 19]} UTC"


def _measured(report: Page) -> str:
    """When was measured, and how much. Also while nothing was sent: an outage at the end is part of it."""
    recordings = report.analysis.recordings
    first = [r.totals.first_sent_ns for r in recordings if r.totals.first_sent_ns is not None]
    if not first:
        return ""
    began, ended = min(first), max(r.over_ns for r in recordings)
    lasted = ended - began
    if any(r.clock_was_set for r in recordings):
        # Times of day give no length: the longest recording's length is known.
        lasted = max(r.lasted_ns for r in recordings)
    paths = [count(n, "path") for n in [len(report.analysis.scenarios)] if n]
    return ", ".join(
        [f"{moment(began)[:16]} UTC", duration(lasted), count(len(recordings), "recording"), *paths]
    )


def _quiet(a: Analysis) -> str:
    """The report's sentence if nothing happened at a single moment. Single losses do not count, and
    connections that differ do so all the time.
    """
    differ = [words.statement(f) for f in a.findings if f.kind == ways.KIND]
    return " ".join([_nothing(a.scenarios), *(f"But {one}." for one in differ[:MOST_OPEN])])


def _nothing(scenarios: Sequence[Scenario]) -> str:
    if scenarios and all(is_search(s.key.mode) for s in scenarios):
        return "Searches for limits send no samples: what they found stands above, and in a table below."
    names = {"unanswered": "unanswered", "corrupt": "corrupt", "unsent": "not sent"}
    counts = {what: sum(getattr(s, name) for s in scenarios) for name, what in names.items()}
    nothing = "Nothing happened that stands out:{} no stall, no connection that ended, no change of level"
    if not any(counts.values()):
        return nothing.format(" no loss,") + "."
    due = count(sum(s.due for s in scenarios), "sample")
    parts = [f"{n:,} {what}" for what, n in counts.items() if n]
    return f"{nothing.format('')}. Of {due} {listed(parts)}."


def sentence(text: str, names: Sequence[str]) -> str:
    """With the capital that a sentence begins with, unless it begins with the name of a path."""
    return text if any(text.startswith(name) for name in names) else capital(text)


def _in_html(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Cleaned; what is markup by our own making stays, the rest is escaped by the environment."""
    return cleaned(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_MEANT: Final = re.compile(r"[\\`*_\[\]<>&|#~]")
"""What Markdown, or the HTML within it, takes for its own."""


def _in_markdown(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Cleaned, and with a backslash before what has a meaning; our own markup stays."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return Markup(_MEANT.sub(r"\\\g<0>", cleaned(value)))  # noqa: S704 - nothing is left that has a meaning


def _context(report: Page) -> dict[str, Any]:
    a = report.analysis
    worst, lines, others = stories(a.incidents)
    shown = as_shown(a.incidents)
    whole = [f for f in a.findings if not f.is_event]
    general = [f for f in whole if len(f.paths) != 1]
    main = foremost_pairs(a)
    more = [v for v in a.comparisons if all(v is not m for m in main)]
    foremost = [s.name for s in by_interest(a, report.judgement.outcomes)]
    return {
        "page": report,
        "a": a,
        "measured": _measured(report),
        "marks": marks.told(a.recordings),
        "strip": verdicts(a, report.judgement),
        "worst": worst,
        "quiet": _quiet(a),
        "applications": _applications(a),
        "stories": lines,
        "more_stories": others[: report.rows],
        "more_incidents": len(others),
        "incidents_left_out": max(len(others) - report.rows, 0),
        "paths": [_path(report, name, whole, shown) for name in foremost],
        "open": foremost[:MOST_OPEN],
        "findings": sorted(general, key=words.weight, reverse=True)[: report.rows],
        "advice": [x for x in a.advice if x.actionable],
        "classes": [x for x in a.advice if not x.actionable],
        "version": __version__,
        "rows": report.rows,
        "zone": zone_name(a.zone),
        "makes": any(is_making(s.key.mode) for s in a.scenarios),
        "searches": bool(a.scenarios) and all(is_search(s.key.mode) for s in a.scenarios),
        "extras": modes.extras(a),
        "tables": {
            "summary": tables.summary(a.scenarios),
            "summaries": tables.of_tools(a.summaries),
            "runs": tables.of_runs(a.scenarios),
            "ratios": tables.ratios(main),
            "more_ratios": tables.ratios(more),
            "segments": tables.segments(a),
            "recordings": tables.recordings(a),
        },
        "wrong": [r for r in a.consistency if r.verdict != "ok"][: report.rows],
    }


def _applications(a: Analysis) -> dict[str, Any] | None:
    """What is told of applications in sentences; None: none was recorded."""
    if not a.applications:
        return None
    rules = {x.policy: policy_words.settings(x.client.policy) for x in a.applications}
    for comparison in a.policies:
        rules |= {p.name: policy_words.settings(p.settings) for p in comparison.policies}
    compared = {id(p) for c in a.policies for p in c.policies}
    return {
        "told": [] if compared else [policy_words.told(x) for x in a.applications],
        "comparisons": [(policy_words.verdict(c), policy_words.reasons(c)) for c in a.policies],
        "rules": [(name, each) for name, each in rules.items() if each],
    }


def _path(report: Page, name: str, whole: Sequence[Finding], shown: Sequence[Incident]) -> dict[str, Any]:
    """Values for a path's details. `shown`: the incidents in the order of their numbers."""
    scenario = report.analysis.scenario(name)
    p50, p99 = scenario.figure("p50"), scenario.figure("p99")
    figures = [f"p50 {duration(p50.value)}"] if p50.shown else []
    figures += [f"p99 {duration(p99.value)}"] if p99.shown else []
    return {
        "name": name,
        "figures": ", ".join(figures),
        "pacing": scenario.key.pacing,
        "charts": report.of_path("time", name),
        "calendar": report.of_path("calendar", name),
        "findings": [f for f in whole if f.scenario == name],
        "incidents": [n for n, i in enumerate(shown, 1) if name in i.paths],
    }
