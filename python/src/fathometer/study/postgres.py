"""A PostgreSQL of a study's own: started on this machine or a host of a fabric, and thrown away in the end.

It is the distribution's, with its usual settings; everybody who reaches its port is let in, and nothing but
what the study asks is in it. So it is never started on a host over SSH.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.homes import Home, clear_homes
from fathometer.study.processes import Processes

USER: Final = "reader"
DATABASE: Final = "study"
_NOBODY: Final = 65_534
_READY: Final = "database system is ready to accept connections"
_LOOK_S: Final = 0.02


class PostgresServer:
    """One that listens."""

    def __init__(self, process: Process, processes: Processes, host: str, home: Home) -> None:
        self._process = process
        self._processes = processes
        self._host = host
        self._home = home

    async def failure(self) -> str | None:
        """Why it no longer listens."""
        code = self._process.returncode
        return None if code is None else f'PostgreSQL on "{self._host}" has ended (exit code {code})'

    def lasts(self, seconds: float) -> bool:  # noqa: ARG002 - it ends with us
        """It has no limit."""
        return True

    async def stop(self) -> None:
        """Ends it, and takes its data away."""
        try:
            await self._processes.stop(self._process)
        finally:
            self._home.take_away()


class Postgres:
    """Starts servers, with the newest programs of this machine."""

    def __init__(self, processes: Processes, host: str, port: int) -> None:
        self._processes = processes
        self._host = host
        self._port = port

    async def start(self, within: list[str], listen: str, limit_s: float) -> PostgresServer:
        """One that listens when this returns; `within` is what runs a command on its host."""
        programs = _programs()
        if programs is None:
            what = f'host "{self._host}": no PostgreSQL server is installed here'
            remedy = "install it (Debian: postgresql), or leave `start` out where one listens already"
            raise FathometerError("start PostgreSQL", what, remedy)
        await asyncio.to_thread(clear_homes)
        home = Home()
        try:
            return await self._start(within, programs, home, listen, limit_s)
        except BaseException:
            home.take_away()
            raise

    async def _start(
        self, within: list[str], programs: Path, home: Home, listen: str, limit_s: float
    ) -> PostgresServer:
        as_user: list[str] = []
        data, log = home.path / "data", home.path / "log"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            # It refuses to run as root.
            os.chown(data, _NOBODY, _NOBODY)
            as_user = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--"]
        init = [str(programs / "initdb"), "-U", USER, "-N", "--auth=trust", "-E", "UTF8", "--no-locale"]
        await self._made([*as_user, *init, "-D", str(data)], None)
        server = str(programs / "postgres")
        make = f"CREATE DATABASE {DATABASE};\n".encode()
        await self._made([*as_user, server, "--single", "-D", str(data), "postgres"], make)
        (data / "pg_hba.conf").write_text("host all all all trust\n")
        settings = (f"port={self._port}", f"listen_addresses={listen}", "unix_socket_directories=")
        words = [word for setting in settings for word in ("-c", setting)]
        argv = [*within, *as_user, server, "-D", str(data), *words]
        process = await self._processes.start(argv, stderr=log)
        try:
            async with asyncio.timeout(limit_s):
                while _READY not in log.read_text(errors="replace") and process.returncode is None:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass
        except BaseException:
            await self._processes.stop(process)
            raise
        said = log.read_text(errors="replace")
        if _READY not in said or process.returncode is not None:
            await self._processes.stop(process)
            raise self._failed(said)
        return PostgresServer(process, self._processes, self._host, home)

    async def _made(self, argv: list[str], given: bytes | None) -> None:
        code, out, err = await self._processes.exchange(argv, given)
        if code:
            raise self._failed((err or out).decode(errors="replace"))

    def _failed(self, said: str) -> FathometerError:
        """Why, by the line of its log that says so."""
        lines = said.strip().splitlines() or ["it does not begin to listen"]
        why = next((line for line in lines if "FATAL" in line or "could not" in line), lines[-1])
        remedy = "choose another `port` for the scenario, or end what listens there"
        return FathometerError(
            "start PostgreSQL", f'host "{self._host}", port {self._port}: {why.strip()}', remedy
        )


def _programs() -> Path | None:
    """Where the server's programs are: Debian keeps them out of PATH, a directory for each version."""
    found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    in_path = shutil.which("initdb")
    return Path(in_path).resolve().parent if in_path else None
