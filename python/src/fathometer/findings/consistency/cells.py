"""Cells and headings of tables as people write them: `~2,250 μs`, `+9.2%`, `2.1x`, `P95 (ms)`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathometer.dataset.notation import Notation

UNIT_WORDS = {
    "ns": "ns",
    "nsec": "ns",
    "nanoseconds": "ns",
    "us": "us",
    "μs": "us",
    "µs": "us",
    "usec": "us",
    "usecs": "us",
    "microseconds": "us",
    "ms": "ms",
    "msec": "ms",
    "milliseconds": "ms",
    "s": "s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "%": "%",
    "x": "x",
    "gbps": "gbps",
    "gbit/s": "gbps",
    "mbps": "mbps",
    "mbit/s": "mbps",
}
STATISTIC_WORDS = {
    "mean": "mean",
    "avg": "mean",
    "average": "mean",
    "min": "min",
    "minimum": "min",
    "max": "max",
    "maximum": "max",
    "median": "p50",
    "sd": "sd",
    "std": "sd",
    "stdev": "sd",
    "stddev": "sd",
    "sigma": "sd",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p999": "p99_9",
    "p99.9": "p99_9",
    "p99_9": "p99_9",
    "p9999": "p99_99",
    "p99.99": "p99_99",
    "p99_99": "p99_99",
    "50th": "p50",
    "90th": "p90",
    "95th": "p95",
    "99th": "p99",
    "99.9th": "p99_9",
}
COUNT_WORDS = {"count", "samples", "packets", "n", "iterations"}
SINGLE_WORDS = {
    "latency",
    "rtt",
    "delay",
    "round-trip",
    "roundtrip",
    "wait",
    "wait_time",
    "network_io",
    "throughput",
    "bandwidth",
    "bitrate",
}
"""What is measured, where a heading names no statistic of it."""

_FIGURE = re.compile(
    r"^[~≈<>]?\s*(?P<sign>[+\-−]?)(?P<digits>\d[\d,]*(?:\.\d+)?|\.\d+)\s*(?P<unit>[a-zA-Zµμ%/]+)?\s*[!.]?$"
)


_DIGITS = re.compile(r"[~≈<>]?\s*[+\-−]?(?P<digits>[\d.,]*\d[\d.,]*)\s*[a-zA-Zµμ%/]*\s*!?")


_SPACES = re.compile("(?<=[0-9])[ \u00a0\u2009\u202f'\u2019](?=[0-9]{3}(?![0-9]))")
"""Characters that separate thousands and are never a decimal sign."""


def digits(text: str) -> str:
    """The digits of a cell that holds a number, with commas and points; "" for all other text."""
    match = _DIGITS.fullmatch(_SPACES.sub("", text.strip().strip("*_`").strip()))
    return match["digits"].rstrip(".,") if match else ""


def in_notation(text: str, notation: Notation) -> str:
    """A cell whose number has only a decimal point; other text is unchanged."""
    number = digits(text)
    return _SPACES.sub("", text).replace(number, notation.plain(number), 1) if number else text


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number in a cell."""

    value: float
    text: str
    """Its digits as printed, without sign, separators and unit."""
    unit: str | None
    """None where the cell names none."""
    signed: bool
    """Whether a sign was printed."""

    @property
    def step(self) -> float:
        """The value of one unit in the last printed digit."""
        return 10.0 ** -len(self.text.partition(".")[2])


def cell(text: str) -> PrintedNumber | None:
    """Reads a cell; None where it is no number."""
    match = _FIGURE.match(text.strip().strip("*_`").strip())
    if not match:
        return None
    unit = (match["unit"] or "").lower()
    if unit and unit not in UNIT_WORDS:
        return None
    digits = match["digits"].replace(",", "")
    value = float(digits)
    if match["sign"] in {"-", "−"}:
        value = -value
    return PrintedNumber(value, digits, UNIT_WORDS.get(unit), bool(match["sign"]))


def words(heading: str) -> list[str]:
    """The words of a heading, in lower case."""
    return re.findall(r"[a-zµμ0-9][a-zµμ0-9./_%]*|%", heading.lower().replace("**", ""))


def statistic(heading: str) -> str | None:
    """The statistic that a heading names: `RTT (Mean)`, `95th Percentile Latency Microseconds`, `p99_us`."""
    # `p99_9_us` and `p99.9` before their first half, p99.
    if match := re.search(r"p(\d\d)[._](9+)(?!\d)", heading.lower()):
        return STATISTIC_WORDS.get(f"p{match[1]}.{match[2]}")
    for word in words(heading):
        for part in (word, *word.split("_")):
            if part in STATISTIC_WORDS:
                return STATISTIC_WORDS[part]
    return None


def unit(heading: str) -> str | None:
    """The unit that a heading names."""
    for word in words(heading):
        for part in (word, *word.split("_")[1:]):
            if part in UNIT_WORDS and part != "x":
                return UNIT_WORDS[part]
    return None


def single(heading: str) -> bool:
    """Whether a heading names what was measured and no statistic: `Latency (usec)`, `async_network_io_s`."""
    text = heading.lower()
    return statistic(heading) is None and any(word in text for word in SINGLE_WORDS)


def size(text: str) -> float | None:
    """The bytes that a name says: `4KB`, `8 KiB`, `512`; a thousand and 1,024 are not told apart in print."""
    match = re.fullmatch(r"([\d.,]+)\s*(b|bytes|k|kb|kib|m|mb|mib)?", text.strip().lower())
    if not match:
        return None
    try:
        value = float(match[1].replace(",", ""))
    except ValueError:
        return None
    return value * {"k": 1024.0, "m": 1024.0**2}.get((match[2] or "b")[0], 1.0)


def waits(heading: str) -> bool:
    """Whether a heading names time that somebody waited."""
    return any(word in heading.lower() for word in ("wait", "network_io"))


def is_count(heading: str) -> bool:
    """Whether a heading names a count of samples."""
    return any(w in COUNT_WORDS for w in words(heading)) and statistic(heading) is None
