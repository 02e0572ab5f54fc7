"""OpenTofu or Terraform, called in the copy of a lab's root.

It runs in a session of its own and writes into a file, so that Ctrl-C, a closed terminal or a `kill -9` of
this program does not reach it: killed, it could not write down what it just made. Its own lock makes the next
call wait until it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from fathometer.clean import cleaned
from fathometer.cloud.journal import private
from fathometer.errors import FathometerError

INSTALL: Final = (
    "install OpenTofu (https://opentofu.org/docs/intro/install) or Terraform, 1.8 or newer, "
    "or name it with --tool"
)
VARIABLE: Final = "TF_VAR_"
"""The prefix of the environment's variables that set a lab's."""
LOCK_TIMEOUT: Final = "-lock-timeout=30m"
"""The tool waits that long for another one that works on the lab."""
_LOOK_S: Final = 0.1
_MAX_WORDS: Final = 2000
"""The longest error that is shown, in characters."""
_OURS: Final = re.compile(
    r"TF_(?:DATA_DIR|WORKSPACE|LOG\w*|IN_AUTOMATION|INPUT|CLI_ARGS\w*|VAR_.*)", re.DOTALL
)
"""Variables of the environment that would lead the tool elsewhere, log requests with their secrets, or set
values that the journal does not have.
"""
_SECRET: Final = re.compile(
    r"SECRET|PASS|TOKEN|CREDENTIAL|CERTIFICATE|KEY(?:$|_)|(?:^|_)(?:SAS|PAT|DSN)(?:$|_)|CONNECTION_?STRING"
    r"|AUTH(?!OR)|COOKIE",
    re.IGNORECASE,
)
"""Names of variables whose values are secrets."""
_NO_SECRET: Final = re.compile(
    r"PUBLIC|(?:_PATH|_FILE|_DIR|_SOCK|ASKPASS|_APPLICATION_CREDENTIALS)$", re.IGNORECASE
)
_IN_URL: Final = re.compile(r"[\w+.-]+://[^/@\s]*:([^/\s]+)@")
_MIN_SECRET: Final = 6
"""The length of the shortest secret that is looked for; a shorter one is a part of many words."""


@dataclass
class Exit:
    """The end of a call."""

    code: int = 0
    errors: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def is_done(self) -> bool:
        """The call did all that it was called for."""
        return self.code == 0 and not self.interrupted

    @property
    def words(self) -> str:
        """The errors in one line."""
        if self.interrupted:
            return "it was interrupted"
        return cleaned("; ".join(self.errors))[:_MAX_WORDS] or f"it ended with exit code {self.code}"


def find_tool(named: Path | None) -> str:
    """The path of the named program, else of `tofu`, else of `terraform`; raises `FathometerError`."""
    names = ("tofu", "terraform") if named is None else (str(named.expanduser().absolute()),)
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        what = f"{named} cannot be run" if named else "neither `tofu` nor `terraform` is in PATH"
        raise FathometerError("work on a lab", what, INSTALL)
    return str(Path(program).absolute())


def environment_for(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The tool's environment; `own`: settings of the lab's."""
    kept = {name: value for name, value in environment.items() if not _OURS.fullmatch(name)}
    return {**kept, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **own}


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets of an environment, each with its variable's name, as they are, in JSON and in a URL."""
    found: dict[str, str] = {}
    for name, value in environment.items():
        texts = set(_IN_URL.findall(value))
        if _SECRET.search(name) and not _NO_SECRET.search(name):
            # A key has several lines, and the tool may quote one.
            texts |= {value, *(line for line in value.splitlines() if len(line) >= 2 * _MIN_SECRET)}
        for text in texts:
            if len(text.strip()) >= _MIN_SECRET:
                ways = (text, json.dumps(text)[1:-1], quote(text, safe=""), unquote(text))
                found |= dict.fromkeys(ways, name)
    return found


