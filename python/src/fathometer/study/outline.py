"""What a plan comes to, for those who watch a study and have only its journal: kept in ``study.started``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fathometer.study.model import Study
from fathometer.study.plan import PlannedRun


@dataclass(frozen=True, slots=True)
class Planned:
    """What is measured again and again: a scenario with one probe and one size. Figures of several of them
    are never pooled.
    """

    directory: str
    """Of its runs' recordings, in the study's output."""
    runs: int
    run_ns: int
    """How long the plan takes one run to be."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The plan of a study, without its runs."""

    side_by_side: bool
    every_ns: int | None
    """From one round's begin to the next one's, at least; None: no such wait."""
    hours: bool
    """Rounds wait for hours or weekdays."""
    planned: tuple[Planned, ...]


def outline_of(study: Study, runs: tuple[PlannedRun, ...]) -> dict[str, Any]:
    """As it is written to the journal. Scenarios stand in the order of the study file."""
    labels = [s.label for s in study.scenario]
    rows: dict[str, dict[str, Any]] = {}
    for run in sorted(runs, key=lambda r: labels.index(r.scenario.label)):
        where = str(run.directory.parent)
        row = rows.setdefault(where, {"directory": where, "runs": 0, "run_ns": run.estimate_ns})
        row["runs"] += 1
    schedule = study.schedule
    return {
        "order": study.order,
        "every_ns": schedule.every_ns,
        "hours": schedule.hours is not None or schedule.weekdays is not None,
        "paths": list(rows.values()),
    }


def read_outline(value: object) -> Outline:
    """From the journal; of a journal that has none (an older one) an empty outline."""
    if not isinstance(value, Mapping):
        return Outline(False, None, False, ())
    every = value.get("every_ns")
    paths = value.get("paths")
    return Outline(
        value.get("order") == "side-by-side",
        every if isinstance(every, int) else None,
        value.get("hours") is True,
        tuple(
            Planned(str(p["directory"]), p["runs"], p["run_ns"])
            for p in (paths if isinstance(paths, list) else [])
            if isinstance(p, dict)
            and {"directory", "runs", "run_ns"} <= p.keys()
            and all(isinstance(p[name], int) and p[name] >= 0 for name in ("runs", "run_ns"))
        ),
    )


def title_of(directory: str) -> str:
    """The values of a recording's directory, as in ``hub``, or ``hub  back-to-back  1024 B``."""
    words = []
    for part in PurePosixPath(directory).parts:
        name, _, value = part.partition("=")
        words.append(f"{value} B" if name == "size" else value or name)
    return "  ".join(words)
