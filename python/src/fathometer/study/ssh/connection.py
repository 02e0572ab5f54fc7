"""One host's ``ssh``: a question to the binary there, a few lines for its shell, a file to there.

Each command is an ``ssh`` of its own over one shared connection (``ControlMaster=auto``), which the first of
them makes, and makes again after it was lost. Whatever is asked twice then is done once by the binary.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.hosts import MOST_WORDS
from fathometer.study.model import SshHost
from fathometer.study.processes import OutputTooLong, Processes
from fathometer.study.ssh.answers import FORMAT, shell_answer
from fathometer.study.ssh.trouble import MOST_LOOKED_AT, HostError, explain

CALL_S: Final = 60.0
"""How long a call may take, which is to say: how long after the last word of a host it counts as lost."""
SEND_S: Final = 900.0
"""How long a binary may take to a host: 11 MB at 100 kbit/s."""
_LOST: Final = 255
"""``ssh``'s exit code for its own troubles."""
MOST_ANSWER: Final = 1 << 20
"""Bytes of an answer, without those of a recording. A host that goes on and on is cut off."""
_WORDS: Final = ".words"
"""The end of the name of the file that `ssh` writes its own words into, beside its socket."""
_AT_ONCE: Final = 4
"""Commands on one connection at a time; ``sshd`` allows 10 (``MaxSessions``)."""
STRICT: Final = (
    "BatchMode=yes",  # Nobody is there to answer a question.
    "StrictHostKeyChecking=yes",  # A host that is not known is never taken silently.
    "ConnectTimeout=10",
)
_OPTIONS: Final = (
    *STRICT,
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    # After a crash the connection closes by itself.
    "ControlPersist=60",
    # What a person's configuration may ask for, and a study must not do.
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)


def control_directory(study_id: str) -> Path:
    """Where a study's sockets of shared connections are; nobody else can look in."""
    path = Path(tempfile.gettempdir()) / f"fathom-{study_id[:16]}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise FathometerError("make a directory for ssh", f"{path} is another's", "take it away")
    return path


def socket_name(name: str) -> str:
    """A host's in that directory. Of the host and never of its turn: ``ssh`` does not look whether the
    connection behind a socket goes where it was told to go.
    """
    return hashlib.sha256(name.encode()).hexdigest()[:16]


async def end_connections(study_id: str, processes: Processes) -> None:
    """Ends every shared connection of a study, a crashed runner's too, and takes the directory away. Their
    processes do not bear the study's mark: ``ssh`` writes its title over its environment.
    """
    directory = control_directory(study_id)
    for socket in (entry for entry in directory.iterdir() if entry.suffix != _WORDS):
        await processes.exchange(
            ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "--", "whom-it-goes-to"]
        )
    shutil.rmtree(directory, ignore_errors=True)


def words_file(control: Path) -> Path:
    """Where `ssh` writes what it has to say of a connection."""
    return control.with_name(control.name + _WORDS)


def options(ssh: SshHost, control: Path) -> list[str]:
    """``ssh`` and its options up to the host's name."""
    # Its own words go into a file, apart from those of the host, which could pretend to be `ssh`'s.
    apart = ["-E", str(words_file(control))]
    argv = ["ssh", "-T"]
    for option in _OPTIONS:
        argv += ["-o", option]
    argv += ["-o", f"ControlPath={control}"]
    argv += [*_identity(ssh), *_known(ssh)]
    if ssh.jump is not None:
        # Not -J, which would leave its checks to the configuration.
        strict = [word for option in STRICT for word in ("-o", option)]
        proxy = shlex.join(["ssh", *apart, *strict, *_identity(ssh), *_known(ssh)]).replace("%", "%%")
        argv += ["-o", f"ProxyCommand={proxy} -W '[%h]:%p' -- {shlex.quote(f'ssh://{ssh.jump}')}"]
    argv += ["-p", str(ssh.port)] if "port" in ssh.model_fields_set else []
    argv += ["-l", ssh.user] if ssh.user is not None else []
    return argv


def _identity(ssh: SshHost) -> list[str]:
    return [] if ssh.key is None else ["-i", ssh.key, "-o", "IdentitiesOnly=yes"]


def _known(ssh: SshHost) -> list[str]:
    return [] if ssh.known_hosts is None else ["-o", known_hosts_option(ssh.known_hosts)]


