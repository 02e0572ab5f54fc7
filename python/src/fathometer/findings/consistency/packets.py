"""Waits by the size of packets (SQL Server's `ASYNC_NETWORK_IO`), held against what a model of them can give:
a time for each packet, and what the size does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fathometer.findings.consistency.cells import size, waits
from fathometer.findings.consistency.model import Ladder, Remark, number

_OFF: Final = 0.1
"""Of the largest figure: single figures without a spread are no nearer to any model."""
ENCRYPTED: Final = 16_383
"""Bytes of a packet at most where the session is encrypted: "When you're using encryption, the maximum packet
size is 16,383 bytes" (SQL Server, "Configure the network packet size"), a record of TLS.
"""
_SECONDS: Final = re.compile(r"(?:\((ms|s)\)|_(ms|s))\s*\Z")
_FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class Fit:
    """`apart + each * smallest / size`, both at least 0, nearest by the sum of squares."""

    apart: float
    """What the size does not change."""
    each: float
    """What is waited for packets at the smallest size."""
    smallest: float

    def at(self, of: float) -> float:
        """At packets of so many bytes."""
        return self.apart + self.each * self.smallest / of

    def off(self, sizes: Sequence[float], values: Sequence[float]) -> float:
        """How far from these at most."""
        return max(abs(self.at(s) - v) for s, v in zip(sizes, values, strict=True))


def fit(sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """Of two sizes or more, the smallest first."""
    x = [sizes[0] / s for s in sizes]
    n, sx, sy = len(x), sum(x), sum(values)
    sxx, sxy = sum(a * a for a in x), sum(a * b for a, b in zip(x, values, strict=True))
    each = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    if each < 0:
        return Fit(sy / n, 0.0, sizes[0])
    if (apart := (sy - each * sx) / n) < 0:
        return Fit(0.0, sxy / sxx, sizes[0])
    return Fit(apart, each, sizes[0])


def _sizes(x: Ladder) -> list[float]:
    """Of waits, in bytes, rising; else empty."""
    sizes = [s for name in x.names if (s := size(name)) is not None]
    fits = waits(x.row) and len(sizes) == len(x.names) and sorted(set(sizes)) == sizes
    return sizes if fits else []


def packet_model(x: Ladder) -> Iterator[Remark]:
    """What a time for each packet would have to be, and how far it is from the figures."""
    sizes = _sizes(x)
    if len(sizes) < _FEWEST or min(x.values) < 0 or max(x.values) == 0:
        return
    law = "a time for each packet"
    whole = fit(sizes, x.values)
    if whole.off(sizes, x.values) <= _OFF * max(x.values):
        told = f"{_words(x, whole)} comes within {_short(whole.off(sizes, x.values))} of all{_each(x, whole)}"
        yield Remark(x.row, law, "ok", told)
        return
    figures = ", ".join(_short(whole.at(s)) for s in sizes)
    told = (
        f"the nearest that a time for each packet comes is {_words(x, whole)}: {figures}, "
        f"up to {_short(whole.off(sizes, x.values))} off"
    )
    if len(sizes) > _FEWEST:
        rest = fit(sizes[:-1], x.values[:-1])
        off = rest.off(sizes[:-1], x.values[:-1])
        if off <= _OFF * max(x.values):
            told += (
                f"; without {x.names[-1]} it is {_words(x, rest)}, at most {_short(off)} off, which would "
                f"leave {_short(rest.at(sizes[-1]))} at {x.names[-1]} and not {x.values[-1]:.2f}"
                f"{_each(x, rest)}"
            )
    yield Remark(x.row, law, "implausible", told)


def _short(value: float) -> str:
    return f"{value:.2f}"


def _words(x: Ladder, of: Fit) -> str:
    return (
        f"{_short(of.each)} for the packets of {x.names[0]}, half of it at twice the size, "
        f"and {_short(of.apart)} besides"
    )


def _each(x: Ladder, of: Fit) -> str:
    """How many packets that is, where the unit is known."""
    unit = _SECONDS.search(x.row)
    if unit is None or of.each <= 0:
        return ""
    packets = of.each * (1e3 if "s" in (unit[1], unit[2]) else 1.0)
    mebibytes = packets * of.smallest / 1024**2
    return f" (at a round trip of 1 ms for each: {packets:,.0f} packets, {mebibytes:,.3g} MiB of answers)"


def encrypted(x: Ladder) -> Iterator[Remark]:
    """Sizes that are the same one where the session is encrypted, and figures that differ."""
    sizes = _sizes(x)
    if "network_io" not in x.row.lower():
        return
    for (s, t), (a, b), (one, other) in zip(
        pairwise(sizes), pairwise(x.values), pairwise(x.names), strict=True
    ):
        if s >= ENCRYPTED and abs(a - b) > _OFF * max(a, b):
            yield Remark(
                x.row,
                "packets under encryption",
                "implausible",
                f"{number(a)} at {one} and {b:.2f} at {other}: where the session is encrypted, as today's "
                f"clients ask by default, SQL Server grants {ENCRYPTED:,} bytes at most: both are the same "
                f"packets; {other} ({t:,.0f} bytes) is to be had without it alone",
            )
