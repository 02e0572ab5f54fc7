"""What `plan`, `up`, `run` and `down` share: a lab's directory that is held, its tool, and what is said."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import typer

from fathometer.clean import cleaned
from fathometer.cloud import register, rescued, where, whose
from fathometer.cloud.journal import LabPlace, usual
from fathometer.cloud.planned import Resource, by_kind, read_state
from fathometer.cloud.prices import estimate
from fathometer.cloud.states import EMPTY, GONE, TORN, broken, named_by, write_problem
from fathometer.cloud.tool import Exit, Tool, ToolError, find_tool, must_read, wait_for_earlier
from fathometer.cloud.trouble import advice, is_of_another_provider
from fathometer.counts import are, count
from fathometer.errors import FathometerError
from fathometer.study.lock import locked
from fathometer.study.words import duration_text

_LOCKED: Final = re.compile(r'^provider "([^"]+)" \{\s+version\s+= "([^"]+)"', re.MULTILINE)
"""Of the tool's lock file: a provider, and the version that was taken."""


def tell(words: str, *, nl: bool = True, err: bool = False) -> bool:
    """Prints a line; False where it cannot. A reader that has left (`| head`) or a terminal that has gone is
    no reason to stop: whoever calls `down` so has a lab left that costs, and hears that all went well.
    """
    # Of one that was closed before we began (`>&-`) Python has None, and `echo` writes nothing.
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:
        return False
    try:
        typer.echo(words, nl=nl, err=err)
    except OSError:
        return False
    return True


def command_for(verb: str, lab: str, directory: Path, infra: str | None = None, *options: str) -> str:
    """A command line for a lab."""
    more = [*options]
    more += [] if directory == usual(lab) else ["--directory", str(directory)]
    more += [] if infra is None else ["--infra", infra]
    return f"`{shlex.join(['fathom', 'cloud', verb, lab, *more])}`"


class RefusedStateError(FathometerError):
    """A state that was set aside is not taken back: it is torn, or the tool ran to its end and refused it."""


