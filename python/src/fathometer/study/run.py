"""Runs a study: reflectors, probes, recordings, journal; and stops whatever it started, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.dataset.truth import MADE, PLACES
from fathometer.errors import FathometerError
from fathometer.study.agree import disagreement
from fathometer.study.commands import client_command, limit_command, probe_command, query_command
from fathometer.study.deadlines import round_deadline_ns
from fathometer.study.hosts import MOST_WORDS, Fabrics, ProbeSummary, find_fathom, last_line, summary_of
from fathometer.study.journal import Journal, finished, first, read_journal, ssh_left
from fathometer.study.limit import Limit
from fathometer.study.lock import LOCK, locked
from fathometer.study.model import Study
from fathometer.study.outline import outline_of
from fathometer.study.places import Command, LocalPlace, Reflector, Venue
from fathometer.study.plan import PlannedRun, estimate_ns, plan, quick
from fathometer.study.policy import Policy
from fathometer.study.policy_file import contents, from_job, places
from fathometer.study.postgres import PostgresServer
from fathometer.study.processes import Processes
from fathometer.study.query import Query
from fathometer.study.read import read_study, read_text
from fathometer.study.results import result
from fathometer.study.schedule import next_begin
from fathometer.study.ssh.binary import Binary, binaries
from fathometer.study.ssh.fleet import Fleet, ssh_hosts
from fathometer.study.ssh.place import job_of
from fathometer.study.ssh.trouble import HostError
from fathometer.study.stop import clean
from fathometer.study.together import together
from fathometer.study.words import duration_text
from fathometer.writing import make_directories

Progress = Callable[[str], None]
Listener = tuple[str, str, int]
"""A reflector: host, protocol, port."""


def run_study(
    file: Path,
    output: Path,
    fathom: Path | None,
    short: bool,
    progress: Progress,
    remote: Iterable[Path] = (),
) -> int:
    """Runs what is left of a study; tells how many runs there are. `remote` are the binaries that hosts over
    SSH may get. Raises `FathometerError` when any run failed or the study was interrupted.
    """
    study = read_study(file)
    binary = find_fathom(fathom)
    given = binaries(remote, Path(binary)) if ssh_hosts(study) else {}
    if short:
        study = quick(study)
    sha256 = _digest(study, file)
    try:
        # Recordings name hosts: what is in it is its owner's alone.
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
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
                f"{output} was begun otherwise: with another study file, scenario, policy or --quick",
                "choose a new --output, or give it what it was begun with",
            )
        study_id = str(begun["id"]) if begun else uuid.uuid4().hex
        runner = _Runner(study, file.parent, output, binary, study_id, given, short, before, progress)
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
                plan=outline_of(study, runner.runs),
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
    """Of the texts of study, fabrics and policies: a study that goes on must be the one that began."""
    digest = hashlib.sha256(read_text(file).encode())
    for scenario in sorted({h.fabric.scenario for h in study.host if h.fabric}):
        digest.update(b"\0" + read_text(file.parent / scenario).encode())
    for _, data in sorted(contents(study, file.parent).items()):
        digest.update(b"\0" + data)
    return digest.hexdigest()


class _Runner:
    def __init__(
        self,
        study: Study,
        directory: Path,
        output: Path,
        fathom: str,
        study_id: str,
        given: dict[str, Binary],
        short: bool,
        before: list[dict[str, Any]],
        progress: Progress,
    ) -> None:
        self.study = study
        self.study_id = study_id
        self.directory = directory.absolute()
        self.policies = contents(study, self.directory)
        self.output = output
        self.given = given
        # Beside the output and not in it: a report on the output must not read half a run.
        self.unfinished = output.with_name(output.name + ".unfinished")
        self.fathom = fathom
        self.short = short
        self.done = finished(before)
        self.left = ssh_left(before)
        self._tell = progress
        self.runs = plan(study)
        self.journal = Journal(output)
        self.processes = Processes(study_id)
        self.fabrics = Fabrics(fathom, study_id, self.directory, output.absolute())
        self.fleet = Fleet(study_id, self.processes, self.journal, self.progress)
        self.places: dict[str, Venue] = {}
        self.reflectors: dict[Listener, Reflector] = {}
        self.failed: list[str] = []

    def progress(self, words: str) -> None:
        """Says what goes on; hosts may have said it. A terminal that has gone is no reason to stop."""
        with contextlib.suppress(OSError):
            self._tell(cleaned(words))

    async def all(self) -> int:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        interrupted = stopping = False

        def interrupt() -> None:
            nonlocal interrupted
            if not interrupted and not stopping and task is not None:
                interrupted = True
                task.cancel()
                self.progress("interrupted: stopping what was started")

        for sign in _ending_signals():
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
                f"interrupted after {len(self.done)} of {count(len(self.runs), 'run')}",
                "the same command goes on from there",
            )
        if self.failed:
            raise FathometerError(
                "finish the study",
                f"{len(self.failed)} of {count(len(self.runs), 'run')} failed, the last: {self.failed[-1]}",
                "the same command tries them again; with a file that was changed, choose a new --output",
            )
        self.journal.note("study.ended", runs=len(self.runs))
        return len(self.runs)

    async def _rounds(self) -> None:
        left = [r for r in self.runs if str(r.directory) not in self.done]
        if not left:
            self.progress(f"finished already: {count(len(self.runs), 'run')}")
            return
        about = duration_text(max(1, estimate_ns(self.study, tuple(left)) // 10**9) * 10**9)
        self.progress(
            f"{self.study.name}: {len(left)} of {count(len(self.runs), 'run')} to go, about {about}"
        )
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
                going_on = await self._up(left)
                up = True
                left = [r for r in left if r not in going_on]
                items = [r for r in items if r not in going_on]
            else:
                await self._reflect(items, first=False)
            last = clock()
            failed = len(self.failed)
            if self.study.order == "side-by-side":
                await together(self._one(run) for run in items)
            else:
                for run in items:
                    await self._one(run)
            if items and len(self.failed) - failed == len(items) and number != self.study.rounds:
                self.progress("every run of this round failed: no further rounds are begun")
                return

    async def _up(self, left: list[PlannedRun]) -> list[PlannedRun]:
        """Makes hosts ready and reflectors listen; follows the runs that a crash left, and returns them."""
        await self.fabrics.up(self.study, self.processes, self.journal)
        log = self.output / "reflectors.log"
        for host in self.study.host:
            if host.ssh is None:
                self.places[host.name] = LocalPlace(host, self.fathom, self.processes, self.fabrics, log)
        jobs = {job_of(r): r for r in left}
        places, lost = await self.fleet.up(self.study, self.directory, self.given, jobs.keys(), self.left)
        self.places |= places
        await self._reflect(left, first=True)
        self.progress(f"{len(self.reflectors)} reflectors listen")
        going_on = [jobs[job] for job in lost]
        await together(self._one(run) for run in going_on)
        return going_on

    async def _wait_for_hours(self) -> None:
        waiting = False
        while (begin := next_begin(self.study.schedule, now := datetime.now(UTC))) > now:
            if not waiting:
                self.progress(f"waiting until {begin.astimezone(UTC):%a %H:%M} UTC")
                waiting = True
            # In steps, as a suspended machine's sleep is longer than asked.
            await asyncio.sleep(min((begin - now).total_seconds(), 60.0))

    async def _reflect(self, runs: list[PlannedRun], *, first: bool) -> None:
        """Sees to it that the reflectors of runs listen. After the first time, runs fail for want of one."""
        needed = round_deadline_ns(self.study, self.runs) / 1e9
        for run in runs:
            scenario = run.scenario
            listener = _listener(run)
            if listener is None:
                continue
            known = self.reflectors.get(listener)
            if known is not None:
                if known.lasts(needed) and await known.failure() is None:
                    continue
                with contextlib.suppress(HostError):
                    await known.stop()
                del self.reflectors[listener]
            place = self.places[scenario.to]
            try:
                self.reflectors[listener] = await place.reflect(
                    listener[1], scenario.port, scenario.address, 2 * needed
                )
            except FathometerError as error:
                if first:
                    raise
                self.progress(f"{error}")

    async def _one(self, run: PlannedRun) -> None:
        where = str(run.directory)
        partial = self.unfinished / where
        if partial.exists():
            partial.rename(_free(partial))
        self.unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_directories(partial.parent)
        self.journal.note("run.started", run=where)
        label = f"[{run.number}/{len(self.runs)}] round {run.round}/{self.study.rounds}  {run.scenario.label}"
        label += f"  {run.probe.name}" + (f" {run.size} B" if run.size else "")
        try:
            summary, reason = await self._measure(run, partial)
        except HostError as error:
            summary, reason = None, f"{error}"
        if reason is not None:
            self.journal.note("run.failed", run=where, reason=reason)
            self.failed.append(f"{where}: {reason}")
            self.progress(f"{label}  failed: {reason}")
            return
        final = self.output / where
        make_directories(final.parent)
        if final.exists():  # A crash between the rename and its entry: that run is repeated.
            final.rename(_free(partial))
        partial.rename(final)
        samples, answered = (summary.of, summary.answered) if summary else (None, None)
        self.journal.note("run.finished", run=where, samples=samples, answered=answered)
        self.done.add(where)
        self.progress(f"{label}  {result(run, summary)}")

    async def _measure(self, run: PlannedRun, partial: Path) -> tuple[ProbeSummary | None, str | None]:
        """Runs a probe; its summary, and why the run does not count (None: it does)."""
        scenario = run.scenario
        listener = _listener(run)
        reflector = self.reflectors.get(listener) if listener else None
        if listener and reflector is None:
            return None, f'there is no reflector on "{scenario.to}"'
        target = scenario.address or self.places[scenario.to].address
        command = self._command(run, target)
        ended = await self.places[scenario.source].probe(run, command, partial.absolute())
        reason = await reflector.failure() if reflector else None
        if reason is None and ended.code != 0:
            reason = last_line(ended.err)
        if reason is None:
            # A fabric's balancer may answer on a port that is not its target's.
            behind = scenario.address and self.study.host_named(scenario.source).fabric
            difference = disagreement(partial, run, None if behind else scenario.port)
            # It may hold words of the recording's.
            reason = cleaned(difference)[:MOST_WORDS] if difference else None
        return summary_of(ended.out), reason

    def _command(self, run: PlannedRun, target: str) -> Command:
        if isinstance(run.probe, Limit):
            return limit_command(self.study, run, target, self.short)
        if isinstance(run.probe, Query):
            return query_command(run, target)
        if not isinstance(run.probe, Policy):
            return probe_command(self.study, run, target, self.short)
        file = str(self.directory / run.probe.file)
        if self.study.host_named(run.scenario.source).ssh:
            file = from_job(self.study_id, self.policies[run.probe.file])
        where = places(self.study, run, self.directory)
        fabric = self.study.host_named(run.scenario.source).fabric
        tags = {PLACES: where, MADE: self.fabrics.made[fabric.scenario]} if where and fabric else {}
        return client_command(self.study, run, target, self.short, file, tags)

    async def _stop(self) -> list[str]:
        # The signal handlers stay: a second Ctrl-C does not cut this short.
        await self.processes.stop_all()
        for server in self.reflectors.values():
            if isinstance(server, PostgresServer):
                await server.stop()  # Its data goes, too.
        stayed = list((await self.fleet.clear()).errors)
        stayed += await self.fabrics.down(self.processes, self.journal)
        for directory, _, _ in os.walk(self.unfinished, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()  # Only what is empty.
        return stayed


def _ending_signals() -> list[signal.Signals]:
    """What ends a study in order. A hang-up that is ignored, as under `nohup`, stays ignored."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if nohup else [signal.SIGHUP])]


def _listener(run: PlannedRun) -> Listener | None:
    """None: it needs no reflector of ours."""
    protocol = run.probe.protocol
    return None if protocol is None else (run.scenario.to, protocol, run.scenario.port)


def _free(path: Path) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return free
