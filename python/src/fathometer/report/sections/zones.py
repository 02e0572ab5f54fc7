"""Round trips between physical zones, as a matrix; and whether zones' numbers mean one thing here."""

from __future__ import annotations

from fathometer.findings.model import Analysis
from fathometer.findings.words import duration, listed, span
from fathometer.findings.zones import Zones, of_pair, zones
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    found = zones(analysis)
    names = found.names
    rows = [
        (Cell(name, _number(found, name)), *(_cell(found, name, other) for other in names)) for name in names
    ]
    warnings = [
        f"zone {n} of {region} is {listed(list(of))} here" for (region, n), of in found.several.items()
    ]
    warnings += [
        f"{p} of {region} is zone {listed(list(of))} here" for (region, p), of in found.shared.items()
    ]
    under = "recordings of several subscriptions: numbers of zones must not be compared"
    rows += [(Cell(warning, under), *(Cell("–") for _ in names)) for warning in warnings]
    if found.unknown and rows:
        rows.append(
            (Cell("not known at one end", listed(list(found.unknown), 4)), *(Cell("–") for _ in names))
        )
    return table_of("Physical zones", ("zone", *names), rows)


def _number(found: Zones, physical: str) -> str:
    """What subscriptions call it."""
    numbers = sorted({number for (_, number), names in found.physical.items() if physical in names})
    return f"here zone {listed(numbers)}" if numbers != [physical] else ""


def _cell(found: Zones, one: str, other: str) -> Cell:
    paths = of_pair(found, one, other)
    if not paths:
        return Cell("–")
    lines = []
    for path in paths:
        median = path.figure("p50")
        around = "" if median.interval is None else f" ({span(median.interval.low, median.interval.high)})"
        lines.append(f"{path.name}: {duration(median.value)}{around}" if median.shown else f"{path.name}: –")
    shown = [p for p in paths if p.figure("p50").shown]
    return Cell(duration(shown[0].figure("p50").value) if shown else "–", "; ".join(lines))


SECTION = Section(
    "zones",
    "Medians of round trips between physical zones: the fastest path of each pair, beneath it all of them "
    "with their 95 % intervals. Which physical zone a host is in, its cloud's metadata service said. A cloud "
    "numbers zones for each subscription anew: compare the names here, not the numbers, with other reports.",
    _table,
)