class Work:
    """On one lab, in its directory."""

    def __init__(self, place: LabPlace, lab: str, *, yes: bool, tool: Path | None = None) -> None:
        self.place = place
        self.lab = lab
        self.yes = yes
        self.named = None if tool is None else find_tool(tool)
        """The program that the command line names."""
        self._shown: tuple[tuple[object, ...], Mapping[str, Any]] | None = None
        self._is_fetched = False
        """Whether this call fetched the cloud's provider, or tried to."""

    @contextlib.contextmanager
    def held(self, *, end_earlier: bool = False) -> Iterator[None]:
        """Nobody else works on the lab meanwhile, and no tool of a call that crashed."""
        self.place.make()
        with locked(self.place.directory, f"work on the lab {self.lab}", "wait for its end"):
            # What was written since it was read.
            self.place = LabPlace(self.place.directory)
            if self.place.begun is not None:
                wait_for_earlier(self.place, self.say, end=end_earlier)
                rescued.bring_back(self.place.id, self.place.directory, self.place.aside, self.say)
                if self.place.restore_settings():
                    self.say(f"{self.place.settings_file} is written again: it was gone or torn")
                whose.must_be_own(self.place, self.command("down"))
                if self.named is not None and self.named != self.place.program:
                    must_read(self.place, self.named)
                    self.place.note("tool.named", tool=self.named)
                if register.may_exist(self.place) or register.is_confirmed(self.place):
                    # An entry that is made later would say that nothing was made, and know no more than
                    # the journal.
                    self.register()
            yield

    def register(self, *, may_exist: bool = False) -> None:
        """Has `list` know where the lab is. `may_exist`: its making is about to begin."""
        if problem := register.note(self.place, may_exist=may_exist):
            self.say(f"`fathom cloud list` may not know of this lab: {problem}")

    @property
    def tool(self) -> Tool:
        """Of the lab."""
        return Tool(self.place, self.say, self.named or self.place.program)

    def say(self, words: str) -> None:
        """What goes on."""
        tell(f"{self.lab}: {cleaned(words)}", err=True)

    def agreed(self, question: str) -> bool:
        """Asks; raises `FathometerError` where nobody can answer."""
        if self.yes:
            return True
        # Not `typer.confirm`, which writes a space to standard output.
        tell(f"{question} [y/N] ", nl=False, err=True)
        answer = sys.stdin.readline()
        if not answer:
            tell("", err=True)
            raise FathometerError("go on", "nobody answered", "answer y, or add --yes")
        return answer.strip().lower() in {"y", "yes"}

    def command(self, verb: str, *options: str) -> str:
        """A command line for this lab."""
        infra = (self.place.begun or {}).get("infra") if verb in {"plan", "up"} else None
        return command_for(verb, self.lab, self.place.directory, infra, *options)

    def exists(self) -> tuple[Resource, ...]:
        """What the state says that there is."""
        return read_state(self._state())

    def outputs(self) -> bytes:
        """As the tool prints them with `output -json`."""
        values = self._state().get("values") or {}
        return json.dumps(values.get("outputs") or {}).encode()

    def _state(self) -> Mapping[str, Any]:
        """As the tool tells it: once, until its file is another. A real provider takes seconds for it."""
        files = sorted(self.place.root.glob("terraform.tfstate*"))
        if not files:
            return {}
        seen = tuple((f.name, s.st_ino, s.st_size, s.st_mtime_ns) for f in files for s in (f.stat(),))
        if self._shown is None or self._shown[0] != seen:
            self._shown = seen, self._as_shown()
        return self._shown[1]

    def _as_shown(self) -> Mapping[str, Any]:
        shown, state = self._shown_by_provider(), self.place.state_file
        named = named_by(state, self.command("down")) if state.is_file() and "values" not in shown else 0
        if named:
            raise FathometerError(
                "look at a lab",
                f"{self.tool.name} shows nothing of a state, and {state} names {count(named, 'thing')}",
                "see that it is the tool that the lab was made with, and no wrapper that looks elsewhere",
            )
        return shown

    def _shown_by_provider(self) -> Mapping[str, Any]:
        """As the tool shows it by its provider. Where that is another than it was made with, or damaged, the
        right one is fetched once; `init` takes no other.
        """
        try:
            return self.tool.shown()
        except ToolError as error:
            if not is_of_another_provider(error.words):
                raise
            words = error.words
        if ended := self.fetch_again(words):
            if ended.is_done:
                return self.tool.shown()
            words = ended.words
        raise FathometerError("look at a lab", words, self._advice(words))

    def fetch_again(self, words: str) -> Exit | None:
        """Fetches the provider where a call's words say that it is another than the lab was made with, or
        damaged; None: they do not, or this call did so before.
        """
        return self._fetch() if is_of_another_provider(words) and not self._is_fetched else None

    def _fetch(self) -> Exit:
        self._is_fetched = True
        self.say("preparing (the cloud's provider is fetched)")
        return self.step("init", "init", "-input=false", "-no-color")

    def step(self, name: str, *words: str, heard: Callable[[Mapping[str, Any]], None] | None = None) -> Exit:
        """A call of the tool, with its entries in the journal."""
        self.place.note(f"{name}.started")
        ended = self.tool.run(name, *words, heard=heard)
        if ended.is_done:
            self.place.note(f"{name}.done")
        else:
            # Words in which the secrets of the environment are named, not told.
            self.place.note(f"{name}.failed", reason=ended.words, code=ended.code)
        return ended

    def broken_state(self) -> str | None:
        """Why nobody can read the state; None: it can be read. Raises `FathometerError` where the disk, or
        the file's rights, forbid to look.
        """
        return broken(self.place.state_file, self.command("down"))

    def emptied_state(self) -> str | None:
        """That the state says nothing of a lab that was begun, in words: as a copy of before its making does,
        or one that somebody wrote. None: it says something, or nothing was begun.
        """
        if not register.may_exist(self.place) or self.place.has("destroy.done") or self.broken_state():
            return None
        return None if self.exists() else EMPTY

    def broken_aside(self) -> str | None:
        """The same of a state that was set aside."""
        return broken(self.place.aside, self.command("down"))

    def is_aside(self) -> bool:
        """Whether the tool could not write its state where it belongs, and left it beside that."""
        return self.place.aside.is_file()

    def prepare(self, verb: str) -> None:
        """Fetches the cloud's provider where it is not there, or no longer: it may have been a link into a
        cache. Without it not even what exists can be told, and a state that was set aside is taken back.
        """
        root = self.place.root
        if self.is_aside() and self.broken_aside() is None and self.broken_state() == TORN:
            # The tool reads the one before it takes the other, and before it fetches anything.
            with contextlib.suppress(OSError):
                self.place.state_file.rename(self.place.state_file.with_suffix(".torn"))
        last = self.place.last("init.done", "tool.named")
        if last is None or last["kind"] != "init.done" or not _has_providers(root):
            ended = self._fetch()
            if not ended.is_done:
                raise self.failed("prepare the lab", ended, verb)
        if self.is_aside():
            self._take_back(verb)

    def _take_back(self, verb: str) -> None:
        """Takes back the state that was set aside. Raises `RefusedStateError` where it says nothing, and
        `FathometerError` where it may be taken back later.
        """
        place = self.place
        operation = "take back the lab's state"
        asks = f"{self.command('down')} asks the cloud what it has of the lab"
        if what := self.broken_aside():
            raise RefusedStateError(operation, f"{place.aside} {what}", asks)
        self.say(f"taking back {place.aside.name}, which could not be written where it belongs")
        ended = self.step("push", "state", "push", place.aside.name)
        if ended.interrupted:
            raise FathometerError(operation, "it was interrupted", f"{self.command(verb)} goes on")
        if ended.code < 0:
            raise FathometerError(operation, ended.words, f"{self.command(verb)} tries it again")
        if ended.code != 0:
            # It ends alike where it refuses a state and where it cannot write it.
            if problem := write_problem(place.aside, place.state_file):
                words = f"{ended.words} ({problem})"
                raise FathometerError(
                    operation, words, f"see to room and rights there; then {self.command(verb)} goes on"
                )
            raise RefusedStateError(operation, ended.words, asks)
        place.aside.rename(place.aside.with_suffix(".taken"))

    def failed(self, operation: str, ended: Exit, verb: str, remedy: str | None = None) -> FathometerError:
        """The error for a call that did not end well. Says what exists, and what that costs. `remedy`: what
        helps, where the caller knows it.
        """
        unknown = self.say_what_exists(killed=ended.code < 0)
        # Before a plan that went well nothing of what was given is kept.
        kept = register.may_exist(self.place) or self.place.has("planned")
        again = self.command(verb) if kept else "the same command with its options"
        if not (unknown and verb == "up" and self.place.state_file.exists()):
            self.say(f"{again} goes on from here")
        if ended.interrupted:
            return FathometerError(operation, "it was interrupted", f"{again} goes on")
        return FathometerError(operation, ended.words, remedy or self._advice(ended.words))

    def _advice(self, words: str) -> str:
        """What to do about an error of the tool's on this lab."""
        upgrade = [self.tool.program, f"-chdir={self.place.root}", "init", "-upgrade"]
        return advice(
            words, str(self.place.directory), self.command("down"), upgrade=f"`{shlex.join(upgrade)}`"
        )

    def say_what_exists(self, *, killed: bool = False) -> bool:
        """What there is, what it costs, when its hosts end, and how all of it is removed. With `killed` the
        tool did not write down what it made last. Tells whether nobody knows what exists.
        """
        try:
            what = self._why_unknown(killed=killed)
            resources = () if what else self.exists()
        except FathometerError as error:
            self.say(f"what exists could not be found out: {error}; {self.command('down')} removes it")
            return True
        if what is not None:
            self.say(f"what exists is not known: {what}; {self.command('down')} asks the cloud")
            return True
        if not resources:
            self.say("nothing of it exists")
            return False
        price = estimate(resources)
        kinds = len(by_kind(resources))
        number = count(len(resources), "thing")
        self.say(f"{number} of {count(kinds, 'kind')} {are(len(resources))} there: {price}")
        if reminder := remaining(self.place, datetime.now(UTC)):
            self.say(reminder)
        if killed:
            self.say("it was killed: there may be more than its state has")
        self.say(f"{self.command('down')} removes it")
        return False

    def _why_unknown(self, *, killed: bool) -> str | None:
        """Why the state does not say what exists; None: it does. A tool that comes to its end in order leaves
        none where it made nothing.
        """
        if not register.may_exist(self.place) or self.place.has("destroy.done"):
            return None
        if self.is_aside():
            return f"{self.place.state_file} is older than what was set aside"
        what = self.broken_state()
        # A journal that does not have the making is an older copy: what was made since had a state.
        in_order = not killed and self.place.has("apply.started")
        if what is None or (what == GONE and in_order):
            return None
        return f"{self.place.state_file} {what}"


