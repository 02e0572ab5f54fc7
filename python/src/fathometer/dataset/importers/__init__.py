"""Other tools' outputs, brought into our form: recordings where there are samples, else summaries.

One importer a tool, in the registry below; each says what it put right in its notes.
"""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path
from typing import Final

from fathometer.dataset.importers import (
    echo_client,
    fping,
    generic,
    ping,
    printed,
    sockperf,
    structured,
    tables,
)
from fathometer.dataset.importers.base import Closing, File, Imported, Importer, Options, Series, Summary
from fathometer.dataset.importers.totals import REMEDY, difference
from fathometer.errors import ExitCode, FathometerError

REGISTRY: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        echo_client.IMPORTER,
        sockperf.IMPORTER,
        structured.IPERF3,
        structured.IRTT,
        structured.FLENT,
        structured.ETHR,
        printed.LATTE,
        printed.PSPING,
        printed.QPERF,
        tables.NETPERF,
        tables.NEPER,
        ping.IMPORTER,
        fping.IMPORTER,
        generic.IMPORTER,
    )
}
"""Every importer by name."""
_MOST_RESULTS: Final = 1_000
"""Recordings and summaries of one file."""
_LONGEST: Final = 1_000
"""Letters of a label, a mode, an address."""
_FOREIGN: Final = (
    *(KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError),
    *(RecursionError, MemoryError, csv.Error),
)
"""What a file that is not as its tool writes it may end in."""


def detect(path: str | PathLike[str]) -> Importer | None:
    """The importer that recognises the file, or None; raises `FathometerError` if several do."""
    return _known(File(Path(path)))


def _known(file: File) -> Importer | None:
    knowing = [i for i in REGISTRY.values() if i.detect(file)]
    if len(knowing) > 1:
        names = [i.name for i in knowing]
        raise FathometerError(
            "import",
            f"{file.path} could be the output of {' or '.join(names)}",
            f"name the tool that printed it: `fathom import {names[0]} FILE`",
            exit_code=ExitCode.USAGE,
        )
    return knowing[0] if knowing else None


def read(path: str | PathLike[str], options: Options | None = None, *, tool: str | None = None) -> Imported:
    """Reads another tool's output; raises `FathometerError` with what is wrong with it.

    Args:
        path: the file, packed by gzip or not.
        options: what the file does not say.
        tool: a name of the registry; recognised from the file unless given.
    """
    file = File(Path(path))
    settings = options or Options()
    if tool is not None and tool not in REGISTRY:
        raise FathometerError(
            "import",
            f"no tool is called {tool!r}",
            f"name one of {', '.join(REGISTRY)}",
            exit_code=ExitCode.USAGE,
        )
    if not file.data.strip():
        raise file.bad("it is empty", "run the tool again: some write nothing when their server goes away")
    if tool is None and settings.rtt is not None:
        tool = "csv"
    importer = REGISTRY[tool] if tool else _known(file)
    if importer is None:
        raise FathometerError(
            "import",
            f"{file.path} is not recognised as the output of {', '.join(n for n in REGISTRY if n != 'csv')}",
            "name the tool before it, or import a table: `fathom import csv FILE --time COLUMN --rtt COLUMN`",
        )
    try:
        imported = importer.read(file, settings)
        _check(imported)
        _compare_totals(file, imported)
    except _FOREIGN as error:
        raise file.bad(
            f"it is not shaped as {importer.name} writes it ({type(error).__name__}: {error})",
            "check that it is whole; if it is, tell us the tool's version",
        ) from error
    return imported


def _compare_totals(file: File, imported: Imported) -> None:
    """Raises `FathometerError` if the samples contradict the tool's own totals."""
    each: tuple[Series | Summary, ...] = (*imported.series, *imported.summaries)
    for number, one in enumerate(each, 1):
        differs = difference(one.totals)
        if differs is not None:
            raise file.bad(f"run {number}: {differs}" if len(each) > 1 else differs, REMEDY)


def _check(imported: Imported) -> None:
    """Raises `ValueError` for what no recording and no summary can hold: of an object of JSON an importer
    takes what stands there.
    """
    every: tuple[Series | Summary, ...] = (*imported.series, *imported.summaries)
    if len(every) > _MOST_RESULTS:
        raise ValueError(f"{len(every):,} results in one file, more than {_MOST_RESULTS:,}")
    for one in every:
        texts = (one.label, one.mode, *one.notes)
        if isinstance(one, Series):
            texts += (one.reflector,)
            _whole("interval", one.interval_ns, 1 << 63)
        else:
            texts += one.cannot
            _whole("count", one.count, 1 << 63)
            for name, value in one.statistics.items():
                _whole(name, value, 1 << 63)
            for value in (n for point in one.series for n in point):
                _whole("a value of its series", value, 1 << 63)
            _whole("retransmits", one.extra.get("retransmits"), 1 << 63)
            texts += tuple(one.extra[n] for n in ("at", "statistic") if one.extra.get(n) is not None)
        _whole("size", one.size, 1 << 32)
        for text in texts:
            if not isinstance(text, str) or len(text) > _LONGEST:
                raise ValueError(f"{str(text)[:40]!r} is no word or sentence")


def _whole(what: str, value: object, most: int) -> None:
    """None, or a whole number that is neither negative nor too large."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most):
        raise ValueError(f"{what} is {str(value)[:40] if not isinstance(value, int) else 'out of range'}")


__all__ = [
    "REGISTRY",
    "Closing",
    "File",
    "Imported",
    "Importer",
    "Options",
    "Series",
    "Summary",
    "detect",
    "read",
]
