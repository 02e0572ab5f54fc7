"""What a host can be asked, with types, and a host made ready for a study."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, TypeVar

from fathometer.study.ssh import shell
from fathometer.study.ssh.answers import (
    BadAnswer,
    Greeting,
    Look,
    RefusedByHost,
    Said,
    State,
    begun,
    read_cleared,
    read_done,
    read_greeting,
    read_jobs,
    read_look,
    read_said,
    read_started,
    read_sums,
)
from fathometer.study.ssh.binary import Binary, binary_for
from fathometer.study.ssh.connection import CALL_S, MOST_ANSWER, SshConnection, last_words
from fathometer.study.ssh.holders import Holder, read_holders
from fathometer.study.ssh.mirror import Mirror
from fathometer.study.ssh.trouble import HostError, Lost

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Between attempts to reach a host that was lost; each is twice the last."""
CLEAR_S: Final = 25.0
"""How long a host may take to end what runs there: 5 s from SIGTERM to SIGKILL, and 5 s more."""
ROOM_KIB: Final = 1024
"""What must be free on a host beside the binary, for a study to begin there."""
_T = TypeVar("_T")


class Remote:
    """A host of a study, reached over SSH."""

    def __init__(self, connection: SshConnection, tell: Callable[[str], None], sha256: str = "") -> None:
        """`tell` hears ``lost`` and ``back``; `sha256` is of the binary that is there, where it is known."""
        self.name = connection.name
        self.connection = connection
        self._tell = tell
        self._sha256 = sha256
        self._lost = self._given_up = False

    async def greet(self, sha256: str) -> Greeting:
        """Asks what it is, and which binary it has in that one's place; refuses what runs no Linux."""
        try:
            greeting = read_greeting(await self.connection.shell(shell.greet(sha256)))
        except BadAnswer as error:
            raise self.misunderstood(error) from None
        if greeting.system != "Linux":
            what = f'host "{self.name}" runs {greeting.system}'
            raise HostError("use a host", what, "hosts of a study run Linux")
        return greeting

    async def identify(self, given: dict[str, Binary]) -> tuple[Binary, Greeting]:
        """Which binary it is to have, by its machine; and what it says of itself. Leaves nothing there."""
        # Mostly there is one binary alone.
        first = next(iter(given.values()))
        greeting = await self.greet(first.sha256)
        binary = binary_for(self.name, greeting.machine, given)
        return binary, greeting if binary is first else await self.greet(binary.sha256)

    async def bring(self, binary: Binary, greeting: Greeting) -> None:
        """Sees to it that the binary is there, by its hash, and runs."""
        if greeting.sha256 != binary.sha256:
            await self._copy(binary, greeting)
        try:
            await self.connection.shell(shell.attempt(binary.sha256))
        except Lost:
            raise
        except HostError as error:
            what = f"{binary.path} does not run there ({error.object})"
            remedy = "name a static binary with --remote-binary (`make dist` builds one)"
            raise HostError("use a host", what, remedy) from None
        self._sha256 = binary.sha256

    async def _copy(self, binary: Binary, greeting: Greeting) -> None:
        data = binary.path.read_bytes()
        needed = len(data) // 1024 + ROOM_KIB
        if greeting.free_kib < needed:
            raise HostError(
                "copy a binary",
                f'host "{self.name}": no room in ~/.fathom, '
                f"{greeting.free_kib:,} KiB are free and {needed:,} needed",
                "make room there",
            )
        part = shell.part_path(self.connection.study_id, secrets.token_hex(4))
        await self.connection.send(data, part)
        await self.connection.shell(shell.install(part, binary.sha256))

    async def jobs(self) -> dict[str, State]:
        """What the study left there, by name."""
        return self._read(read_jobs, await self._call(CALL_S, MOST_ANSWER, "hello", {}))

    async def start(self, until: float, job: str, limit_s: int, argv: list[str]) -> tuple[State, int]:
        """Starts the binary with these arguments as a job, once however often it is called; tells its state,
        and its age in seconds. The program runs in the job's directory.
        """
        return await self._insist(until, read_started, "start", job=job, limit_s=limit_s, argv=argv)

    async def look(self, until: float, job: str, budget: int, mirror: Mirror | None = None) -> Look:
        """Looks at a job; with a mirror, asks for what is new in its recording, so many bytes at most."""
        want = mirror.wants() if mirror else []
        return await self._insist(
            until, read_look, "look", most=MOST_ANSWER + budget, job=job, budget=budget, want=want
        )

    async def said(self, until: float, job: str) -> Said:
        """What a job wrote to its standard output and error: the last 512 KiB of each."""
        return await self._insist(until, read_said, "said", most=2 * MOST_ANSWER, job=job)

    async def sums(self, until: float, job: str) -> dict[str, str]:
        """The SHA-256 of each file of a job's recording."""
        return await self._insist(until, read_sums, "sums", job=job)

    async def drop(self, until: float, job: str) -> None:
        """Ends a job if it runs, and takes away all that it left."""
        await self._insist(until, read_done, "drop", job=job)

    async def holders(self, port: int) -> list[Holder]:
        """The reflectors of studies of ours that run there at a port."""
        try:
            return read_holders(await self.connection.shell(shell.reflectors(port)))
        except BadAnswer as error:
            raise self.misunderstood(error) from None

    async def clear(self) -> int:
        """Ends all that the study started there, and takes it away; tells how many processes that were."""
        if not self._sha256:
            # No binary came there, so nothing was started.
            await self.connection.shell(shell.forget(self.connection.study_id))
            return 0
        answer = await self._call(CLEAR_S, MOST_ANSWER, "clear", {})
        return self._read(read_cleared, answer)

    def misunderstood(self, error: BadAnswer) -> HostError:
        """The error for an answer that is none."""
        return HostError(
            "use a host",
            f'host "{self.name}": its answer is not understood: {error}',
            "is it what you think it is?",
        )

    def _read(self, read: Callable[[bytes], _T], answer: bytes) -> _T:
        try:
            return read(answer)
        except BadAnswer as error:
            raise self.misunderstood(error) from None
        except RefusedByHost as error:
            raise self.connection.refused(f"{error}") from None

    async def _call(self, within_s: float, most: int, verb: str, fields: dict[str, object]) -> bytes:
        command = f"{shell.binary_path(self._sha256)} host answer"
        code, out, err = await self.connection.ask(command, {"verb": verb, **fields}, within_s, most)
        if not begun(out):
            reason = last_words(err) or f"exit code {code}"
            raise self.connection.refused(f"{reason} (at `{verb}`)")
        return out

    async def _insist(
        self,
        until: float,
        read: Callable[[bytes], _T],
        verb: str,
        *,
        most: int = MOST_ANSWER,
        **fields: object,
    ) -> _T:
        """Asks, and while the host is lost again and again until then (in the loop's time). One that was
        waited for in vain is tried once.
        """
        clock = asyncio.get_running_loop().time
        pause = FIRST_PAUSE_S
        while True:
            try:
                answer = await self._call(CALL_S, most, verb, fields)
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
                return self._read(read, answer)