def note_things(work: Work) -> tuple[Resource, ...]:
    """What the state has. Notes that it has something, and where that is: what asks the cloud later goes by
    it. Where nobody can tell, that is noted.
    """
    try:
        there = work.exists()
    except FathometerError:
        if not work.place.has("things.unread"):
            work.place.note("things.unread")
        return ()
    where.note_things(work.place, there)
    whose.note_lineage(work.place)
    work.register()
    if there and not work.place.has("things.seen"):
        work.place.note("things.seen")
    return there


def _has_providers(root: Path) -> bool:
    """Whether everything is there that the tool fetched into a root: files, not only links to some."""
    lock = root / ".terraform.lock.hcl"
    taken = _LOCKED.findall(lock.read_text(encoding="utf-8")) if lock.is_file() else []
    there = root / ".terraform"
    return there.is_dir() and all(
        any(there.glob(f"providers/{source}/{version}/*/terraform-provider-*")) for source, version in taken
    )


def remaining(place: LabPlace, now: datetime) -> str | None:
    """How long the lab is for, in words; None: nothing says it."""
    ends = expires(place)
    if ends is None:
        return None
    made = place.last("apply.started", "apply.done", "apply.failed")
    if ends > now and (made is None or made["kind"] != "apply.done"):
        # What switches a host off is made after it, and a later end is a change of it.
        lab = str((place.begun or {}).get("lab"))
        up, down = (command_for(verb, lab, place.directory) for verb in ("up", "down"))
        return (
            f"its hosts were to end at {ends:%Y-%m-%d %H:%M} UTC, but not all was made in order: when they"
            f" end, if ever, is not known; {up} sets it, {down} removes them"
        )
    return ending(ends, now)


