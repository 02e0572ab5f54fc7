"""A lab's directory and journal: JSON lines, written before and after each step, so that the same command
goes on after any crash.

| kind | fields |
|---|---|
| ``cloud.begun`` | ``format``, ``fathom`` (its version), ``id``, ``lab``, ``tool`` (its path), ``cloud``, |
| | ``root``, ``infra`` |
| ``tool.named`` | ``tool``: another program, from then on |
| ``planned`` | ``names`` (of variables; never their values), ``key``, ``hours``: `up` begins with them |
| ``settings`` | ``names``, ``expires``, ``key`` (the private one's file): it is about to be made with them |
| ``init.started``, ``init.done``, ``plan.started``, ``plan.done`` | |
| ``where`` | ``owner`` (subscription, account or project), ``regions``, ``tag`` |
| ``approved`` | ``addresses`` (to be made), ``tag``, ``hours``, ``low``, ``high`` ($ an hour), |
| | ``unknown`` (kinds without a price), ``number_unknown`` (things of these kinds) |
| ``apply.started``, ``apply.done``, ``apply.failed`` | ``reason``, ``code`` (a signal's: below 0) |
| ``things.seen`` | the state had something after that, for the first time |
| ``things.unread`` | whether it had could not be found out |
| ``lineage.noted`` | ``lineage``: by which the tools tell this lab's state from others, after a making |
| ``lineage.void`` | a state of another lineage is about to be begun |
| ``keys.started``, ``keys.taken`` | ``addresses`` |
| ``keys.void`` | hosts are about to be made, or made anew, whose keys nobody has seen |
| ``hosts.ended`` | ``at``: their end has passed, and they are about to get another |
| ``hosts.answered`` | after that they all answered to SSH |
| ``outputs.changed`` | what `run` reads of the lab is about to change: it makes its study anew |
| ``push.started``, ``push.done``, ``push.failed`` | ``reason``; a state that the tool set aside |
| ``study.started``, ``study.done``, ``study.failed`` | ``output``, ``file``, ``like``; ``reason`` |
| ``report.agreed`` | ``page``, ``sha256``: somebody agreed that the report replaces what lies there |
| ``report.written`` | ``page``, ``sha256``: this lab's report, which the next one replaces unasked |
| ``destroy.started``, ``destroy.done``, ``destroy.failed`` | ``reason`` |
| ``state.lost`` | ``reason``, ``sha256`` of the state that is not trusted (None: it is not there) |
| ``state.found`` | one that can be read is there again |
| ``left.started``, ``left.looked`` | ``left``: how many things |

What a lab consists of is in the state of OpenTofu or Terraform, and not here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fathometer import __version__
from fathometer.clean import cleaned
from fathometer.cloud import labs
from fathometer.errors import FathometerError
from fathometer.study.journal import JOURNAL, Journal, read_journal
from fathometer.study.lock import LOCK
from fathometer.writing import replace

_FORMAT: Final = 1
FILES: Final = "labs"
_SETTINGS: Final = "lab.auto.tfvars.json"
"""The name makes OpenTofu and Terraform read it by themselves."""
_COPY: Final = "settings.json"
"""The same once more, where nobody who tidies up in the tool's directory finds it."""
PROPOSAL: Final = "lab.proposal.tfvars.json"
"""What a plan is made with. The tool reads it where it is told to, and nowhere else."""
_PLANNED: Final = "lab.planned.tfvars.json"
"""A proposal that could be planned, of a lab of which nothing is made: it holds for `up`."""
LOGS: Final = "logs"
KNOWN_HOSTS: Final = "known_hosts"
STATE: Final = "terraform.tfstate"
ASIDE: Final = "errored.tfstate"
STUDY: Final = "study.toml"
OWN_FILES: Final = frozenset(
    {JOURNAL, LOCK, FILES, f"{FILES}.new", LOGS, STUDY, "study.new", _COPY}
    | {KNOWN_HOSTS, f"{KNOWN_HOSTS}.new", f"{KNOWN_HOSTS}.look"}
)
"""All that a lab has in its directory."""


def usual(lab: str) -> Path:
    """Where a lab's directory is, if it is not named: `down` finds it from wherever it is called."""
    return all_usual() / lab


