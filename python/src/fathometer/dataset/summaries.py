"""Reading ``summary.json``: what `fathom import` makes of a tool that gives figures and no samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import fastjsonschema

from fathometer.dataset.format import MANIFEST, summary_validator
from fathometer.dataset.manifest import MAX_BYTES
from fathometer.dataset.places import Place, RemotePath, place_of, read_at_most, walk
from fathometer.errors import FathometerError
from fathometer.reading import parsed

SUMMARY: Final = "summary.json"
FORMAT: Final = 1
_OPERATION: Final = "open summary"


@dataclass(frozen=True, slots=True, eq=False)
class OpenedSummary:
    """One run of another tool, as its figures."""

    directory: Place
    label: str
    mode: str
    size: int | None
    """Payload bytes each way; None: the tool does not say."""
    count: int | None
    """Values behind the figures; None: the tool does not say."""
    figures_ns: Mapping[str, int]
    """``min``, ``mean``, ``stddev``, ``p50`` ... of the round trip; only those that the tool gives."""
    cannot: tuple[str, ...]
    """What it cannot support, each a sentence."""
    tool: str
    file: str
    notes: tuple[str, ...]
    """What was put right on import."""
    throughput: Mapping[str, int]
    """``sent_bits_per_s``, ``received_bits_per_s``, ``retransmits``; empty: the tool measures none."""


def open_summaries(
    paths: Iterable[str | PathLike[str] | RemotePath],
    *,
    on_error: Callable[[FathometerError], None] | None = None,
) -> tuple[OpenedSummary, ...]:
    """Opens the summaries in trees of recordings and summaries, sorted by path; none is no error.

    Args:
        paths: directories.
        on_error: told of each summary that cannot be read, which is then left out. Without it the first such
            one is raised.
    """
    summaries: dict[Place, OpenedSummary] = {}
    for directory in (d for path in paths for d in _summaries_in(place_of(path))):
        try:
            summaries.setdefault(directory.resolve(), open_summary(directory))
        except FathometerError as error:
            if on_error is None:
                raise
            on_error(error)
    return tuple(summaries.values())


def _summaries_in(path: Place) -> Iterator[Place]:
    for directory, below, files in walk(path):
        # A recording may have anything beside it; what is in its directory is its own.
        if MANIFEST in files:
            below.clear()
        elif SUMMARY in files:
            yield directory


def open_summary(directory: str | PathLike[str] | RemotePath) -> OpenedSummary:
    """Reads the ``summary.json`` of one directory; raises `FathometerError`."""
    place = place_of(directory)
    path = place / SUMMARY
    try:
        value: Any = parsed(read_at_most(path, MAX_BYTES))
    except OSError as error:
        raise FathometerError(_OPERATION, f"{path}: {error.strerror or error}", "check the path") from None
    except ValueError as error:
        raise _bad(path, f"it is no JSON ({error})") from None
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise FathometerError(
            _OPERATION,
            f"{path} is of format {version}, and this program knows up to {FORMAT}",
            "install a newer fathometer",
        )
    try:
        summary_validator()(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise _bad(path, error.message.replace("data.", "", 1)) from None
    imported = value["imported"]
    figures = {name: ns for name, ns in value["rtt_ns"].items() if name != "count" and ns is not None}
    return OpenedSummary(
        place,
        value["label"],
        value["mode"],
        value["size"],
        value["rtt_ns"]["count"],
        figures,
        tuple(value["cannot"]),
        imported["tool"],
        imported["file"],
        tuple(imported["notes"]),
        value.get("throughput") or {},
    )


def _bad(path: Place, reason: str) -> FathometerError:
    return FathometerError(_OPERATION, f"{path}: {reason}", "import the tool's output again")