def without(text: str, secrets: Mapping[str, str]) -> str:
    """A text with the names of variables in the places of their secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, f"[{secrets[secret]}]")
    return text


class Tool:
    """The tool of one lab. `say` takes what the user is to read."""

    def __init__(
        self, program: str, root: Path, logs: Path, own: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        self.program = program
        self.root = root
        self._logs = logs
        self._say = say
        self._environment = environment_for(os.environ, own)
        self._secrets = secrets_of(os.environ)

    def run(self, *words: str, heard: Callable[[Mapping[str, Any]], None] = lambda _: None) -> Exit:
        """Runs it to its end, whose log has no secrets. `heard` takes each object of its `-json` output.

        A signal that would end this program is passed on as one interrupt, at which the tool ends in order.
        A second one would make it lose the resource that it is making.
        """
        ended = Exit()
        plain: list[str] = []
        self._logs.mkdir(mode=0o700, exist_ok=True)
        raw = self._logs / f"{words[0]}.raw"
        with (
            private(raw).open("wb") as to,
            raw.open("rb") as back,
            private(raw.with_suffix(".log")).open("w", encoding="utf-8") as log,
            _signals() as came,
        ):
            process = self._start(words, to.fileno())
            rest = b""
            is_running = True
            while is_running:
                is_running = process.poll() is None
                if came:
                    came.clear()
                    if not ended.interrupted:
                        with contextlib.suppress(ProcessLookupError):
                            process.send_signal(signal.SIGINT)
                    ended.interrupted = True
                    self._say("interrupted: the tool ends what it is at, and must not be killed; please wait")
                *lines, rest = (rest + back.read()).split(b"\n")
                for line in lines if is_running else [*lines, rest]:
                    text = without(line.decode(errors="replace"), self._secrets)
                    log.write(f"{text}\n" if text else "")
                    value = _object(text)
                    if value is None:
                        plain.append(text)
                    else:
                        ended.errors += errors_in(value)
                        heard(value)
                if is_running:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_LOOK_S)
        raw.unlink()
        ended.code = process.returncode
        if ended.code != 0 and not ended.errors:
            ended.errors += plain_errors("\n".join(plain))
        return ended

    def output(self, *words: str) -> bytes:
        """Its standard output; raises `FathometerError`."""
        process = self._start(words, subprocess.PIPE)
        out, err = process.communicate()
        if process.returncode != 0:
            text = without((err or out).decode(errors="replace"), self._secrets)
            what = Exit(process.returncode, plain_errors(text)).words
            raise FathometerError("look at a lab", f"{self.program} {words[0]}: {what}", advice(what))
        return out

    def shown(self, *words: str) -> Mapping[str, Any]:
        """The object that its `show -json` prints; raises `FathometerError`."""
        text = self.output("show", "-json", *words).decode(errors="replace")
        if (document := _object(text)) is None:
            what = f"{self.program} show -json prints no JSON"
            raise FathometerError("look at a lab", what, "name the tool itself with --tool")
        return document

    def by_hand(self, *words: str) -> str:
        """The command line of a call, for the user."""
        return f"`{shlex.join([self.program, f'-chdir={self.root}', *words])}`"

    def _start(self, words: tuple[str, ...], to: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the tool
                [self.program, *words],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=to,
                start_new_session=True,
                # States hold addresses.
                umask=0o077,
            )
        except OSError as error:
            how = "the lab was made with it: put it back, or name another with --tool"
            raise FathometerError("work on a lab", f"{self.program}: {error.strerror}", how) from None


@dataclass
class ToolProgress:
    """Says each resource that is made or removed, by the objects of its JSON."""

    say: Callable[[str], None]
    number: int
    done: int = 0

    def __call__(self, value: Mapping[str, Any]) -> None:  # noqa: D102
        # Without the cloud's long id.
        words = str(value.get("@message", "")).partition(" [id=")[0]
        if value.get("type") == "apply_complete":
            self.done += 1
            self.say(f"[{self.done}/{max(self.done, self.number)}] {words}")
        elif value.get("type") in {"apply_errored", "state_lock_acquire"}:
            self.say(words)


def errors_in(value: Mapping[str, Any]) -> list[str]:
    """The error in an object of its JSON, in one line."""
    diagnostic = value.get("diagnostic")
    if not isinstance(diagnostic, dict) or diagnostic.get("severity") != "error":
        return []
    parts = [str(diagnostic.get(part) or "").strip() for part in ("summary", "detail")]
    variables = (diagnostic.get("snippet") or {}).get("values") or ()
    names = [str(one.get("traversal", "")).removeprefix("var.") for one in variables]
    if parts[0].startswith("Invalid value for") and len(names) == 1:
        parts = [f"{parts[0]} {names[0]}", parts[1].partition("\n\nThis was checked by")[0]]
    return [": ".join(part for part in parts if part)]


def plain_errors(text: str) -> list[str]:
    """The errors of its output for people: in a frame, from `Error:` on."""
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).strip("│╷╵| ").strip() for line in text.splitlines()]
    text = " ".join(line for line in lines if line)
    return [part.strip() for part in text.split("Error: ")[1:]] or ([text[-_MAX_WORDS:]] if text else [])


def advice(words: str) -> str:
    """The remedy for an error of the tool's or a cloud's, by its words."""
    text = Path(__file__).with_name("trouble.toml").read_text(encoding="utf-8")
    known = tomllib.loads(text)["trouble"]
    found = (str(one["advice"]) for one in known if re.search(one["find"], words))
    return next(found, "see what the cloud says of it")


def _object(text: str) -> Mapping[str, Any] | None:
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that came and would have ended this program."""
    came: list[int] = []
    # A hang-up that is ignored, as under `nohup`, stays ignored.
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [sign for sign in signs if signal.getsignal(sign) != signal.SIG_IGN]
    before = {sign: signal.signal(sign, lambda number, _: came.append(number)) for sign in heard}
    try:
        yield came
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