def all_usual() -> Path:
    """Where they all are (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # "If an implementation encounters a relative path [...] it should consider the path invalid".
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local/state"
    return base / "fathom/cloud"


class LabPlace:
    """A lab's directory. `begun` says whether there is something in it; `begin` begins it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        try:
            self.entries = read_journal(self.directory) if _is_directory(self.directory) else []
        except OSError as error:
            raise FathometerError(
                "read the lab's journal",
                f"{self.directory}: {error.strerror}",
                "see that its disk is there, and that you may look into it",
            ) from None
        except FathometerError as error:
            raise FathometerError(
                "read the lab's journal",
                error.object,
                "put back a copy of it, if you have one. Without it what the lab consists of is in"
                f" {self.directory / FILES}: call `tofu destroy` or `terraform destroy` where"
                " terraform.tfstate is in there, then move the whole directory elsewhere",
            ) from None
        self._must_be_known()

    def _must_be_known(self) -> None:
        """Raises `FathometerError` where another version's journal may mean by its entries what we do not."""
        begun = self.begun or {}
        written = begun.get("format", _FORMAT)
        if written == _FORMAT:
            return
        by = f" of fathom {cleaned(str(begun['fathom']))}" if "fathom" in begun else ""
        raise FathometerError(
            "read the lab's journal",
            f"{self.directory / JOURNAL} has format {cleaned(str(written))}{by}, and this is fathom"
            f" {__version__}, which knows format {_FORMAT}",
            "use the fathom that began the lab, or a newer one; the lab is as it was, and may go on costing",
        )

    @property
    def begun(self) -> Mapping[str, Any] | None:
        """How the lab began; None: it has not."""
        return next((e for e in self.entries if e.get("kind") == "cloud.begun"), None)

    @property
    def program(self) -> str:
        """The OpenTofu or Terraform that was named last."""
        return str((self.last("cloud.begun", "tool.named") or {})["tool"])

    def make(self) -> None:
        """Makes the directory, which is its owner's alone; raises `FathometerError`."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.directory.lstat()
        except OSError as error:
            raise self._wrong(f"{error.strerror}") from None
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise self._wrong("it is not a directory that its owner alone can look into (chmod 700)")

    def _wrong(self, what: str) -> FathometerError:
        return FathometerError(
            "use a lab's directory", f"{self.directory}: {what}", "name another with --directory"
        )

    def begin(self, root: labs.Root, tool: str) -> None:
        """Notes that a lab begins here, and takes its files."""
        try:
            self._begin(root, tool)
        except OSError as error:
            # Many files that cannot be copied are one error, which has no words of its own.
            what = error.strerror or (error.args[0][0][2] if error.args and error.args[0] else str(error))
            raise FathometerError(
                "begin the lab",
                f"{self.directory}: {what}",
                "see to room and rights there, or name another with --directory; then call it again",
            ) from None

    def _begin(self, root: labs.Root, tool: str) -> None:
        if self.begun is None:
            others = [entry.name for entry in self.directory.iterdir() if entry.name != LOCK]
            if states := self.states:
                raise self._wrong(f"its journal is gone, and {states[0]} is there, which `down` looks at")
            if others and others != [JOURNAL]:
                raise self._wrong("it holds something else")
            self.note(
                "cloud.begun",
                format=_FORMAT,
                fathom=__version__,
                id=uuid.uuid4().hex,
                lab=root.name,
                tool=tool,
                cloud=root.cloud,
                root=root.directory.name,
                infra=root.infra,
            )
        elif self.begun.get("lab") != root.name:
            raise self._wrong(f"it holds the lab {self.begun.get('lab')}")
        if not (self.directory / FILES).exists():
            new = self.directory / f"{FILES}.new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            labs.copy(root, new / root.cloud)
            new.rename(self.directory / FILES)

    def note(self, kind: str, **fields: object) -> None:
        """Writes an entry, on disk when this returns."""
        try:
            journal = Journal(self.directory)
            try:
                journal.note(kind, **fields)
            finally:
                journal.close()
        except FathometerError as error:
            raise FathometerError(
                "write the lab's journal",
                error.object,
                "make room there; then the same command, or `fathom cloud down`, goes on",
            ) from None
        self.entries.append({"kind": kind, **fields})

    def last(self, *kinds: str) -> Mapping[str, Any] | None:
        """The last entry of one of these kinds."""
        return next((e for e in reversed(self.entries) if e.get("kind") in kinds), None)

    def has(self, kind: str) -> bool:
        """Whether there is an entry of a kind."""
        return self.last(kind) is not None

    @property
    def id(self) -> str:
        """Marks the processes that work for this lab."""
        return str((self.begun or {}).get("id", ""))

    @property
    def lab(self) -> str:
        """Which lab it is."""
        return str((self.begun or {}).get("lab", ""))

    @property
    def is_made(self) -> bool:
        """Whether the last word on it is that it was made."""
        last = self.last("apply.started", "apply.done", "apply.failed", "destroy.started", "destroy.done")
        return last is not None and last["kind"] == "apply.done"

    @property
    def root(self) -> Path:
        """Where the tool is called: the copy of the lab's root. Its state is there, too."""
        begun = self.begun or {}
        return self.directory / FILES / str(begun.get("cloud")) / str(begun.get("root"))

    @property
    def state_file(self) -> Path:
        """Where the tool keeps what there is. It writes it in place: a full disk tears it."""
        return self.root / STATE

    @property
    def aside(self) -> Path:
        """Where the tool leaves a state that it could not write where it belongs."""
        return self.root / ASIDE

    @property
    def states(self) -> list[Path]:
        """Every state that lies in the directory, also where no journal says which root it is of."""
        return [f for name in (STATE, ASIDE) for f in sorted(self.directory.glob(f"{FILES}/*/*/{name}"))]

    @property
    def may_exist(self) -> bool:
        """Whether something of the lab may have been made: a journal that somebody took a line out of is no
        proof that nothing was.
        """
        return self.has("apply.started") or self.state_file.exists() or self.aside.exists()

    @property
    def begun_in_vain(self) -> bool:
        """Whether its making ended in order each time, and left nothing in the state: one that is empty is as
        the tool left it. `down` notes what is in it (`things.seen`) before it removes that: whoever made it
        may have been killed before.
        """
        last = self.last("apply.started", "apply.done", "apply.failed")
        in_order = last is not None and last["kind"] == "apply.failed" and int(last.get("code", -1)) >= 0
        return in_order and self.state_file.exists() and self.last("things.seen", "things.unread") is None

    @property
    def is_state_lost(self) -> bool:
        """Whether the state's last word was that nobody can trust it."""
        last = self.last("state.lost", "state.found")
        return last is not None and last["kind"] == "state.lost"

    @property
    def logs(self) -> Path:
        """Of what the tool said."""
        path = self.directory / LOGS
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FathometerError(
                "work on a lab",
                f"{path}: {error.strerror}",
                f"see to room and rights on the disk of {self.directory}, then call it again",
            ) from None
        return path

    @property
    def settings(self) -> dict[str, Any]:
        """The variables' values that its making last began with: `down` removes it by them."""
        file = self.settings_file
        return _values(file if file.exists() else self.directory / _COPY)

    @property
    def settings_file(self) -> Path:
        """Where the tool reads them."""
        return self.root / _SETTINGS

    @property
    def has_settings(self) -> bool:
        """Whether there are such values."""
        return self.settings_file.exists() or (self.directory / _COPY).exists()

    def restore_settings(self) -> bool:
        """Writes them again where the tool's file is gone or torn, and tells whether it did. Of one that is
        whole it keeps the copy: an earlier version made none.
        """
        copy = self.directory / _COPY
        if (text := _object(self.settings_file)) is not None:
            if text != _object(copy):
                # Without it the lab is as well off as it was.
                with contextlib.suppress(OSError):
                    replace(copy, text.encode(), sync=True)
            return False
        if _object(copy) is None or not self.root.is_dir():
            return False
        self._write(self.settings_file, _values(copy))
        return True

    @property
    def planned(self) -> dict[str, Any]:
        """The values that the last `plan` of a lab of which nothing is made was called with."""
        return _values(self.root / _PLANNED)

    def set(self, values: Mapping[str, Any]) -> None:
        """Writes the variables' values, all of them or none. Only who is about to make it with them may."""
        self._write(self.directory / _COPY, values)
        self._write(self.settings_file, values)

    def propose(self, values: Mapping[str, Any]) -> None:
        """Writes the values that a plan is to be made with; the lab's own stay as they are."""
        self._write(self.root / PROPOSAL, values)

    def keep_proposal(self) -> None:
        """Makes the proposal what the next `up` begins with."""
        (self.root / PROPOSAL).rename(self.root / _PLANNED)

    def _write(self, file: Path, values: Mapping[str, Any]) -> None:
        # The tool reads JSON, which has no NaN.
        text = json.dumps(values, indent=1, allow_nan=False) + "\n"
        try:
            replace(file, text.encode(), sync=True)
        except OSError as error:
            raise FathometerError(
                "write the lab's settings",
                f"{file}: {error.strerror}",
                f"see to room and rights on the disk of {self.directory}; then the same command goes on",
            ) from None

    def overlaps(self, path: Path) -> bool:
        """Whether a path is the directory, in it or around it: what it has there goes with the lab."""
        own, other = self.directory.resolve(), path.resolve()
        return own.is_relative_to(other) or other.is_relative_to(own)

    def remove(self) -> None:
        """Takes the directory away; what a crash meanwhile leaves, `down` ends. Raises `FathometerError`."""
        gone = removed(self.directory)
        try:
            self.directory.rename(gone)
            shutil.rmtree(gone)
        except OSError as error:
            # As where it is a disk of its own, or nobody may write beside it.
            raise FathometerError(
                "remove the lab's directory",
                f"{error.filename or self.directory}: {error.strerror}",
                "nothing of the lab is needed any more: remove the directory yourself",
            ) from None


def _values(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return dict(values)


def _object(file: Path) -> str | None:
    """The text of a file that is an object of JSON; None: it is none."""
    with contextlib.suppress(OSError, ValueError):
        text = file.read_text(encoding="utf-8")
        return text if isinstance(json.loads(text), dict) else None
    return None


def _is_directory(path: Path) -> bool:
    """As `Path.is_dir`, which in each Python takes other errors for a no: raises `OSError` where nobody can
    tell.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def removed(directory: Path) -> Path:
    """The name that a directory has while it is taken away."""
    return directory.with_name(f".{directory.name}.removed")
