"""Which labs there are, and where: a file for each in the user's state, ``fathom/labs/ID.json``.

By it `list` names a lab that is in a `--directory`. One whose directory is gone may still cost money: the
file has what it takes to ask the cloud, as `down` does. All else of a lab is in its own journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fathometer.cloud.journal import LabPlace, all_usual
from fathometer.cloud.where import Where, both, is_elsewhere, known, must_be_asked
from fathometer.errors import FathometerError
from fathometer.writing import replace

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
        files = sorted(file for file in directory().iterdir() if file.suffix == ".json")
    except FileNotFoundError:
        return [], []
    except OSError:
        return [], [directory()]
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


def of_name(where: Where, but: str) -> list[Entry]:
    """Entries of labs but one (its id) whose things may exist and have the same names in the same place. In
    which subscription, account or project one is may be unknown: then it counts as the same.
    """
    return [
        one
        for one in entries()[0]
        if one.id != but
        and one.may_exist
        and one.where.cloud == where.cloud
        and {*one.where.tags} & {*where.tags}
        and not is_elsewhere(one.where, where.owner)
    ]


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Nobody else of ours looks at the entries and then writes one meanwhile. Where they cannot be written,
    nobody is kept from anything.
    """
    try:
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(directory(), os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        # It waits for the other, and is the kernel's: whoever is killed lets go of it.
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def file_of(place: LabPlace) -> Path:
    """Where a lab's entry is."""
    return directory() / f"{place.id}.json"


def may_exist(place: LabPlace) -> bool:
    """Whether something of a lab may have been made. Its journal may be an older copy, or have lost its end:
    its entry says it, too, and so does one that nobody can read. Where it has none, its settings do, which
    are written directly before a making begins.
    """
    if place.may_exist:
        return True
    try:
        entry = _entry(place)
    except FathometerError:
        return True
    return place.has_settings if entry is None else entry.may_exist


def is_confirmed(place: LabPlace) -> bool:
    """Whether a lab has an entry, by which what its journal does not have can be told."""
    try:
        return _entry(place) is not None
    except FathometerError:
        return False


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
    begun = place.has_settings if before is None else before.may_exist
    may_exist = may_exist or place.may_exist or begun
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
        replace(file, text.encode(), sync=True)
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


def directory() -> Path:
    """Where the entries are."""
    return all_usual().with_name("labs")


def _read(file: Path) -> Entry:
    value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if value["format"] != _FORMAT or not all(isinstance(value[k], str) for k in ("id", "lab", "directory")):
        raise ValueError(file)
    where = Where(str(value["cloud"]), value["owner"], tuple(value["regions"]), tuple(value["tags"]))
    directory = real(Path(value["directory"]))
    return Entry(file, value["id"], value["lab"], directory, where, bool(value["may_exist"]))
