"""OpenTofu or Terraform, called so that nothing is lost when we end before it does.

It runs in a session of its own and writes into a file: a terminal that closes, Ctrl-C and `kill -9` of us do
not reach it, and it ends what it is at, with its state written. Its processes bear the lab's mark in their
environment, as those of a study do, so that the next call of ours finds one that still works.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fathometer.clean import cleaned
from fathometer.cloud import diagnostics, register, rescued, where
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.withheld import Withheld
from fathometer.errors import FathometerError
from fathometer.study.processes import MARK, end_marked, marked

INSTALL: Final = (
    "install OpenTofu (https://opentofu.org/docs/intro/install) or Terraform, 1.8 or newer, "
    "or name it with --tool"
)
LOOK_S: Final = 0.1
"""From one look at its words to the next."""
_TRIAL_BYTES: Final = 1 << 16
_OLDEST: Final = (1, 8)
_TERRAFORMS: Final = '"registry.terraform.io/'
"""As the provider of a thing in a state is quoted."""
_OURS: Final = re.compile(
    r"TF_(?:DATA_DIR|WORKSPACE|LOG\w*|IN_AUTOMATION|INPUT|CLI_ARGS\w*|VAR_.*)", re.DOTALL
)
"""What would lead it elsewhere, make it write requests with their secrets into its log, or make a lab of
other settings than the journal knows, which another shell undoes.
"""
VARIABLE: Final = "TF_VAR_"
"""Begins the name of a variable of the environment that sets one of the lab's."""


@dataclass
class Exit:
    """How a call ended."""

    code: int
    errors: list[str] = field(default_factory=list)
    """In its own words."""
    variables: list[str] = field(default_factory=list)
    """Those whose values it refused."""
    interrupted: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it did all that it was called for."""
        return self.code == 0 and not self.interrupted

    @property
    def words(self) -> str:
        """What went wrong, in one line."""
        return (
            cleaned("; ".join(self.errors))[: diagnostics.MOST_WORDS]
            or f"it ended with exit code {self.code}"
        )


def find_tool(named: Path | None) -> str:
    """The program: as named, else `tofu`, else `terraform`. Raises `FathometerError`."""
    if named is not None:
        program = shutil.which(str(named.expanduser().absolute()))
    else:
        program = shutil.which("tofu") or shutil.which("terraform")
    if program is None:
        what = f"{named} is no program" if named else "neither `tofu` nor `terraform` is in PATH"
        raise FathometerError("work on a lab", what, INSTALL)
    try:
        answer = subprocess.run(  # noqa: S603 - what the user named
            [program, "version", "-json"], capture_output=True, check=True, timeout=60
        ).stdout
        version = str(json.loads(answer)["terraform_version"])
        number = tuple(int(part) for part in version.split("-", maxsplit=1)[0].split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        raise FathometerError("work on a lab", f"{program} does not tell its version", INSTALL) from None
    if number < _OLDEST:
        raise FathometerError("work on a lab", f"{program} is version {version}", INSTALL)
    return str(Path(program).absolute())


def trial(beside: Path, data: bytes) -> OSError | None:
    """Why so much cannot be written beside a file; None: it can. Nothing of it stays."""
    place = beside.with_suffix(".trial")
    try:
        with place.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Where the writing fails, and not the opening, it does not name it.
        error.filename = error.filename or str(place)
        return error
    finally:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
    return None


def not_passed_on() -> list[str]:
    """Variables of the environment that would set the lab's, as somebody may believe."""
    return sorted(name for name in os.environ if name.startswith(VARIABLE))


