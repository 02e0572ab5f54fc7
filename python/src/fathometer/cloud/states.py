"""What the file of a lab's state says, without the tool that wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fathometer.cloud.tool import trial
from fathometer.errors import FathometerError

TORN: Final = "is torn"
GONE: Final = "is not there"
EMPTY: Final = "is empty"
_ENCRYPTED: Final = "encrypted_data"
"""What OpenTofu has in an encrypted state, beside its lineage."""


def broken(state: Path, down: str) -> str | None:
    """Why nobody can read a state; None: it can be read. `down` removes its lab."""
    try:
        text = state.read_bytes()
    except FileNotFoundError:
        return GONE
    except OSError as error:
        raise unreadable(state, error, down) from None
    return TORN if document_in(text) is None else None


def document_in(text: str | bytes) -> Mapping[str, Any] | None:
    """The object that a state is; None: it is torn, or something else, of which the tools say that its format
    is none of theirs.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, Mapping):
        return None
    version, things = document.get("version"), document.get("resources")
    is_state = type(version) is int and (things is None or isinstance(things, list))
    return document if is_state or _ENCRYPTED in document else None


def unreadable(state: Path, error: OSError, down: str) -> FathometerError:
    """The error for a state that the disk, or the file's rights, forbid to look at."""
    return FathometerError(
        "read the lab's state",
        f"{state}: {error.strerror}",
        f"see that it can be read; once it is moved elsewhere, {down} asks the cloud",
    )


def is_encrypted(text: str | bytes) -> bool:
    """Whether OpenTofu encrypted a state: what it names only the tool can tell, by its key."""
    document = document_in(text)
    return document is not None and _ENCRYPTED in document


def named_by(state: Path, down: str) -> int | None:
    """How many things a state names, without the tool; None: it is torn."""
    if what := broken(state, down):
        return None if what == TORN else 0
    return named_in(state.read_bytes())


def named_in(text: str | bytes) -> int | None:
    """The same of a state's text. One that is encrypted names none, as far as anybody can tell here."""
    document = document_in(text)
    if document is None:
        return None
    things = document.get("resources") or ()
    # What a lab only reads of a cloud is nobody's to remove.
    return len([one for one in things if not isinstance(one, Mapping) or one.get("mode") != "data"])


def write_problem(aside: Path, state: Path) -> str | None:
    """Why a state cannot be written in the place of another; None: it can."""
    try:
        if state.exists():
            state.open("r+b").close()
        # The tool keeps a copy of what was there before.
        problem = trial(aside, aside.read_bytes() * 2)
    except OSError as error:
        problem = error
    return None if problem is None else f"{problem.filename}: {problem.strerror}"
