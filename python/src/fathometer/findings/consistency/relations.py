"""What figures must obey together: ratios, steps, units, tails, ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from fathometer.counts import count
from fathometer.findings.consistency.cells import size, waits
from fathometer.findings.consistency.model import (
    Claim,
    Document,
    Ends,
    Grid,
    Ladder,
    Printed,
    Remark,
    StatisticsRow,
    Steps,
    number,
)
from fathometer.findings.consistency.packets import encrypted, packet_model


def steps(s: Steps) -> Iterator[Remark]:
    """Percent changes recomputed from the figures they stand beside."""
    wrong = 0
    for i, ((a, b), printed) in enumerate(zip(pairwise(s.values), s.percent[1:], strict=True), start=1):
        if printed is None:
            continue
        true = 100 * (b / a - 1)
        # The figures are rounded to two decimals and the change to one: a tenth of slack covers both.
        if abs(true - printed) > 0.1:
            wrong += 1
            yield Remark(
                s.row,
                "percent recomputed",
                "impossible",
                f"step {i}: {number(a)} to {number(b)} {s.unit} is {true:+.1f} %, not the {printed:+g} "
                "% printed",
            )
    if not wrong and any(p is not None for p in s.percent):
        yield Remark(s.row, "percent recomputed", "ok", "every change agrees with its figures")


def tail_budget(s: Steps, summary: StatisticsRow) -> Iterator[Remark]:
    """At most a share 1 - p of all samples lies above the p-quantile: segments that all lie above it may not
    hold more.
    """
    if not summary.count:
        return
    for name, share in (("p99_9", 0.999), ("p99", 0.99), ("p95", 0.95)):
        if name not in summary.figures:
            continue
        above = [v for v in s.values if v > summary.figures[name]]
        budget = math.floor((1 - share) * summary.count + 1e-9)
        samples = len(above) * s.length
        if len(above) == len(s.values) and samples > budget:
            yield Remark(
                s.row,
                "segments against tail",
                "impossible",
                f"the means of all segments ({len(above)} of {count(s.length, 'sample')}) lie above "
                f"{summary.show(name)} (the lowest is {number(min(s.values))}), "
                f"but at most {budget:,} of {count(summary.count, 'sample')} can: "
                "segments and summary do not describe the same series",
            )
            return


def claim(c: Claim) -> Iterator[Remark]:
    """A printed ratio, difference or percentage, recomputed."""
    true = {
        "ratio": c.b / c.a if c.a else math.inf,
        "difference": c.b - c.a,
        "percent": 100 * (c.b / c.a - 1) if c.a else math.inf,
    }[c.kind]
    unit = {"ratio": "x", "difference": f" {c.unit}".rstrip(), "percent": " %"}[c.kind]
    law = f"{c.kind} recomputed"
    # Inputs are rounded too: a relative half-step of theirs is worth about as much as one step of the claim.
    if abs(true - c.printed) <= c.step * 1.05:
        yield Remark(c.row, law, "ok", f"{number(c.a)} to {number(c.b)} gives {true:,.4g}{unit}, as printed")
    else:
        yield Remark(
            c.row,
            law,
            "impossible",
            f"{number(c.a)} to {number(c.b)} gives {true:,.4g}{unit}, not the {c.printed:g}{unit} printed",
        )


_BELOW = 0.99
"""Sizes are printed in round thousands (32KB for 32,767 bytes), and figures to two decimals."""
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def thousandfold(printed: list[Printed]) -> Iterator[Remark]:
    """The same digits under units a thousandfold (or a millionfold) apart."""
    pairs: set[tuple[str, str]] = set()
    for i, a in enumerate(printed):
        for b in printed[i + 1 :]:
            digits = a.text.lstrip("~").rstrip("0").rstrip(".")
            same = a.value == b.value and len(digits.replace(".", "").lstrip("0")) >= 3
            if not same or a.unit == b.unit or {a.unit, b.unit} - UNITS.keys():
                continue
            # One slip per pair of rows: a table printed in the wrong unit would otherwise be told once a
            # cell.
            if (a.row, b.row) in pairs:
                continue
            pairs.add((a.row, b.row))
            factor = max(UNITS[a.unit], UNITS[b.unit]) / min(UNITS[a.unit], UNITS[b.unit])
            small, large = (a, b) if UNITS[a.unit] < UNITS[b.unit] else (b, a)
            yield Remark(
                large.row,
                "unit",
                "impossible",
                f"{large.text} {large.unit} here, but {small.text} {small.unit} for the same digits in "
                f"{small.row}: one of them is {factor:,.0f} times off",
            )


def ladder(x: Ladder) -> Iterator[Remark]:
    """A zero at the end of positive figures."""
    *body, last = x.values
    if last == 0 and len(body) >= 2 and min(body) > 0:
        fall = all(a > b for a, b in pairwise(body))
        yield Remark(
            x.row,
            "zero at the end",
            "implausible",
            f"{', '.join(number(v) for v in body)} and then {x.names[-1]}: {last:.2f}: a zero after "
            f"{'steadily falling' if fall else 'positive'} figures smells of "
            "censoring (below what was counted or shown), not of a measurement",
        )


def packets(x: Ladder) -> Iterator[Remark]:
    """Waits by the size of packets: a transfer waits once for each packet, and for what the size does not
    change, so that a + b / size is left. With a and b at least 0 it falls at most as the sizes rise.
    """
    sizes = [size(name) for name in x.names]
    if not waits(x.row) or any(s is None for s in sizes):
        return
    known = [s for s in sizes if s is not None]
    if sorted(set(known)) != known:
        return
    for (s, t), (a, b), (_, name) in zip(pairwise(known), pairwise(x.values), pairwise(x.names), strict=True):
        least = a * s / t
        if _BELOW * least > b:
            yield Remark(
                x.row,
                "waits by packet size",
                "implausible",
                f"from {number(a)} to {b:.2f} at {name}: packets {t / s:.3g} times as large are one in "
                f"{t / s:.3g} as many, which alone would leave {number(round(least, 2))} or more; something "
                "else changed with the size, or the smaller figure was not counted",
            )


def grid(g: Grid) -> Iterator[Remark]:
    """One configuration ranks the places the other way round than all others do, without any dispersion to
    judge it by.
    """
    if g.dispersion or len(g.rows) < 3 or len(g.places) < 2:
        return
    for j, left in enumerate(g.places):
        for k in range(j + 1, len(g.places)):
            signs = [math.copysign(1, row[k] - row[j]) if row[k] != row[j] else 0 for row in g.values]
            for i, sign in enumerate(signs):
                others = signs[:i] + signs[i + 1 :]
                if sign and others and all(o == -sign for o in others):
                    low, high = sorted((g.values[i][j], g.values[i][k]))
                    yield Remark(
                        f"{g.row} {g.rows[i]}",
                        "rank inversion without dispersion",
                        "implausible",
                        f"{left} {number(g.values[i][j])} and {g.places[k]} {number(g.values[i][k])} "
                        f"{g.unit} are in the opposite order to all others ({count(len(others), 'row')}), "
                        f"{high / low:.1f} times apart, and single figures without a spread cannot "
                        "say whether that is real",
                    )


def ends(e: Ends) -> Iterator[Remark]:
    """Ends that are called simultaneous: the resolution of the claim, and age as its rival."""
    names = sorted(e.at, key=lambda n: e.at[n])
    known = [n for n in names if n in e.age_s]
    if len(known) >= 2:
        ages = [e.age_s[n] for n in known]
        span_age = max(ages) - min(ages)
        times = [e.at[n].timestamp() for n in known]
        span_time = max(times) - min(times)
        if span_age < 0.1 * max(ages) and span_age < span_time:
            yield Remark(
                e.row,
                "rival explanation",
                "implausible",
                f"the connections ({len(known)}) all ended at an age of {min(ages) / 3600:.2f} "
                f"to {max(ages) / 3600:.2f} h (count times cadence), closer in age than in time: an age "
                "limit explains these ends at least as well as a common event does",
            )
    for a, b in pairwise(names):
        gap = (e.at[b] - e.at[a]).total_seconds()
        if 0 < gap <= 10 * e.cadence_s:
            yield Remark(
                e.row,
                "resolution",
                "implausible",
                f"{a} and {b} ended {gap:g} s apart, which a cadence of {e.cadence_s:g} s and a "
                "client's timeout of some seconds resolve only to several seconds",
            )


def relations(document: Document) -> Iterator[Remark]:
    """Every law of figures together."""
    rows = {s.row: s for s in document.summaries}
    for one in document.steps:
        yield from steps(one)
        if one.of in rows:
            yield from tail_budget(one, rows[one.of])
    for c in document.claims:
        yield from claim(c)
    yield from thousandfold(document.printed)
    for x in document.ladders:
        yield from ladder(x)
        yield from packets(x)
        yield from packet_model(x)
        yield from encrypted(x)
    for g in document.grids:
        yield from grid(g)
    for e in document.ends:
        yield from ends(e)
