"""The parts that `plan`, `up`, `run`, `down` and `list` share: a lab's directory that is held, its tool, the
words to the user, and the words about a lab.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import typer

from fathometer.clean import cleaned
from fathometer.cloud.journal import ASIDE, LabDirectory, Record, all_usual, usual
from fathometer.cloud.labs import Root
from fathometer.cloud.left import SUBSCRIPTION, owner_now
from fathometer.cloud.planned import Resource, estimate, read_state
from fathometer.cloud.settings import end_in
from fathometer.cloud.tool import Exit, Tool, advice, find_tool
from fathometer.counts import are, count
from fathometer.errors import ExitCode, FathometerError
from fathometer.study.lock import locked
from fathometer.study.outputs import Lab, read_lab
from fathometer.study.words import duration_text


def tell(words: str, *, nl: bool = True, err: bool = False) -> None:
    """Prints a line. A terminal that has gone does not stop `up` or `down`."""
    with contextlib.suppress(OSError):
        typer.echo(words, nl=nl, err=err)


def command_for(verb: str, lab: str, directory: Path, *options: str) -> str:
    """The command line of a lab, for the user."""
    more = [] if directory == usual(lab) else ["--directory", str(directory)]
    return f"`{shlex.join(['fathom', 'cloud', verb, lab, *options, *more])}`"


class Work:
    """The work of one command on one lab."""

    def __init__(self, place: LabDirectory, lab: str, *, yes: bool, tool: Path | None = None) -> None:
        self.place = place
        self.lab = lab
        self.yes = yes
        self._named = None if tool is None else find_tool(tool)
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        """The lab's record; raises `FathometerError` where no lab was begun."""
        if self._record is None:
            what, how = f"{self.place.directory} holds none", "name its --directory; see `fathom cloud list`"
            raise FathometerError("find the lab", what, how)
        return self._record

    @contextlib.contextmanager
    def held(self, *, begins: bool = False) -> Iterator[None]:
        """Keeps other commands off the lab meanwhile. `begins`: there may be none yet."""
        self._record = self.place.read()
        if not begins:
            _ = self.record
        self.place.make()
        remedy = "wait for its end; `fathom study stop DIR` ends a study"
        with locked(self.place.directory, f"work on the lab {self.lab}", remedy):
            self._record = self.place.read()
            if self._record is not None and self._record.lab != self.lab:
                what, how = f"{self.place.directory} holds {self._record.lab}", "name its own --directory"
                raise FathometerError(f"use the lab {self.lab}", what, how, exit_code=ExitCode.USAGE)
            if self._record is not None and self._named is not None:
                self.note(dataclasses.replace(self._record, tool=self._named))
            # A call that was killed left the tool's output with secrets in it.
            for raw in self.place.directory.glob("logs/*.raw"):
                raw.unlink()
            yield

    def begin(self, root: Root) -> None:
        """Begins the lab where it is not begun."""
        if self._record is None:
            self._record = self.place.begin(root, self._named or find_tool(None))

    def note(self, record: Record) -> None:
        """Writes the lab's next record."""
        self.place.write(record)
        self._record = record

    @property
    def tool(self) -> Tool:
        """The lab's OpenTofu or Terraform."""
        record = self.record
        owner = (owner_now("azure") or record.where.owner) if record.cloud == "azure" else None
        own = {SUBSCRIPTION: owner} if owner else {}
        return Tool(record.tool, self.place.root(record), self.place.directory / "logs", own, self.say)

    def say(self, words: str) -> None:
        """Tells the user what happens."""
        tell(f"{self.lab}: {cleaned(words)}", err=True)

    def agreed(self, question: str) -> bool:
        """Asks the user; raises `FathometerError` without an answer."""
        if self.yes:
            return True
        # `typer.confirm` would write a space to standard output.
        tell(f"{question} [y/N] ", nl=False, err=True)
        answer = sys.stdin.readline()
        if not answer:
            tell("", err=True)
            raise FathometerError("go on", "nobody answered", "answer y, or add --yes")
        return answer.strip().lower() in {"y", "yes"}

    def command(self, verb: str, *options: str) -> str:
        """A command line for this lab."""
        infra = self._record.infra if self._record and verb in {"plan", "up"} else None
        more = [] if infra is None else ["--infra", infra]
        return command_for(verb, self.lab, self.place.directory, *options, *more)

    def prepare(self, verb: str) -> Tool:
        """The tool with the provider of the lab's cloud; raises `FathometerError`."""
        tool = self.tool
        if (tool.root / ASIDE).exists():
            push = tool.by_hand("state", "push", ASIDE)
            raise FathometerError(
                "use the lab's state",
                f"{tool.root / ASIDE} is newer than it: the tool had to set it aside",
                f"call {push} and remove that file; then {self.command(verb)} goes on",
            )
        # It needs no network where the provider is there already.
        ended = tool.run("init", "-input=false", "-no-color")
        if not ended.is_done:
            raise self.failed("prepare the lab", ended, verb)
        return tool

    def exists(self) -> tuple[Resource, ...]:
        """The resources in the state; raises `FathometerError` where it cannot be read."""
        return read_state(self.tool.shown())

    def outputs(self) -> Lab:
        """The lab as its outputs describe it."""
        outputs = self.tool.output("output", "-json")
        if not json.loads(outputs or b"{}"):
            raise FathometerError("use the lab", "not all of it is made", f"make it: {self.command('up')}")
        return read_lab(outputs, f"the lab {self.lab}")

    def failed(self, operation: str, ended: Exit, verb: str) -> FathometerError:
        """The error of a call; also says what exists, and how it is removed."""
        if self.record.state == "made":
            self.say_what_exists(is_killed=ended.code < 0)
        again = f"{self.command(verb)} goes on" + (" with its options" if not self.record.values else "")
        remedy = again if ended.interrupted else f"{advice(ended.words)}; then {again}"
        if verb == "down":
            remedy += f"; by hand: {self.tool.by_hand('destroy')}"
        return FathometerError(operation, ended.words, remedy)

    def say_what_exists(self, *, is_killed: bool = False) -> None:
        """Says what exists, what it costs and how it is removed. `is_killed`: the tool could not write down
        what it made last.
        """
        try:
            there = self.exists()
        except FathometerError as error:
            self.say(f"what exists is unknown: {error}")
        else:
            number = f"{count(len(there), 'thing')} {are(len(there))} there"
            self.say(f"{number}: {estimate(there)}" if there else "its state is empty")
            if there and (ends := ending(self.record, datetime.now(UTC))):
                self.say(ends)
        if is_killed:
            self.say("the tool was killed: more may exist than its state has, and `down` asks the cloud")
        self.say(f"{self.command('down')} removes it")


