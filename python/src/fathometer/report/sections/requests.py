"""What became of the requests of applications under policies: a row a recording."""

from __future__ import annotations

from fathometer.dataset.client import ENDS, Waited
from fathometer.findings.model import Analysis
from fathometer.findings.policies import Application
from fathometer.findings.words import count, duration, moment
from fathometer.report.goals import percent
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table

_NONE = Cell("–")


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(a) for a in analysis.applications]
    head = (
        "application",
        "due",
        *ENDS,
        "not known",
        "waited p50",
        "waited p99",
        "noticed after",
        "recovered after",
        "extra connections",
        "most in a second",
    )
    table = table_of("What became of requests", head, rows)
    if table is None:
        return None
    minor = ("failed", "shed", "fallback", "not known", "waited p50", "most in a second")
    return Table(table.caption, table.head, table.rows, minor)


def _row(a: Application) -> tuple[Cell, ...]:
    c = a.client
    when = moment(a.recording.manifest.started_ns)[:19]
    first = Cell(a.name, a.repetition or when, _doubt(a))
    ends = [Cell(f"{n:,}", percent(n / c.due) if n else "") for n in c.ended.values()]
    waited = [
        Cell("–", "", "too few requests for this percentile") if v is None else Cell(duration(v))
        for v in (c.waited.p50_ns, c.waited.p99_ns)
    ]
    return (
        first,
        Cell(f"{c.due:,}"),
        *ends,
        Cell(f"{c.not_known:,}"),
        *waited,
        _times(c.notice),
        _recovered(a),
        Cell(f"{c.extra_connections:,}", f"of {c.connections:,}"),
        Cell(f"{c.reconnections_a_second:,}"),
    )


def _times(waited: Waited) -> Cell:
    if waited.middle_ns is None or waited.max_ns is None:
        return _NONE
    most = f"at most {duration(waited.max_ns)}, " if waited.p50_ns is not None else ""
    return Cell(duration(waited.middle_ns), f"{most}{count(waited.count, 'time')}")


def _recovered(a: Application) -> Cell:
    c = a.client
    if c.recover is None:
        return Cell(
            "–", "", "when requests were due is not known: the clock was set, or nothing was answered"
        )
    shown = _times(c.recover)
    return shown if c.recovered else Cell(shown.text, shown.under, "the last trouble was not over at the end")


def _doubt(a: Application) -> str:
    c, doubts = a.client, []
    if a.recording.running:
        doubts.append("it is still being written")
    elif a.recording.interrupted or c.uncounted:
        doubts.append("it was interrupted: what fell due in its last second is not counted")
    if a.recording.broken:
        doubts.append("a part of it cannot be read")
    if not c.agrees:
        doubts.append("its rows and events come to other counts than the application told at its end")
    return "; ".join(doubts)


SECTION = Section(
    "requests",
    "Requests that were due, and the one end of each: answered; failed: never sent; ambiguous: sent, and "
    "no answer came, so that the server may have done it; shed: the breaker was open; fallback: served "
    "otherwise; not known: the recording has no end of theirs. They add up to those due. Waited: from due to "
    "the end, whatever the end. Noticed: from sending what was not answered to knowing it. Recovered: from "
    "when a request was due that its first try did not serve to the first answer after which all went well "
    "for 10 s. Extra connections took the place of others; most in a second is what a server that comes back "
    "meets.",
    _table,
)
