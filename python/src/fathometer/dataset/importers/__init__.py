"""Other tools' outputs, brought into our form: recordings where there are samples, else summaries.

One importer a tool, in the registry below; each says what it put right in its notes.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fathometer.dataset.importers import echo_client, generic, ping, printed, sockperf, structured, tables
from fathometer.dataset.importers.base import Closing, File, Imported, Importer, Options, Series, Summary
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
        generic.IMPORTER,
    )
}
"""Every importer by name, in the order of detection."""


def detect(path: str | PathLike[str]) -> Importer | None:
    """The first importer that knows the file's output; None if none does."""
    file = File(Path(path))
    return next((i for i in REGISTRY.values() if i.detect(file)), None)


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
    importer = REGISTRY[tool] if tool else next((i for i in REGISTRY.values() if i.detect(file)), None)
    if importer is None:
        raise FathometerError(
            "import",
            f"{file.path} is not recognised as the output of {', '.join(n for n in REGISTRY if n != 'csv')}",
            "name the tool before it, or import a table: `fathom import csv FILE --time COLUMN --rtt COLUMN`",
        )
    try:
        return importer.read(file, settings)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        raise FathometerError(
            "import",
            f"{file.path}: it is not shaped as {importer.name} writes it ({type(error).__name__}: {error})",
            "check that it is whole; if it is, tell us the tool's version",
        ) from error


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