def must_read(place: LabPlace, program: str) -> None:
    """Raises `FathometerError` where a program cannot tell what the lab's state has: OpenTofu plans with a
    state of Terraform's, and does not show it.
    """
    try:
        state = place.state_file.read_text(encoding="utf-8", errors="replace")
        answer = subprocess.run(  # noqa: S603 - what the user named
            [program, "version"], capture_output=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return
    if _TERRAFORMS in state and answer.startswith(b"OpenTofu"):
        raise FathometerError(
            "work on a lab",
            f"{program} is OpenTofu, which does not show a state of Terraform's",
            "name a Terraform with --tool",
        )


class ToolError(FathometerError):
    """A call whose output was wanted did not end well."""

    def __init__(self, what: str, words: str) -> None:
        super().__init__("look at a lab", what, "call it again")
        self.words = words
        """The tool's own."""


class Tool:
    """Called in the copy of a lab's root."""

    def __init__(self, place: LabPlace, say: Callable[[str], None], program: str) -> None:
        self._place = place
        self.program = program
        self._say = say
        kept = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
        # It is asked nothing, asks nothing, and leaves out advice on what to call next.
        # Whoever destroys by hand may have chosen another workspace, whose state is another file.
        ours = {"TF_WORKSPACE": "default", "TF_IN_AUTOMATION": "1"}
        extra = {**ours, "CHECKPOINT_DISABLE": "1", MARK: place.id}
        self._environment = {**kept, **where.environment(register.where(place)), **extra}
        self._withheld = Withheld(kept)

    @property
    def name(self) -> str:
        """`tofu` or `terraform`."""
        return Path(self.program).name

    def run(self, name: str, *words: str, heard: Callable[[Mapping[str, Any]], None] | None = None) -> Exit:
        """Runs it to its end. `heard` gets the objects that it writes with `-json`.

        A signal that would end us is passed on as one interrupt, at which it ends in order; at a second one
        it would lose what it is making.
        """
        raw = self._place.logs / f"{name}.raw"
        ended = Exit(0)
        plain: list[str] = []

        def take(line: str) -> None:
            if rescued.is_dump(line):
                # It is no word of the cloud's, and kept when all of it is there.
                return
            try:
                value = json.loads(line)
            except ValueError:
                plain.append(line)
                return
            if isinstance(value, dict):
                value = self._withheld.value(value)
                ended.errors += diagnostics.errors(value)
                ended.variables += diagnostics.variables(value)
                if heard is not None:
                    heard(value)

        try:
            raw.touch(mode=0o600)
        except OSError as error:
            raise FathometerError(
                "work on a lab",
                f"{raw}: {error.strerror}",
                f"see to room and rights on the disk of {self._place.directory}, then call it again",
            ) from None
        with raw.open("wb") as file, raw.open("rb") as back, _signals() as came:
            rescued.reserve(file.fileno())
            process = self._start(words, file.fileno())
            lines = _Lines(back, take)
            while process.poll() is None:
                if came and ended.interrupted:
                    came.clear()
                    self._say(f"{self.name} still ends what it is at; interrupted again it would lose that")
                elif came:
                    came.clear()
                    ended.interrupted = True
                    with contextlib.suppress(ProcessLookupError):
                        process.send_signal(signal.SIGINT)
                    self._say(f"interrupted: {self.name} gets it once, and ends what it is at; please wait")
                lines.read()
                time.sleep(LOOK_S)
            lines.read(last=True)
        ended.code = process.returncode
        rescued.keep(self._place, raw, self._say)
        if ended.code != 0 and not ended.errors:
            ended.errors += diagnostics.plain_errors(self._withheld.text("\n".join(plain)))
        full = trial(raw, bytes(_TRIAL_BYTES)) if ended.code != 0 and not ended.errors else None
        if full is not None and full.errno in {errno.ENOSPC, errno.EDQUOT}:
            # Where it could not write its words.
            ended.errors.append(f"{self.name} left no words: no space left on device ({raw.parent})")
        self._log(raw)
        return ended

    def _log(self, raw: Path) -> None:
        """Makes the log of what it said, without secrets and without a state, which has its own file."""
        said = raw.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        text = self._withheld.text("".join(line for line in said if not rescued.is_dump(line)))
        log = raw.with_suffix(".log")
        try:
            log.touch(mode=0o600)
            log.write_text(text, encoding="utf-8")
        except OSError as error:
            self._say(f"its words could not be kept, {log}: {error.strerror}")
        raw.unlink()

    def output(self, *words: str) -> bytes:
        """What it prints. Raises `FathometerError`."""
        try:
            done = subprocess.run(  # noqa: S603 - the tool
                [self.program, *words],
                cwd=self._place.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                # Ctrl-C is not for it.
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise self._gone(error) from None
        if done.returncode != 0:
            text = self._withheld.text((done.stderr or done.stdout).decode(errors="replace"))
            what = Exit(done.returncode, diagnostics.plain_errors(text)).words
            raise ToolError(f"{self.name} {words[0]}: {what}", what)
        return done.stdout

    def shown(self, *words: str) -> Mapping[str, Any]:
        """What its `show -json` prints. Raises `FathometerError`, also where that is no such answer."""
        text = self.output("show", "-json", *words)
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, Mapping):
            began = self._withheld.text(text[: diagnostics.MOST_WORDS].decode(errors="replace")).strip()
            raise FathometerError(
                "look at a lab",
                f"{self.name} show -json prints no object of JSON: {began or 'nothing'}",
                f"see what `{self.program}` runs: a wrapper must print nothing of its own to stdout",
            )
        return document

    def _start(self, words: tuple[str, ...], to: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the tool
                [self.program, *words],
                cwd=self._place.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=to,
                start_new_session=True,
                # States hold addresses, and whatever a cloud puts into them.
                umask=0o077,
            )
        except OSError as error:
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> FathometerError:
        return FathometerError(
            "work on a lab",
            f"{self.program}: {error.strerror}",
            "this lab was made with it: put it back, or name another with --tool",
        )


def message(value: Mapping[str, Any]) -> str:
    """Of an object that it writes with `-json`: the words for people, without a cloud's long id."""
    return str(value.get("@message", "")).partition(" [id=")[0]


def wait_for_earlier(place: LabPlace, say: Callable[[str], None], *, end: bool) -> None:
    """Waits for a tool that an earlier call of ours started and did not live to see end, and removes what it
    left of a log.
    """
    try:
        wait_for_tool(place.id, say, end=end)
    finally:
        for raw in place.logs.glob("*.raw"):
            rescued.keep(place, raw, say)
            # It may hold what the finished log would not.
            raw.unlink()


def wait_for_tool(lab_id: str, say: Callable[[str], None], *, end: bool) -> None:
    """Waits for a tool that works on the lab of that id, whose directory may be gone. With `end` it is
    interrupted, once, and ends in order; killed, it would not write down what it just made.
    """
    with _signals() as came:
        announced: set[int] = set()
        passed: set[int] = set()
        while leaders := [pid for pid in marked(lab_id) if _leads(pid)]:
            for pid in leaders:
                if pid not in announced:
                    announced.add(pid)
                    say(f"an earlier call's process {pid} still works on this lab: waiting for its end")
                if (end or came) and pid not in passed:
                    passed.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGINT)
            time.sleep(LOOK_S)
    # Providers that have lost their tool.
    end_marked(lab_id)
    if came:
        raise KeyboardInterrupt


def _leads(pid: int) -> bool:
    # What the tool itself starts is in its session.
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Notes the signals that would end us. A hang-up that is ignored, as under `nohup`, stays ignored."""
    came: list[int] = []
    signs = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    signs = [sign for sign in signs if signal.getsignal(sign) is not signal.SIG_IGN]
    before = {sign: signal.signal(sign, lambda number, _: came.append(number)) for sign in signs}
    try:
        yield came
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


class _Lines:
    """Whole lines of a file that grows."""

    def __init__(self, file: Any, take: Callable[[str], None]) -> None:  # noqa: ANN401 - a reader of bytes
        self._file = file
        self._take = take
        self._rest = b""

    def read(self, *, last: bool = False) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        if last and self._rest:
            lines.append(self._rest)
        for line in lines:
            self._take(line.decode(errors="replace"))
