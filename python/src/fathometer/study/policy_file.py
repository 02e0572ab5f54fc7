"""What a study needs to know around a policy: its file, here and on hosts over SSH, and where on an emulated
network an application's path lies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fathometer.study.model import Study
from fathometer.study.plan import PlannedRun
from fathometer.study.policy import Policy
from fathometer.study.read import loaded, read_text

_UP: Final = "../../../../.."
"""From the directory of a job on a host, `~/.fathom/studies/STUDY/HOST/jobs/JOB`, to `~/.fathom`."""


def contents(study: Study, directory: Path) -> dict[str, bytes]:
    """The files of a study's policies, as the study names them."""
    return {p.file: read_text(directory / p.file).encode() for p in study.policy}


def on_host(study_id: str, data: bytes) -> str:
    """What a policy's file is called on a host, from the home on. A study's end takes such files away, as it
    does what is left of a binary on its way (`shell.part_path`).
    """
    return f".fathom/bin/.part-{study_id}-policy-{hashlib.sha256(data).hexdigest()[:16]}"


def from_job(study_id: str, data: bytes) -> str:
    """The same as a job there finds it."""
    return f"{_UP}/{on_host(study_id, data).removeprefix('.fathom/')}"


def needed_on(study: Study, host: str) -> Iterator[str]:
    """The files of the policies whose applications run on a host."""
    if any(s.source == host for s in study.scenario):
        yield from sorted({p.file for p in study.policy})


def places(study: Study, run: PlannedRun, directory: Path) -> str | None:
    """The places of the fabric that a run's path goes through, by commas, as its truth names them; None: it
    is not in a fabric, or the scenario has no such path. Behind a balancer of several backends another host
    may serve, so that what happens to this one stops nobody.
    """
    source, to = study.host_named(run.scenario.source).fabric, study.host_named(run.scenario.to).fabric
    if source is None or to is None or not isinstance(run.probe, Policy):
        return None
    scenario = loaded(directory / source.scenario)
    ends = (source.host, to.host)
    path = next((p for p in _tables(scenario, "path") if (p.get("from"), p.get("to")) == ends), None)
    if path is None:
        return None
    via = [str(name) for name in path.get("via", ())]
    boxes = {str(m.get("name")): m for m in _tables(scenario, "middlebox")}
    balanced = any(len(boxes.get(name, {}).get("backends", ())) > 1 for name in via)
    return ",".join([str(path.get("label")), source.host, *([] if balanced else [to.host]), *via])


def _tables(scenario: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tables = scenario.get(name)
    return [t for t in tables if isinstance(t, dict)] if isinstance(tables, list) else []
