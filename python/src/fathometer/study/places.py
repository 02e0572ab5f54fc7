"""Where reflectors and probes run: this machine, a fabric's host (`LocalPlace`), or a host over SSH
(`ssh.place`). A runner sees no difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from fathometer.errors import FathometerError
from fathometer.study.hosts import Fabrics, last_line
from fathometer.study.model import Host
from fathometer.study.plan import PlannedRun
from fathometer.study.postgres import Postgres
from fathometer.study.processes import Processes

LISTEN_S: Final = 20.0
"""How long a reflector may take until it listens."""

Command = Callable[[str, str], list[str]]
"""A probe's command line, of the binary and the recording's directory as they are called where it runs."""


@dataclass(frozen=True)
class ProbeExit:
    """How a probe ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


class Reflector(Protocol):
    """One that listens."""

    async def failure(self) -> str | None:
        """Why it no longer does; None: it does."""

    def lasts(self, seconds: float) -> bool:
        """Whether it will not end by itself so soon."""

    async def stop(self) -> None:
        """Ends it."""


class Venue(Protocol):
    """A host of a study."""

    @property
    def address(self) -> str:
        """Where a probe on another host finds it, unless the scenario says so."""

    async def reflect(self, protocol: str, port: int, address: str | None, limit_s: float) -> Reflector:
        """Starts a reflector that listens when this returns; where nobody ends it, it ends after the limit,
        if it is on another machine. `address` is the scenario's.
        """

    async def probe(self, run: PlannedRun, command: Command, into: Path) -> ProbeExit:
        """Runs a probe to its end; its recording grows in `into` meanwhile."""


class LocalReflector:
    """A reflector that is a process of ours."""

    def __init__(self, process: Process, processes: Processes, host: str) -> None:
        self._process = process
        self._processes = processes
        self._host = host

    async def failure(self) -> str | None:
        """Why it no longer listens."""
        code = self._process.returncode
        return None if code is None else f'the reflector on "{self._host}" has ended (exit code {code})'

    def lasts(self, seconds: float) -> bool:  # noqa: ARG002 - it ends with us
        """It has no limit."""
        return True

    async def stop(self) -> None:
        """Ends it."""
        await self._processes.stop(self._process)


class LocalPlace:
    """This machine, or a host of a fabric."""

    def __init__(self, host: Host, fathom: str, processes: Processes, fabrics: Fabrics, log: Path) -> None:
        self._host = host
        self._fathom = fathom
        self._processes = processes
        self._fabrics = fabrics
        self._log = log

    @property
    def address(self) -> str:
        """A fabric's hosts know each other by name."""
        return self._host.fabric.host if self._host.fabric else "127.0.0.1"

    async def reflect(self, protocol: str, port: int, address: str | None, limit_s: float) -> Reflector:  # noqa: ARG002
        """Starts a reflector, and waits until it listens."""
        if protocol == "postgres":
            listen = "*" if self._host.fabric else address or "127.0.0.1"
            server = Postgres(self._processes, self._host.name, port)
            return await server.start(self._fabrics.on(self._host, []), listen, LISTEN_S)
        # Loopback alone on this machine: a study of one machine opens no port to others.
        listen = "[::]" if self._host.fabric else bracketed(address or "127.0.0.1")
        argv = [self._fathom, *echo_words(protocol, f"{listen}:{port}")]
        process = await self._processes.start(self._fabrics.on(self._host, argv), stderr=self._log)
        answer = ""
        if process.stdout is not None:
            with contextlib.suppress(TimeoutError, ValueError):
                async with asyncio.timeout(LISTEN_S):
                    while not listens(answer, protocol, port) and (line := await process.stdout.readline()):
                        answer += line.decode(errors="replace")
        if not listens(answer, protocol, port):
            reason = last_line(self._log.read_text(errors="replace"))
            raise not_listening(self._host.name, protocol, port, reason, is_taken=is_taken(answer, port))
        return LocalReflector(process, self._processes, self._host.name)

    async def probe(self, run: PlannedRun, command: Command, into: Path) -> ProbeExit:  # noqa: ARG002 - it takes its time
        """Runs a probe to its end."""
        argv = self._fabrics.on(self._host, command(self._fathom, str(into)))
        return ProbeExit(*await self._processes.output(argv))


def echo_words(protocol: str, listen: str) -> list[str]:
    """A reflector's command line, after its binary."""
    if protocol == "tds":
        # Beside its port it echoes, wherever. Who wants encryption gets it.
        address, _, port = listen.rpartition(":")
        allowed = ["--allow", "0.0.0.0/0", "--allow", "::/0"]
        return ["echo", "--json", "--listen", f"tcp://{address}:0", "--tds", port, "--tds-encrypt", *allowed]
    if protocol == "stamp":
        # It listens for echoes, too, wherever; nobody is told where.
        return ["echo", "--json", "--listen", "udp://127.0.0.1:0", "--stamp", listen]
    if protocol == "throughput":
        # And for echoes, on any port: it listens for tests on the addresses that it listens on for those.
        host, colon, port = listen.rpartition(":")
        return ["echo", "--json", "--listen", f"tcp://{host}{colon}0", "--throughput", port]
    return ["echo", "--json", "--listen", f"{protocol}://{listen}"]


def listens(lines: str, protocol: str, port: int) -> bool:
    """Whether one of a reflector's lines says that it listens there."""
    name = "iperf3" if protocol == "throughput" else protocol
    return any(e.get("protocol") == name for e in _events(lines, "listening", port))


def is_taken(lines: str, port: int) -> bool:
    """Whether one of a reflector's lines says that another socket has the port."""
    return any(True for _ in _events(lines, "address_in_use", port))


def _events(lines: str, event: str, port: int) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        try:
            answer: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(answer, dict) and (answer.get("event"), answer.get("port")) == (event, port):
            yield answer


class PortTakenError(FathometerError):
    """A reflector does not listen, as something else has its port on the host."""

    def __init__(self, operation: str, object: str, remedy: str, port: int) -> None:  # noqa: A002
        super().__init__(operation, object, remedy)
        self.port = port


def not_listening(
    host: str, protocol: str, port: int, reason: str, remedy: str | None = None, *, is_taken: bool
) -> FathometerError:
    """The error for a reflector that does not come to listen. `remedy`: what helps, where that is known."""
    operation, what = "start a reflector", f'host "{host}", {protocol} port {port}: {reason}'
    remedy = remedy or (
        "end what listens there (the reflector of a study whose runner was killed: `fathom study stop` "
        "with that study's --output), or choose another `port` for the scenario"
    )
    if is_taken:
        return PortTakenError(operation, what, remedy, port)
    return FathometerError(operation, what, remedy)


def bracketed(address: str) -> str:
    """An address as it stands before a port."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
