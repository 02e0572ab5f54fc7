"""Runs a study: reflectors, probes, recordings, journal; and stops whatever it started, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import uuid
from asyncio.subprocess import Process
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fathometer.errors import FathometerError
from fathometer.study.agree import disagreement
from fathometer.study.hosts import Fabrics, find_fathom, last_line, refuse_ssh, summary_of
from fathometer.study.journal import Journal, finished, first, read_journal
from fathometer.study.lock import LOCK, locked
from fathometer.study.model import Scenario, Study
from fathometer.study.plan import Run, estimate_ns, plan, quick
from fathometer.study.processes import Processes
from fathometer.study.read import read_study, read_text
from fathometer.study.schedule import next_begin
from fathometer.study.stop import clean
from fathometer.study.words import duration_text

LISTEN_S = 20.0
"""How long a reflector may take until it listens."""
Progress = Callable[[str], None]
Listener = tuple[str, str, int]
"""A reflector: host, protocol, port."""


def run_study(file: Path, output: Path, fathom: Path | None, short: bool, progress: Progress) -> int:
    """Runs what is left of a study; tells how many runs there are. Raises `FathometerError` when any run
    failed or the study was interrupted.
    """
    study = read_study(file)
    refuse_ssh(study)
    binary = find_fathom(fathom)
    if short:
        study = quick(study)
    sha256 = _digest(study, file)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FathometerError(
            "run a study", f"{output}: {error.strerror}", "choose another --output"
        ) from None
    with locked(output):
        before = read_journal(output)
        begun = first(before)
        if begun is None and any(e.name != LOCK for e in output.iterdir()):
            raise FathometerError("run a study", f"{output} is not empty", "choose a new --output")
        if begun is not None and (begun.get("sha256"), begun.get("quick")) != (sha256, short):
            raise FathometerError(
                "resume a study",
                f"{output} was begun with another study file, or with another --quick",
                "choose a new --output, or give it what it was begun with",
            )
        study_id = str(begun["id"]) if begun else uuid.uuid4().hex
        runner = _Runner(study, file.parent, output, binary, study_id, short, finished(before), progress)
        journal = runner.journal
        if begun is None:
            journal.note(
                "study.started",
                format=1,
                id=study_id,
                study=study.name,
                sha256=sha256,
                quick=short,
                runs=len(runner.runs),
                fathom=binary,
            )
        else:
            # What a killed runner left holds the ports and the names that we need.
            clean(before, study_id, binary, journal)
            journal.note("study.resumed", fathom=binary)
        try:
            return asyncio.run(runner.all())
        except FathometerError as error:
            journal.note("study.interrupted", reason=str(error))
            raise
        finally:
            journal.close()


def _digest(study: Study, file: Path) -> str:
    """Of the study's text and of its fabrics': a study that goes on must be the one that began."""
    digest = hashlib.sha256(read_text(file).encode())
    for scenario in sorted({h.fabric.scenario for h in study.host if h.fabric}):
        digest.update(b"\0" + read_text(file.parent / scenario).encode())
    return digest.hexdigest()


class _Runner:
    def __init__(
        self,
        study: Study,
        directory: Path,
        output: Path,
        fathom: str,
        study_id: str,
        short: bool,
        done: set[str],
        progress: Progress,
    ) -> None:
        self.study = study
        self.output = output
        # Beside the output and not in it: a report on the output must not read half a run.
        self.unfinished = output.with_name(output.name + ".unfinished")
        self.fathom = fathom
        self.short = short
        self.done = done
        self.progress = progress
        self.runs = plan(study)
        self.journal = Journal(output)
        self.processes = Processes(study_id)
        self.fabrics = Fabrics(fathom, study_id, directory.absolute(), output.absolute())
        self.reflectors: dict[Listener, Process] = {}
        self.failed: list[str] = []

    async def all(self) -> int:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        interrupted = stopping = False

        def interrupt() -> None:
            nonlocal interrupted
            if not interrupted and not stopping and task is not None:
                interrupted = True
                self.progress("interrupted: stopping what was started")
                task.cancel()

        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(sign, interrupt)
        try:
            await self._rounds()
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            stopping = True
            stayed = await self._stop()
        if stayed:
            raise FathometerError("stop a study", stayed[0], f"run `fathom study stop {self.output}`")
        if interrupted:
            raise FathometerError(
                "finish the study",
                f"interrupted after {len(self.done)} of {len(self.runs)} runs",
                "the same command goes on from there",
            )
        if self.failed:
            raise FathometerError(
                "finish the study",
                f"{len(self.failed)} of {len(self.runs)} runs failed, the last: {self.failed[-1]}",
                "the same command tries them again",
            )
        self.journal.note("study.ended", runs=len(self.runs))
        return len(self.runs)

    async def _rounds(self) -> None:
        left = [r for r in self.runs if str(r.directory) not in self.done]
        if not left:
            self.progress(f"all {len(self.runs)} runs are finished already")
            return
        about = duration_text(max(1, estimate_ns(self.study, tuple(left)) // 10**9) * 10**9)
        self.progress(f"{self.study.name}: {len(left)} of {len(self.runs)} runs to go, about {about}")
        schedule = self.study.schedule
        last: float | None = None
        clock = asyncio.get_running_loop().time
        up = False
        for number in range(1, self.study.rounds + 1):
            items = [r for r in left if r.round == number]
            if not items:
                continue
            if last is not None and schedule.every_ns is not None:
                await asyncio.sleep(max(0.0, last + schedule.every_ns / 1e9 - clock()))
            await self._wait_for_hours()
            if not up:
                await self.fabrics.up(self.study, self.processes, self.journal)
                await self._reflect(left)
                self.progress(f"{len(self.reflectors)} reflectors listen")
                up = True
            last = clock()
            failed = len(self.failed)
            if self.study.order == "side-by-side":
                await self._side_by_side(items)
            else:
                for run in items:
                    await self._one(run)
            if len(self.failed) - failed == len(items) and number != self.study.rounds:
                self.progress("every run of this round failed: no further rounds are begun")
                return

    async def _side_by_side(self, runs: list[Run]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(self._one(run))
        except* FathometerError as several:
            error: BaseException = several
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None

    async def _wait_for_hours(self) -> None:
        told = False
        while (wait := (next_begin(self.study.schedule, now := datetime.now(UTC)) - now).total_seconds()) > 0:
            if not told:
                self.progress(
                    f"waiting until {(now + (next_begin(self.study.schedule, now) - now)):%a %H:%M} UTC"
                )
                told = True
            # In steps, as a suspended machine's sleep is longer than asked.
            await asyncio.sleep(min(wait, 60.0))

    async def _reflect(self, runs: list[Run]) -> None:
        for run in runs:
            scenario = run.scenario
            protocol = run.probe.mode[:3]
            listener = (scenario.to, protocol, scenario.port)
            if listener in self.reflectors:
                continue
            host = self.study.host_named(scenario.to)
            # Loopback alone on this machine: a study of one machine opens no port to others.
            listen = "[::]" if host.fabric else bracketed(scenario.address or "127.0.0.1")
            argv = [self.fathom, "echo", "--json", "--listen", f"{protocol}://{listen}:{scenario.port}"]
            log = self.output / "reflectors.log"
            process = await self.processes.start(self.fabrics.on(host, argv), stderr=log)
            said = await _first_line(process)
            if (said.get("event"), said.get("protocol"), said.get("port")) != (
                "listening",
                protocol,
                scenario.port,
            ):
                reason = last_line(log.read_text(errors="replace"))
                raise FathometerError(
                    "start a reflector",
                    f'host "{host.name}", {protocol} port {scenario.port}: {reason}',
                    "choose another `port` for the scenario, or end what listens there",
                )
            self.reflectors[listener] = process

    async def _one(self, run: Run) -> None:
        where = str(run.directory)
        partial = self.unfinished / where
        if partial.exists():
            partial.rename(_free(partial))
        partial.parent.mkdir(parents=True, exist_ok=True)
        self.journal.note("run.started", run=where)
        host = self.study.host_named(run.scenario.source)
        argv = self.fabrics.on(host, self._probe_argv(run, partial.absolute()))
        code, out, err = await self.processes.output(argv)
        summary = summary_of(out)
        reason: str | None = None
        reflector = self.reflectors[run.scenario.to, run.probe.mode[:3], run.scenario.port]
        if reflector.returncode is not None:
            reason = f'the reflector on "{run.scenario.to}" has ended (exit code {reflector.returncode})'
        elif code != 0:
            reason = last_line(err)
        else:
            reason = disagreement(
                partial, run, None if run.scenario.address and host.fabric else run.scenario.port
            )
        label = f"[{run.number}/{len(self.runs)}] round {run.round}/{self.study.rounds}  {run.scenario.label}"
        label += f"  {run.probe.name} {run.size} B"
        if reason is not None:
            self.journal.note("run.failed", run=where, reason=reason)
            self.failed.append(f"{where}: {reason}")
            self.progress(f"{label}  failed: {reason}")
            return
        final = self.output / where
        final.parent.mkdir(parents=True, exist_ok=True)
        if final.exists():  # A crash between the rename and its entry: that run is repeated.
            final.rename(_free(partial))
        partial.rename(final)
        samples, answered = summary.get("samples"), summary.get("answered")
        self.journal.note("run.finished", run=where, samples=samples, answered=answered)
        self.done.add(where)
        self.progress(f"{label}  {answered} of {samples} answered{_mean(summary)}")

    def _probe_argv(self, run: Run, record: Path) -> list[str]:
        scenario, probe = run.scenario, run.probe
        target = self._target(scenario)
        argv = [self.fathom, "probe", f"{bracketed(target)}:{scenario.port}", "--quiet", "--json"]
        argv += ["--record", str(record), "--label", scenario.label, "--size", str(run.size)]
        argv += ["--from", scenario.source, "--to", scenario.to]
        argv += ["--via", scenario.via] if scenario.via else []
        tags = {**scenario.tags, "study": self.study.name, "round": str(run.round)}
        tags |= {"quick": "true"} if self.short else {}
        for key, value in tags.items():
            argv += ["--tag", f"{key}={value}"]
        if probe.mode.startswith("udp"):
            argv.append("--udp")
        if probe.interval_ns is None:
            argv.append("--ping-pong")
        else:
            argv += ["--every", duration_text(probe.interval_ns)]
        argv += ["--count", str(probe.count)] if probe.count is not None else []
        argv += ["--for", duration_text(probe.for_ns)] if probe.for_ns is not None else []
        argv += ["--warm-up", str(probe.warm_up), "--connections", str(probe.connections)]
        argv += ["--allow-high-rate"] if self.study.limits.allow_high_rate else []
        # The emulated network has no metadata service, and asking for one is traffic.
        argv += ["--cloud", "off"] if self.study.host_named(scenario.source).fabric else []
        return argv

    def _target(self, scenario: Scenario) -> str:
        to = self.study.host_named(scenario.to)
        return scenario.address or (to.fabric.host if to.fabric else "127.0.0.1")

    async def _stop(self) -> list[str]:
        # The signal handlers stay: a second Ctrl-C does not cut this short.
        await self.processes.stop_all()
        stayed = await self.fabrics.down(self.processes, self.journal)
        for directory, _, _ in os.walk(self.unfinished, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()  # Only what is empty.
        return stayed


async def _first_line(process: Process) -> dict[str, Any]:
    if process.stdout is None:
        return {}
    try:
        line = await asyncio.wait_for(process.stdout.readline(), LISTEN_S)
        value = json.loads(line)
    except (TimeoutError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _free(path: Path) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return free


def _mean(summary: dict[str, object]) -> str:
    rtt = summary.get("rtt_ns")
    mean = rtt.get("mean") if isinstance(rtt, dict) else None
    return f", mean {mean / 1000:,.1f} µs of {rtt['count']}" if isinstance(rtt, dict) and mean else ""


def bracketed(address: str) -> str:
    """An address as it stands before a port."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
