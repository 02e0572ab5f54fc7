"""A lab's directory, which only its owner can read, and the journal in it.

Each entry of the journal is the whole record of the lab. Its kind is the lab's state:

| kind | meaning |
|---|---|
| ``planned`` | nothing was made |
| ``made`` | its making began, so resources may exist; ``whole``: it also ended well |
| ``removed`` | the tool removed all that its state had; the cloud may still have more |

An entry is on disk before the step that it announces begins. So `down` finds every lab that may cost money.
The tool's own state, beside the lab's files, says which resources exist.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from fathometer import __version__
from fathometer.cloud import labs
from fathometer.cloud.left import Where
from fathometer.errors import FathometerError
from fathometer.study.journal import JOURNAL, Journal, read_journal
from fathometer.study.lock import LOCK

State = Literal["planned", "made", "removed"]
STATES: Final = ("planned", "made", "removed")
FORMAT: Final = 2
SETTINGS: Final = "lab.auto.tfvars.json"
"""The name makes OpenTofu and Terraform read it by themselves, also when they are called by hand."""
PROPOSAL: Final = "lab.proposal.tfvars.json"
"""The values of a plan, before the user agrees to it."""
STATE_FILE: Final = "terraform.tfstate"
ASIDE: Final = "errored.tfstate"
"""A state that the tool could not write to its place."""
KNOWN_HOSTS: Final = "known_hosts"
STUDY: Final = "study.toml"
_FILES: Final = "labs"


@dataclass(frozen=True)
class Record:
    """A lab as this program knows it. The tool's state has its resources."""

    state: State
    lab: str
    cloud: str
    root: str
    infra: str | None
    tool: str
    """The path of OpenTofu or Terraform."""
    where: Where
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values of its variables."""
    key: str | None = None
    """The file of the private key for SSH."""
    hours: str = "4h"
    """The time that the hosts are to run, as the user wrote it."""
    price: str = ""
    whole: bool = False
    output: str | None = None
    """The directory of the last study's recordings."""
    like: str | None = None
    """The study that the last study was like."""


def all_usual() -> Path:
    """The directory of all labs (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # "If an implementation encounters a relative path [...] it should consider the path invalid".
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local/state"
    return base / "fathom/cloud"


def usual(lab: str) -> Path:
    """A lab's directory where none is named, so that `down` finds it from any working directory."""
    return all_usual() / lab


def link_to(directory: Path, lab: str) -> Path:
    """The link by which `list` finds a lab outside of the usual place."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()
    return usual(f"{lab}@{digest[:8]}")


def private(file: Path) -> Path:
    """A new file that only its owner can read."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    return file


@dataclass(frozen=True)
class LabDirectory:
    """A lab's directory."""

    directory: Path

    def root(self, record: Record) -> Path:
        """The directory that the tool is called in. The tool's state is there, too."""
        return self.directory / _FILES / record.cloud / record.root

    def make(self) -> None:
        """Makes the directory; raises `FathometerError` where others could read it."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise self._unusable("it is not a directory that only its owner can read (chmod 700)")

    def read(self) -> Record | None:
        """The lab's record; None where no lab is. Raises `FathometerError`."""
        try:
            entries = read_journal(self.directory)
        except FathometerError as error:
            raise self._unreadable(error.object) from None
        if not entries:
            return None
        entry = next((e for e in reversed(entries) if e.get("kind") in STATES), {"format": 1})
        if (written := entry.get("format")) != FORMAT:
            what = f"has format {written}, and fathom {__version__} reads format {FORMAT}"
            raise self._unreadable(f"{self.directory / JOURNAL} {what}")
        try:
            return TypeAdapter(Record).validate_python({**entry, "state": entry["kind"]})
        except ValidationError as error:
            part = ".".join(str(step) for step in error.errors()[0]["loc"])
            raise self._unreadable(f"{self.directory / JOURNAL} has a wrong {part}") from None

    def write(self, record: Record) -> None:
        """Appends an entry, which is on disk when this returns."""
        entry = asdict(record)
        (self.directory / JOURNAL).touch(mode=0o600)
        journal = Journal(self.directory)
        try:
            journal.note(entry.pop("state"), format=FORMAT, fathom=__version__, **entry)
        finally:
            journal.close()

    def begin(self, root: labs.Root, tool: str) -> Record:
        """Begins a lab: copies its files, and writes its first entry."""
        others = {p.name for p in self.directory.iterdir()} - {LOCK, JOURNAL, _FILES}
        if others or any(self.directory.glob(f"{_FILES}/*/*/{STATE_FILE}*")):
            raise self._unusable(f"it has no journal, and holds {min(others, default=STATE_FILE)}")
        shutil.rmtree(self.directory / _FILES, ignore_errors=True)
        (self.directory / _FILES).mkdir(mode=0o700)
        labs.copy(root, self.directory / _FILES / root.cloud)
        if self.directory != usual(root.name):
            link = link_to(self.directory, root.name)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(self.directory)
        where = Where(root.cloud)
        record = Record("planned", root.name, root.cloud, root.directory.name, root.infra, tool, where)
        self.write(record)
        return record

    def write_values(self, record: Record, name: str) -> None:
        """Writes the values of the variables into a file that the tool reads."""
        text = json.dumps(dict(record.values), indent=1) + "\n"
        private(self.root(record) / name).write_text(text, encoding="utf-8")

    def remove(self, record: Record) -> None:
        """Removes the directory. It is renamed first, so that a crash leaves no half of a lab."""
        gone = self.directory.with_name(f".{self.directory.name}.removed")
        shutil.rmtree(gone, ignore_errors=True)
        link_to(self.directory, record.lab).unlink(missing_ok=True)
        self.directory.rename(gone)
        shutil.rmtree(gone)

    def _unusable(self, what: str) -> FathometerError:
        return FathometerError(
            "use a lab's directory", f"{self.directory}: {what}", "name another with --directory"
        )

    def _unreadable(self, what: str) -> FathometerError:
        files = [*self.directory.glob(f"{_FILES}/*/*/{STATE_FILE}"), Path("ROOT", STATE_FILE)]
        destroy = shlex.join(["terraform", f"-chdir={files[0].parent}", "destroy"])
        return FathometerError(
            "read the lab's journal",
            what,
            f"put back a copy of it, or remove the lab by hand: `{destroy}`, and then its directory",
        )
