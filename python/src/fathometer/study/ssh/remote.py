"""The verbs of ``host.sh`` with types, and a host made ready for a study."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fathometer.study.ssh.binary import Binary, binary_for
from fathometer.study.ssh.connection import SshConnection
from fathometer.study.ssh.mirror import Look, Mirror, read_look, read_sums
from fathometer.study.ssh.trouble import HostError, Lost

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Between attempts to reach a host that was lost; each is twice the last."""
CLEAR_S: Final = 25.0
"""How long a host may take to end what runs there: 5 s from SIGTERM to SIGKILL, and 5 s more."""
ROOM_KIB: Final = 1024
"""What must be free on a host beside the binary, for a study to begin there."""


@dataclass(frozen=True)
class Greeting:
    """What a host says of itself."""

    machine: str
    """``uname -m``."""
    home: str
    free_kib: int
    """That a user may still write there."""
    jobs: dict[str, str]
    """What the study left there, by name: states, as `Look` has them."""


@dataclass(frozen=True)
class Said:
    """What a job wrote; at most 1 MiB of both together."""

    out: str
    err: str


class Remote:
    """A host of a study, reached over SSH."""

    def __init__(self, connection: SshConnection, tell: Callable[[str], None]) -> None:
        """`tell` hears ``lost`` and ``back``."""
        self.name = connection.name
        self.connection = connection
        self._tell = tell
        self.binary = ""
        """Where the binary is on the host."""
        self.home = ""
        self._lost = self._given_up = False

    async def insist(self, until: float, verb: str, *words: str) -> bytes:
        """Calls a verb, and while the host is lost again and again until then (in the loop's time). One that
        was waited for in vain is tried once.
        """
        clock = asyncio.get_running_loop().time
        pause = FIRST_PAUSE_S
        while True:
            try:
                answer = await self.connection.call(verb, *words)
            except Lost:
                if not self._lost:
                    self._lost = True
                    self._tell("lost")
                if clock() >= until or self._given_up:
                    self._given_up = True
                    raise
                await asyncio.sleep(min(pause, max(0.0, until - clock())))
                pause = min(2 * pause, LONGEST_PAUSE_S)
            else:
                if self._lost:
                    self._lost = self._given_up = False
                    self._tell("back")
                return answer

    async def hello(self) -> Greeting:
        """Asks who it is; refuses what runs no Linux."""
        lines = (await self.connection.call("hello")).decode(errors="replace").splitlines()
        system = lines[0] if lines else "nothing that we know"
        if system != "Linux":
            what = f'host "{self.name}" runs {system}'
            raise HostError("use a host", what, "hosts of a study run Linux")
        machine, home, free_kib = lines[1:4]
        self.home = home
        jobs = {name: state for state, _, name in (line.partition(" ") for line in lines[4:])}
        return Greeting(machine, home, int(free_kib), jobs)

    async def bring(self, greeting: Greeting, given: dict[str, Binary]) -> Binary:
        """Sees to it that the binary for its machine is there, by its hash, and runs."""
        binary = binary_for(self.name, greeting.machine, given)
        if (await self.connection.call("there", binary.sha256)).strip() != b"yes":
            data = binary.path.read_bytes()
            needed = len(data) // 1024 + ROOM_KIB
            if greeting.free_kib < needed:
                raise HostError(
                    "copy a binary",
                    f'host "{self.name}": no room in {greeting.home}/.fathom, '
                    f"{greeting.free_kib:,} KiB are free and {needed:,} needed",
                    "make room there",
                )
            # A name of this attempt's own: an earlier one, cut off, may still be writing.
            part = f".fathom/bin/.part-{self.connection.study_id}-{secrets.token_hex(4)}"
            await self.connection.send(data, part)
            await self.connection.call("install", part, binary.sha256)
        try:
            self.binary = (await self.connection.call("try", binary.sha256)).decode().strip()
        except Lost:
            raise
        except HostError as error:
            what = f"{binary.path} does not run there ({error.object})"
            remedy = "name a static binary with --remote-binary (`make dist` builds one)"
            raise HostError("use a host", what, remedy) from None
        return binary

    async def start(self, until: float, job: str, limit_s: int, argv: list[str]) -> tuple[str, int]:
        """Starts a job, once however often it is called; tells its state, and its age in seconds."""
        answer = await self.insist(until, "start", job, str(limit_s), *argv)
        state, _, age = answer.decode().strip().partition(" ")
        return state, int(age)

    async def look(self, until: float, job: str, budget: int, mirror: Mirror | None = None) -> Look:
        """Looks at a job; with a mirror, fetches what is new in its recording, so many bytes at most."""
        answer = await self.insist(until, "look", job, str(budget), *(mirror.wants() if mirror else ()))
        try:
            return read_look(answer)
        except (ValueError, IndexError) as error:
            raise self.connection.refused(f"its answer is not understood: {error}") from None

    async def said(self, until: float, job: str) -> Said:
        """What a job wrote to its standard output and error."""
        answer = await self.insist(until, "said", job)
        # As a look at a job without a state of its own.
        texts = {p.file.name: p.data.decode(errors="replace") for p in read_look(b"-\n" + answer).pieces}
        return Said(texts.get("out", ""), texts.get("err", ""))

    async def sums(self, until: float, job: str) -> dict[str, str]:
        """The SHA-256 of each file of a job's recording."""
        return read_sums(await self.insist(until, "sums", job))

    async def drop(self, until: float, job: str) -> None:
        """Ends a job if it runs, and takes away all that it left."""
        await self.insist(until, "drop", job)

    async def clear(self) -> int:
        """Ends all that the study started there, and takes it away; tells how many processes that were."""
        return int((await self.connection.call("clear", within_s=CLEAR_S)).strip() or b"0")
