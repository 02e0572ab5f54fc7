"""What the file of a lab's state says, without the tool that wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fathometer.cloud.tool import trial
from fathometer.errors import FathometerError

TORN: Final = "is torn"
GONE: Final = "is not there"
EMPTY: Final = "is empty"


def broken(state: Path, down: str) -> str | None:
    """Why nobody can read a state; None: it can be read. `down` removes its lab."""
    try:
        json.loads(state.read_bytes())
    except FileNotFoundError:
        return GONE
    except ValueError:
        return TORN
    except OSError as error:
        raise FathometerError(
            "read the lab's state",
            f"{state}: {error.strerror}",
            f"see that it can be read; once it is moved elsewhere, {down} asks the cloud",
        ) from None
    return None


def named_by(state: Path, down: str) -> int | None:
    """How many things a state names, without the tool; None: it is torn."""
    if what := broken(state, down):
        return None if what == TORN else 0
    document = json.loads(state.read_bytes())
    things = document.get("resources") if isinstance(document, Mapping) else document
    if not isinstance(things, list):
        return 0
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
