"""The binary, and the emulated networks whose hosts run it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathometer.clean import cleaned
from fathometer.errors import FathometerError
from fathometer.study.cgroups import Groups
from fathometer.study.journal import Journal
from fathometer.study.model import Host, Study
from fathometer.study.processes import Processes

MOST_WORDS: Final = 400
"""Characters of a program's last words that are shown."""


def find_fathom(named: Path | None) -> str:
    """The binary: as named, beside the interpreter (where pip puts it), on the PATH."""
    beside = Path(sys.executable).with_name("fathom")
    for path in (named,) if named is not None else (beside,):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.absolute())
    binary = None if named is not None else shutil.which("fathom")
    if binary is None:
        what = (
            f"{named} is no program" if named is not None else "`fathom` is neither beside python nor in PATH"
        )
        raise FathometerError("run a study", what, "install it, or name it with --fathom")
    return str(Path(binary).absolute())


class Fabrics:
    """The emulated networks of a study, each named by the study's id and its place in it."""

    def __init__(self, fathom: str, study_id: str, directory: Path, output: Path) -> None:
        self._fathom = fathom
        self._id = study_id
        self._directory = directory
        self._output = output
        self._names: dict[str, str] = {}
        self.made: dict[str, str] = {}
        """By scenario: what the directory of its truth is called."""
        self._groups = Groups(study_id)

    async def up(self, study: Study, processes: Processes, journal: Journal) -> None:
        """Makes each fabric that a scenario of the study uses, and the groups of hosts with limits."""
        self._groups.make(study)
        used = {name for s in study.scenario for name in (s.source, s.to)}
        for host in study.host:
            if host.fabric is None or host.name not in used or host.fabric.scenario in self._names:
                continue
            name = f"study-{self._id[:8]}-{len(self._names) + 1}"
            self._names[host.fabric.scenario] = name
            # Noted before it is made: `study stop` must find what a crash in between leaves.
            journal.note("fabric.making", name=name)
            scenario = self._directory / host.fabric.scenario
            truth = _free(self._output / "truth" / name)
            self.made[host.fabric.scenario] = truth.name
            argv = [self._fathom, "fabric", "up", str(scenario), "--name", name, "--truth", str(truth)]
            code, _, err = await processes.output([*argv, "--json"])
            if code != 0:
                raise FathometerError("make a fabric", f"{scenario}: {last_line(err)}", "see docs/fabric.md")

    async def down(self, processes: Processes, journal: Journal) -> list[str]:
        """Takes them away; tells of those that would not go."""
        self._groups.remove()
        stayed = []
        for scenario, name in reversed(list(self._names.items())):
            code, _, err = await processes.output([self._fathom, "fabric", "down", name])
            if code == 0 or "no fabric" in err:  # The second: it never came to be.
                journal.note("fabric.gone", name=name)
                del self._names[scenario]
            else:
                stayed.append(f"{name}: {last_line(err)}")
        return stayed

    def on(self, host: Host, argv: list[str]) -> list[str]:
        """A command line that runs a command on a host, within its limits."""
        if host.fabric is not None:
            name = self._names[host.fabric.scenario]
            argv = [self._fathom, "fabric", "exec", "--name", name, host.fabric.host, "--", *argv]
        return self._groups.inside(host, argv)


def _free(truth: Path) -> Path:
    """A study that goes on makes its fabrics anew, and what they did before is kept."""
    number, free = 1, truth
    while free.exists():
        number += 1
        free = truth.with_name(f"{truth.name}-{number}")
    return free


def last_line(text: str) -> str:
    """What a program said last, without its own name, as far as it is shown."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return cleaned(lines[-1].removeprefix("fathom: "))[:MOST_WORDS] if lines else "it said nothing"


class _RoundTrips(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int
    mean: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class _End(BaseModel):
    """Of a limit's bracket."""

    model_config = ConfigDict(strict=True)
    idle_ns: int | None = None
    age_ns: int | None = None


class _Rate(BaseModel):
    """Of a rate ceiling's bracket."""

    model_config = ConfigDict(strict=True)
    rate_per_s: int


class _Transfer(BaseModel):
    model_config = ConfigDict(strict=True)
    bits_per_second: Annotated[int, Field(ge=0)]


class _Way(BaseModel):
    """Of a throughput test."""

    model_config = ConfigDict(strict=True)
    way: Literal["forward", "reverse"]
    sent: _Transfer | None = None
    received: _Transfer | None = None

    @property
    def carried(self) -> int | None:
        """Bits a second: what came, or what was sent where the receiver did not tell."""
        counted = self.received or self.sent
        return None if counted is None else counted.bits_per_second


class ProbeSummary(BaseModel):
    """What is used of a probe's summary (``--json``), which may come from another host."""

    model_config = ConfigDict(strict=True)
    format: Literal[1]
    samples: int | None = None
    due: int | None = None
    """Of an application: its requests."""
    answered: int | None = None
    rtt_ns: _RoundTrips | None = None
    limit: Literal["idle", "age", "rate"] | None = None
    """Of a search: for which; and the ends of what it found."""
    survived: _End | None = None
    died: _End | None = None
    good: _Rate | None = None
    bad: _Rate | None = None
    """Of a search for the rate ceiling."""
    ways: tuple[_Way, ...] | None = None
    """Of a throughput test."""

    @property
    def limit_ns(self) -> tuple[int | None, int | None]:
        """What most connections survived, and what most died of; None: there is none."""
        ends = (self.survived, self.died)
        low, high = (None if end is None else end.idle_ns or end.age_ns for end in ends)
        return low, high

    @property
    def of(self) -> int | None:
        """Samples, or requests that were due."""
        return self.samples if self.due is None else self.due


def summary_of(out: str) -> ProbeSummary | None:
    """The probe's summary; None where it gave none."""
    for line in out.splitlines():
        try:
            return ProbeSummary.model_validate_json(line)
        except ValidationError:
            continue
    return None
