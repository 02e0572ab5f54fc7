"""The recording format, versions 1 and 2, as ``schema/`` describes it: columns, flags, validators, times.

The JSON files in ``dataset/schema`` are copies of those in the repository's ``schema/``, so that they travel
in the wheel; a test holds the copies against them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntFlag
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

import pyarrow as pa

FORMAT_VERSION: Final = 2
"""The newest that is read. Imported runs are written in version 1, which every program knows."""
MANIFEST: Final = "recording.json"
EVENTS: Final = "events.jsonl"
LOCK: Final = ".lock"
PROGRESS: Final = ".progress"

_SEGMENT = re.compile(r"samples-(\d{5,})\.(parquet|arrows)\Z")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,}))?([Zz]|[+-]\d\d:\d\d)\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Flags(IntFlag):
    """What is said of one sample; the bits of the column ``flags``."""

    FIRST_ON_CONNECTION = 1
    WARM_UP = 2
    ANSWERED_LATE = 4
    UNANSWERED = 8
    OVERLAPS_LOCAL_PAUSE = 16
    OVERLAPS_REMOTE_PAUSE = 32
    UNDER_LOAD = 64
    CORRUPTED = 128


def _read(name: str) -> dict[str, Any]:
    text = resources.files("fathometer.dataset").joinpath("schema", name).read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


@cache
def arrow_schema() -> pa.Schema:
    """The columns of a sample, in order."""
    return pa.schema([_field(c) for c in _read("samples.json")["columns"]])


@cache
def closed_schema() -> pa.Schema:
    """The columns in the file of a closed segment, in order: see `layout`."""
    closed = _read("samples.json")["closed"]
    return pa.schema([arrow_schema().field(c) if isinstance(c, str) else _field(c) for c in closed])


def _field(column: dict[str, Any]) -> pa.Field:
    return pa.field(column["name"], getattr(pa, column["type"])(), column["nullable"])


@cache
def queries_schema() -> pa.Schema:
    """The columns of a file of queries, in order."""
    return pa.schema([_field(c) for c in _read("queries.json")["columns"]])


@cache
def manifest_validator() -> Callable[[Any], Any]:
    """Checks a manifest; raises ``fastjsonschema.JsonSchemaValueException``."""
    return _compile("manifest.schema.json")


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    """The event schema's rules for each kind, without the common rules."""
    branches = _read("event.schema.json")["allOf"]
    return {branch["if"]["properties"]["kind"]["const"]: branch["then"] for branch in branches}


def event_validator(kind: str) -> Callable[[Any], Any]:
    """Checks one event of a kind; raises ``fastjsonschema.JsonSchemaValueException``. The whole schema tests
    each event against each of fifty kinds, which took three quarters of the time of reading events.
    """
    return _event_validator(kind if kind in _shapes() else None)


@cache
def _event_validator(kind: str | None) -> Callable[[Any], Any]:
    schema = _read("event.schema.json")
    return _compiled({**schema, "allOf": [] if kind is None else [_shapes()[kind]]})


@cache
def summary_validator() -> Callable[[Any], Any]:
    """Checks an imported summary; raises ``fastjsonschema.JsonSchemaValueException``."""
    return _compile("imported-summary.schema.json")


def _compile(name: str) -> Callable[[Any], Any]:
    return _compiled(_read(name))


def _compiled(schema: dict[str, Any]) -> Callable[[Any], Any]:
    import fastjsonschema  # only who opens a recording pays for it

    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema, use_default=False)
    return compiled


def segment_ordinal(name: str, kind: str) -> int | None:
    """The number in a segment's file name; None if it is no segment of this kind (``parquet``,
    ``arrows``).
    """
    match = _SEGMENT.match(name)
    return int(match[1]) if match and match[2] == kind else None


def segment_name(ordinal: int, kind: str) -> str:
    """The file name of a segment."""
    return f"samples-{ordinal:05}.{kind}"


def parse_utc(text: str) -> int:
    """An RFC 3339 time in ns since the Unix epoch, exact; raises ``ValueError``."""
    match = _TIME.match(text)
    if not match:
        raise ValueError(f"{text!r} is no RFC 3339 time")
    fraction = int((match[2] or "0").ljust(9, "0")[:9])
    return _second(match[1], match[3]) * 1_000_000_000 + fraction


@lru_cache(maxsize=1_024)
def _second(text: str, zone: str) -> int:
    """Seconds since the Unix epoch, cached because many events share a second."""
    whole = datetime.fromisoformat(text.replace(" ", "T") + zone.upper().replace("Z", "+00:00"))
    since = whole - _EPOCH
    return since.days * 86_400 + since.seconds


def format_utc(ns: int) -> str:
    """Ns since the Unix epoch as RFC 3339 in UTC, as many digits as there are."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"
