"""Which labs there are, and where: a file for each in the user's state, ``fathom/labs/ID.json``.

By it `list` names a lab that is in a `--directory`. One whose directory is gone may still cost money: the
file has what it takes to ask the cloud, as `down` does. All else of a lab is in its own journal.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fathometer.cloud.journal import LabPlace, all_usual
from fathometer.cloud.where import Where, both, known, must_be_asked
from fathometer.cloud.whole import write_whole
from fathometer.errors import FathometerError

_FORMAT: Final = 1
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError)
"""What reading an entry may raise."""


@dataclass(frozen=True)
class Entry:
    """A lab that was begun and not removed."""

    file: Path
    id: str
    lab: str
    directory: Path
    where: Where
    may_exist: bool
    """Whether its making was begun, so that something of it may be in the cloud."""

    @property
    def is_gone(self) -> bool:
        """Whether its directory is gone, or holds another lab or none. Raises `FathometerError` where the
        journal that lies there cannot be read.
        """
        return LabPlace(self.directory).id != self.id

    def forget(self) -> None:
        """Takes it out: nothing of the lab is left, or was ever made."""
        self.file.unlink(missing_ok=True)


def entries() -> tuple[list[Entry], list[Path]]:
    """All of them, and the files that cannot be read (or the directory that they are in)."""
    labs, unreadable = [], []
    try:
        files = sorted(file for file in _directory().iterdir() if file.suffix == ".json")
    except FileNotFoundError:
        return [], []
    except OSError:
        return [], [_directory()]
    for file in files:
        try:
            labs.append(_read(file))
        except FileNotFoundError:
            # Removed meanwhile.
            continue
        except _UNREADABLE:
            unreadable.append(file)
    return labs, unreadable


def real(directory: Path) -> Path:
    """The one path of a directory, however it is named, also of one that is gone: entries have that."""
    # `Path.resolve` raises errors where links go round in a circle.
    return Path(os.path.realpath(directory))


def of_directory(directory: Path, lab: str) -> Entry | None:
    """The entry of a lab that was begun there; of several, one of which something may be in the cloud."""
    wanted = real(directory), lab
    labs = [entry for entry in entries()[0] if (entry.directory, entry.lab) == wanted]
    return max(labs, key=lambda entry: entry.may_exist, default=None)


def file_of(place: LabPlace) -> Path:
    """Where a lab's entry is."""
    return _directory() / f"{place.id}.json"


def may_exist(place: LabPlace) -> bool:
    """Whether something of a lab may have been made. Its journal may be an older copy: its entry says it,
    too, and so does one that nobody can read.
    """
    if place.may_exist:
        return True
    try:
        entry = _entry(place)
    except FathometerError:
        return True
    return entry is not None and entry.may_exist


def where(place: LabPlace) -> Where:
    """Where a lab is, as its journal and its entry have it. Raises `FathometerError` where the entry cannot
    be read, and as `known` does.
    """
    entry = _entry(place)
    return known(place) if entry is None else both(entry.where, known(place))


def must_be_named(place: LabPlace, operation: str) -> None:
    """Raises `FathometerError` where the environment names another place than the lab's."""
    if may_exist(place):
        must_be_asked(where(place), operation)


def note(place: LabPlace, *, may_exist: bool) -> str | None:
    """Writes where a lab is. Tells why it cannot: a lab can be made and removed without it. What was written
    before is never taken back: a lab's journal may be an older copy.
    """
    file = file_of(place)
    try:
        before = _entry(place)
    except FathometerError as error:
        # What it says that the journal does not would be lost.
        return error.object
    try:
        place_of_it = where(place)
    except (FathometerError, ValueError, TypeError, OSError):
        # Settings that cannot be read, of which whoever needs them says more.
        place_of_it = before.where if before else Where(str((place.begun or {}).get("cloud")))
    may_exist = may_exist or place.may_exist or (before is not None and before.may_exist)
    wanted = {
        "format": _FORMAT,
        "id": place.id,
        "lab": (place.begun or {}).get("lab"),
        "directory": str(real(place.directory)),
        "may_exist": may_exist,
        "cloud": place_of_it.cloud,
        "owner": place_of_it.owner,
        "regions": list(place_of_it.regions),
        "tags": list(place_of_it.tags),
    }
    text = json.dumps(wanted, indent=1) + "\n"
    with contextlib.suppress(OSError, ValueError):
        if file.read_text(encoding="utf-8") == text:
            return None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, text)
    except OSError as error:
        return f"{file}: {error.strerror}"
    return None


def forget(place: LabPlace) -> None:
    """Takes a lab out that is about to be removed with its directory."""
    with contextlib.suppress(OSError):
        file_of(place).unlink(missing_ok=True)


def _entry(place: LabPlace) -> Entry | None:
    """A lab's; None: it has none. Raises `FathometerError` where it has one that cannot be read."""
    file = file_of(place)
    try:
        return _read(file)
    except FileNotFoundError:
        return None
    except _UNREADABLE:
        raise FathometerError(
            "find out where the lab is",
            f"{file} cannot be read",
            "look into it, and if a newer fathom wrote it, use that; once it is moved elsewhere, the lab's"
            " journal alone counts",
        ) from None


def _directory() -> Path:
    return all_usual().with_name("labs")


def _read(file: Path) -> Entry:
    value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if value["format"] != _FORMAT or not all(isinstance(value[k], str) for k in ("id", "lab", "directory")):
        raise ValueError(file)
    where = Where(str(value["cloud"]), value["owner"], tuple(value["regions"]), tuple(value["tags"]))
    directory = real(Path(value["directory"]))
    return Entry(file, value["id"], value["lab"], directory, where, bool(value["may_exist"]))
