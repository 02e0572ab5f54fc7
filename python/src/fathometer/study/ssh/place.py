"""Reflectors and probes on a host over SSH."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from fathometer.study.deadlines import deadline_ns, most_bytes
from fathometer.study.hosts import last_line
from fathometer.study.places import (
    LISTEN_S,
    Command,
    ProbeExit,
    echo_words,
    is_taken,
    listens,
    not_listening,
)
from fathometer.study.plan import PlannedRun
from fathometer.study.ssh.answers import BadAnswer, Said, State
from fathometer.study.ssh.holders import Holder, remedy
from fathometer.study.ssh.mirror import Mirror
from fathometer.study.ssh.remote import Remote
from fathometer.study.ssh.trouble import HostError

PATIENCE_S: Final = 900.0
"""How long a host that was lost is tried, from the moment on at which its run should have ended."""
LOOK_S: Final = 5.0
"""From one look at a run to the next."""
SOONEST_S: Final = 0.2
GLIMPSE_BYTES: Final = 256 << 10
"""What a look fetches while the probe runs: 0.4 Mbit/s at most on the path that it may be measuring."""
GULP_BYTES: Final = 4 << 20
"""What a look fetches when the probe has ended."""


class RemoteReflector:
    """A reflector on a host over SSH."""

    def __init__(self, remote: Remote, job: str, ends: float) -> None:
        self._remote = remote
        self._job = job
        self._ends = ends

    async def failure(self) -> str | None:
        """Why it no longer listens, as far as its host knows."""
        try:
            look = await self._remote.look(_now() + PATIENCE_S, self._job, 0)
        except HostError as error:
            return f"{error}"
        if not look.ended:
            return None
        return f'the reflector on "{self._remote.name}" has ended ({look.state})'

    def lasts(self, seconds: float) -> bool:
        """Whether its limit is further away."""
        return _now() + seconds < self._ends

    async def stop(self) -> None:
        """Ends it, and takes away what it left."""
        await self._remote.drop(_now() + PATIENCE_S, self._job)


class RemotePlace:
    """A host over SSH."""

    def __init__(self, remote: Remote, address: str) -> None:
        self._remote = remote
        self._address = address

    @property
    def address(self) -> str:
        """As SSH has it."""
        return self._address

    async def reflect(
        self,
        protocol: str,
        port: int,
        address: str | None,  # noqa: ARG002 - which of its addresses that is, a host behind NAT does not know
        limit_s: float,
    ) -> RemoteReflector:
        """Starts a reflector, or finds the one that a crash left, and waits until it listens."""
        remote, job = self._remote, f"reflector-{protocol}-{port}"
        until = _now() + PATIENCE_S
        _, age = await remote.start(until, job, int(limit_s), echo_words(protocol, str(port)))
        deadline = _now() + LISTEN_S
        while True:
            output = await remote.said(until, job)
            if listens(output.out, protocol, port):
                return RemoteReflector(remote, job, _now() + limit_s - age)
            state = (await remote.look(until, job, 0)).state
            if not state.running or _now() > deadline:
                await self._give_up(job, until, protocol, port)
            await asyncio.sleep(SOONEST_S)

    async def _give_up(self, job: str, until: float, protocol: str, port: int) -> None:
        output = await self._remote.said(until, job)
        await self._remote.drop(until, job)
        remote = self._remote
        holders: list[Holder] = []
        # Where the host does not say it, what the reflector said is told as it is.
        with contextlib.suppress(HostError):
            holders = [h for h in await remote.holders(port) if h.is_in_the_way_of(protocol)]
        known = [remedy(h, remote.connection.study_id, remote.connection.ssh) for h in holders[:1]]
        taken = bool(known) or is_taken(output.out, port)
        raise not_listening(remote.name, protocol, port, last_line(output.err), *known, is_taken=taken)

    async def probe(self, run: PlannedRun, command: Command, into: Path) -> ProbeExit:
        """Runs a probe to its end, or follows the one that a crash left; the copy of its recording grows
        meanwhile. What it left on the host is taken away when it is here, and when it failed.
        """
        remote, job = self._remote, job_of(run)
        expected, limit_s = _now() + run.estimate_ns / 1e9, deadline_ns(run) // 10**9
        mirror = Mirror(into, most_bytes(run))
        # Without the binary's name, which is the host's to know; the recording lies in the job's directory.
        _, *argv = command("fathom", "rec")
        await remote.start(_now() + PATIENCE_S, job, limit_s, argv)
        with mirror.being_written():
            state = await self._follow(job, mirror, expected, _now() + limit_s + PATIENCE_S)
        until = _now() + PATIENCE_S
        output = await remote.said(until, job)
        different = mirror.differences(await remote.sums(until, job))
        await remote.drop(until, job)
        if not state.succeeded or different is None:
            return _ended(state, output, remote.name)
        return ProbeExit(
            1, output.out, f'the recording of host "{remote.name}" did not arrive whole: {different}'
        )

    async def _follow(self, job: str, mirror: Mirror, expected: float, over: float) -> State:
        """Looks until the probe has ended and all is here. From `over` on it cannot still run."""
        budget, pause = GLIMPSE_BYTES, SOONEST_S
        while True:
            look = await self._remote.look(max(_now(), expected) + PATIENCE_S, job, budget, mirror)
            try:
                more = mirror.take(look, budget)
            except BadAnswer as error:
                raise self._remote.misunderstood(error) from None
            if not look.ended and _now() > over:
                raise self._remote.connection.refused("the probe still runs there, long after its time limit")
            if look.ended:
                if not more:
                    return look.state
                budget = GULP_BYTES
                continue
            # Ever further apart, from its begin on and again from its expected end on.
            left = expected - _now()
            await asyncio.sleep(min(pause, left) if left > 0 else pause)
            pause = min(2 * pause, LOOK_S) if left > pause or left <= 0 else SOONEST_S


def job_of(run: PlannedRun) -> str:
    """A run's name on a host."""
    return str(run.directory).replace("/", ",")


def _ended(state: State, output: Said, host: str) -> ProbeExit:
    if state.succeeded:
        return ProbeExit(0, output.out, output.err)
    if state.name == "exited":
        return ProbeExit(state.number or 1, output.out, f'host "{host}": {last_line(output.err)}')
    return ProbeExit(1, output.out, f'the probe on host "{host}" did not end by itself: {state}')


def _now() -> float:
    return asyncio.get_running_loop().time()