def ending(ends: datetime, now: datetime) -> str:
    """That hosts end then, in words."""
    at = f"{ends:%Y-%m-%d %H:%M} UTC"
    if ends <= now:
        return (
            f"its hosts were ended at {at}; whatever else it consists of goes on costing until it is removed"
        )
    seconds = int((ends - now).total_seconds())
    left = duration_text((seconds // 60 * 60 or max(seconds, 1)) * 10**9)
    return (
        f"its hosts end at {at}, in {left}; whatever else it consists of goes on costing until it is removed"
    )


def expires(place: LabPlace) -> datetime | None:
    """When the hosts of a lab end: as it was when its making last began."""
    begun = next((n for n, e in reversed([*enumerate(place.entries)]) if e.get("kind") == "apply.started"), 0)
    last = next((e for e in reversed(place.entries[:begun]) if e.get("kind") == "settings"), None)
    if last is not None:
        return moment(last.get("expires"))
    # A journal that is an older copy, or has lost its end: what was made was made with the settings.
    with contextlib.suppress(OSError, ValueError, TypeError):
        return moment(place.settings.get("expires")) if register.may_exist(place) else None
    return None


def moment(text: object) -> datetime | None:
    """The variable `expires`; None: nothing says it."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def table(resources: Iterable[Resource]) -> str:
    """Kinds and how many there are of each, a line each."""
    return "\n".join(f"{number:>7,}  {cleaned(kind)}" for kind, number in by_kind(resources))