def known_hosts_option(file: str) -> str:
    """Lets `ssh` know the hosts of a file. It splits at spaces what is not quoted, and expands `%`."""
    return f'UserKnownHostsFile="{file.replace("%", "%%")}"'


class SshConnection:
    """To one host of a study."""

    def __init__(self, name: str, ssh: SshHost, study_id: str, control: Path, processes: Processes) -> None:
        self.name = name
        self.ssh = ssh
        self.study_id = study_id
        self._argv = options(ssh, control)
        self._words = words_file(control)
        self._processes = processes
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(
        self, command: str, ask: dict[str, object], within_s: float, most: int
    ) -> tuple[int, bytes, bytes]:
        """Runs `fathom host answer` there, under the name that it has there, with one request: exit code,
        answer, standard error. Raises `Lost` where the host was not reached, or not to the end, and
        `HostError` where it says more than `most` bytes.
        """
        request = {"format": FORMAT, "study": self.study_id, "host": self.name, "ask": ask}
        return await self._ssh([command], json.dumps(request).encode() + b"\n", within_s, most)

    async def shell(self, lines: str) -> bytes:
        """Runs lines of `shell` there, and returns their answer; raises like `ask`, and `HostError` where
        they fail.
        """
        code, out, err = await self._ssh(["sh"], lines.encode(), CALL_S, MOST_ANSWER)
        answer = shell_answer(out)
        if answer is None:
            reason = last_words(err) or last_words(out) or f"exit code {code}"
            what = f'host "{self.name}": it has no POSIX shell for us ({reason})'
            raise HostError("run commands on a host", what, "hosts of a study run Linux, and let `sh` run")
        if code != 0:
            raise self.refused(last_words(err) or f"exit code {code}")
        return answer

    def refused(self, reason: str) -> HostError:
        """The error for what a host could not do."""
        full = "No space left" in reason or "quota exceeded" in reason
        remedy = "make room there" if full else "see docs/studies.md for what a host must have"
        return HostError("use a host", f'host "{self.name}": {reason}', remedy)

    async def send(self, data: bytes, to: str) -> None:
        """Writes a file there, whose name has nothing that a shell would read."""
        # `cd` and redirection are the same in every login shell, fish and csh included.
        code, _, err = await self._ssh([f"cd; cat >{to}"], data, SEND_S, MOST_ANSWER)
        if code != 0:
            raise self.refused(f"{last_words(err) or f'exit code {code}'} (at {to})")

    async def real_address(self) -> str:
        """The address behind the name, which may be one of ``~/.ssh/config``. Nothing is contacted."""
        code, out, err = await self._processes.exchange([*self._argv, "-G", "--", self.ssh.address])
        words = [line.split(" ", 1) for line in out.decode(errors="replace").splitlines()]
        names = [w[1] for w in words if w[0] == "hostname" and len(w) == 2]
        if code != 0 or not names:
            raise explain(self.name, self.ssh, err.decode(errors="replace"))
        return names[0]

    async def close(self) -> None:
        """Ends the shared connection, if there is one."""
        await self._processes.exchange([*self._argv, "-O", "exit", "--", self.ssh.address])

    async def _ssh(
        self, command: list[str], given: bytes, within_s: float, most: int
    ) -> tuple[int, bytes, bytes]:
        async with self._turns:
            try:
                async with asyncio.timeout(within_s):
                    before = _size(self._words)
                    argv = [*self._argv, "-E", str(self._words), "--", self.ssh.address, *command]
                    code, out, err = await self._processes.exchange(argv, given, most)
            except TimeoutError:
                # A connection that hangs is no connection: the next command makes a new one.
                await self.close()
                raise explain(self.name, self.ssh, "timed out") from None
            except OutputTooLong as error:
                await self.close()
                raise self.refused(f"its answer does not end, and was cut at {error.most:,} bytes") from None
        if code == _LOST:
            raise explain(self.name, self.ssh, _tail(self._words, before), last_words(err))
        return code, out, err


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _tail(path: Path, begin: int) -> str:
    """What stands in a file from there on, as far as it is looked at."""
    try:
        with path.open("rb") as file:
            file.seek(max(begin, _size(path) - MOST_LOOKED_AT))
            return file.read(MOST_LOOKED_AT).decode(errors="replace")
    except FileNotFoundError:
        return ""


def last_words(output: bytes) -> str:
    """The last line of what was said, as far as it is shown; empty where nothing was."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:MOST_WORDS] if lines else ""