def ending(record: Record, now: datetime) -> str | None:
    """A lab's end in words; None for a lab without an end."""
    ends = end_in(record)
    if ends is None:
        return None
    rest = "whatever else it consists of goes on costing until it is removed"
    if ends <= now:
        return f"its hosts ended at {ends:%Y-%m-%d %H:%M} UTC; {rest}"
    seconds = int((ends - now).total_seconds())
    left = duration_text((seconds // 60 * 60 or max(seconds, 1)) * 10**9)
    return f"its hosts end at {ends:%Y-%m-%d %H:%M} UTC, in {left}; {rest}"


def summary(directory: Path, record: Record, now: datetime) -> str:
    """A line of `list`, by the journal alone."""
    down = command_for("down", record.lab, directory)
    if record.state == "planned":
        parts = [f"planned, nothing was made; {down} takes it out of this list"]
    elif record.state == "removed":
        parts = [f"removed, but more of it may be left; {down} looks"]
    else:
        parts = [f"made{'' if record.whole else ', but not all of it'}, {record.price}"]
        parts += [ends] if (ends := ending(record, now)) else []
    if directory != usual(record.lab):
        parts.append(str(directory))
    return cleaned(f"{record.lab}  {'; '.join(parts)}")


def begun(named: Iterable[Path], now: datetime) -> tuple[list[str], bool]:
    """The lines of `list` for the labs that were begun, and whether one of them needs attention."""
    usually = sorted(path for path in all_usual().glob("*") if not path.name.startswith("."))
    lines, problems = {}, []
    for path in (*usually, *named):
        directory = path.resolve()
        try:
            record = LabDirectory(directory).read()
        except FathometerError as error:
            problems.append(f"{directory}  {error.object}; {error.remedy}")
            continue
        if record is not None:
            lines[directory] = summary(directory, record, now)
        elif path.is_symlink():
            what = f"{path.name}  {directory} is gone, and the lab may go on costing"
            problems.append(f"{what}: remove what has the tag fathom-lab in the cloud, and then {path}")
        elif path in named:
            problems.append(f"{path}  holds no lab")
    return [cleaned(line) for line in (*lines.values(), *problems)], bool(problems)
