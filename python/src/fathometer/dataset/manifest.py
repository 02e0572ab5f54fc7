"""Reading ``recording.json``."""

from __future__ import annotations

from typing import Any, Final

import fastjsonschema

from fathometer.dataset.format import FORMAT_VERSION, MANIFEST, manifest_validator, parse_utc
from fathometer.dataset.model import ClockAnchor, Manifest, Path
from fathometer.dataset.places import Place, read_at_most, size_of
from fathometer.errors import FathometerError
from fathometer.reading import parsed

MAX_BYTES: Final = 16 << 20
"""A larger manifest is not one of ours: 1,024 anchors and all host facts stay below 200 KiB."""

_KNOWN: Final = frozenset(
    (
        *("format_version", "id", "label", "path", "started_at", "ended_at"),
        *("tool", "probe", "host", "cloud", "reflector", "clock_anchors"),
        *("marks", "command"),
    )
)
OTHER_DIRECTORY: Final = (
    "name one that `fathom probe --record` wrote, or bring another tool's output in with `fathom import`"
)
_OPERATION: Final = "open recording"


def read_manifest(directory: Place) -> Manifest:
    """The manifest of the recording in a directory, validated; raises `FathometerError`."""
    path = directory / MANIFEST
    try:
        large = size_of(path) > MAX_BYTES
        text = b"" if large else read_at_most(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise FathometerError(
            _OPERATION,
            f"{directory} has no {MANIFEST}",
            OTHER_DIRECTORY,
        ) from None
    except OSError as error:
        raise FathometerError(
            _OPERATION, f"{path}: {error.strerror or error}", "check the path and its permissions"
        ) from None
    if large or len(text) > MAX_BYTES:
        raise _bad(path, f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        value = parsed(text)
    except ValueError as error:
        raise _bad(path, f"it is no JSON ({error})") from None
    # The version is looked at before anything else: a later format need not have the same fields.
    version = value.get("format_version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FathometerError(
            _OPERATION,
            f"{path} is of format version {version}, and this program knows up to {FORMAT_VERSION}",
            "install a newer fathometer",
        )
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FathometerError(
            _OPERATION,
            f"{path} names no format_version that ever was, so it is no recording of ours",
            "name another directory, or bring another tool's output in with `fathom import`",
        )
    try:
        manifest_validator()(value)
        return _manifest(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise _bad(path, error.message.replace("data.", "", 1)) from None
    except (ValueError, OverflowError) as error:
        raise _bad(path, str(error)) from None


def _bad(path: Place, reason: str) -> FathometerError:
    return FathometerError(
        _OPERATION, f"{path}: {reason}", "restore it from a copy; the samples beside it are untouched"
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _manifest(value: dict[str, Any]) -> Manifest:
    path = _object(value.get("path"))
    ended = value["ended_at"]
    cloud = value.get("cloud")
    return Manifest(
        id=value["id"],
        label=value["label"],
        path=Path(path.get("from"), path.get("to"), path.get("via"), _object(path.get("tags"))),
        started_ns=parse_utc(value["started_at"]),
        ended_ns=None if ended is None else parse_utc(ended),
        tool_version=value["tool"]["version"],
        tool_revision=value["tool"].get("revision"),
        probe=_object(value.get("probe")),
        host=_object(value.get("host")),
        cloud=cloud if isinstance(cloud, dict) else None,
        reflector=_object(value.get("reflector")),
        clock_anchors=tuple(
            ClockAnchor(a["mono_ns"], parse_utc(a["utc"]), a.get("stepped", False))
            for a in value.get("clock_anchors", ())
        ),
        said_marks=tuple(value.get("marks", ())),
        command=value.get("command"),
        extra={name: field for name, field in value.items() if name not in _KNOWN},
    )
