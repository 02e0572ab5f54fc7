"""Whether both ends did what the plan said: looked up in the recording, not in what we asked for."""

from __future__ import annotations

from pathlib import Path

from fathometer.dataset import open_recording
from fathometer.dataset.model import DECIDED, Manifest
from fathometer.dataset.recording import Recording
from fathometer.errors import FathometerError
from fathometer.study.limit import Limit
from fathometer.study.plan import PlannedRun
from fathometer.study.policy import Policy
from fathometer.study.probe import STAMPED_SIZE, Probe
from fathometer.study.query import Query
from fathometer.study.words import bits_per_s


def disagreement(directory: Path, run: PlannedRun, port: int | None) -> str | None:
    """What a run's recording says that the plan does not; None: they agree.

    `port` is where the reflector said that it listens; None where something between may change it.
    """
    try:
        recording = open_recording(directory)
    except FathometerError as error:
        return f"{error.object}"
    manifest, probe = recording.manifest, run.probe
    wanted: dict[str, object]
    if isinstance(probe, Policy):
        wanted = {"mode": probe.mode, "interval_ns": probe.interval_ns, "duration_ns": probe.for_ns}
        different = _settings(manifest, wanted) or _named(manifest, run)
        return different or _answered_at(manifest, port)
    if isinstance(probe, Limit):
        wanted = {"mode": probe.mode}
        if probe.kind == "rate":
            wanted |= {"up_to_per_s": probe.rate_ceiling, "connections": probe.of_each}
        else:
            wanted |= {
                "up_to_ns": probe.up_to_ns,
                "keepalive_ns": probe.keepalive_ns,
                "one_way": probe.one_way,
                "per_length": probe.of_each,
                "resolution": probe.share,
            }
        different = _settings(manifest, wanted) or _named(manifest, run) or _answered_at(manifest, port)
        return different or _stopped(recording)
    if isinstance(probe, Query):
        return _of_queries(recording, probe) or _answered_at(manifest, port)
    if probe.fills:
        different = _settings(manifest, _of_throughput(probe, run.size)) or _named(manifest, run)
        return different or _answered_at(manifest, port) or _cut_short(recording)
    wanted = {
        "mode": probe.recorded_mode,
        "size": run.size,
        "interval_ns": probe.interval_ns,
        "count": probe.count,
        "duration_ns": probe.for_ns,
        "warm_up": probe.warm_up,
        "connections": probe.connections,
        "idle_gaps_ns": list(probe.gaps_ns) or None,
        "load": _load(probe),
    }
    different = _settings(manifest, wanted) or _named(manifest, run) or _answered_at(manifest, port)
    if different:
        return different
    resolved = manifest.reflector.get("resolved")
    framed = run.size >= STAMPED_SIZE or probe.protocol == "stamp"
    if framed and manifest.reflector.get("stamps") is not True:
        return f"what answered at {resolved} does not stamp samples: it is not the reflector of this study"
    return None


def _settings(manifest: Manifest, wanted: dict[str, object]) -> str | None:
    for name, value in wanted.items():
        if manifest.probe.get(name) != value:
            return f"the probe's {name} was {manifest.probe.get(name)}, and the plan's is {value}"
    return None


def _of_queries(recording: Recording, query: Query) -> str | None:
    """Its label is the database's address: `fathom sql` gives it no other."""
    asked = recording.queries.asked if recording.queries is not None else {}
    wanted = {"protocol": query.scheme, "count": None if query.for_ns else query.each}
    for name, value in wanted.items():
        if asked.get(name) != value:
            return f"the queries' {name} was {asked.get(name)}, and the plan's is {value}"
    if recording.manifest.ended_ns is None:
        return "the recording has no end: fathom sql was interrupted"
    return None


def _of_throughput(probe: Probe, block: int) -> dict[str, object]:
    return {
        "mode": probe.recorded_mode,
        "block_bytes": block,
        "direction": probe.direction,
        "connections": probe.connections,
        "bitrate_bits_per_second": None if probe.bitrate is None else bits_per_s(probe.bitrate),
        "omit_ns": probe.omit_ns or 0,
        "duration_ns": probe.for_ns,
    }


def _cut_short(recording: Recording) -> str | None:
    """A throughput test that ended early has totals, of less than it was to measure."""
    test = recording.throughput
    if test is None or not test.ways:
        return "the throughput test counted nothing"
    return None if test.ended_early is None else f"the throughput test ended early: {test.ended_early}"


def _stopped(recording: Recording) -> str | None:
    """A search that was ended early has a result, of what it knew by then."""
    results = [e.fields.get("result") for e in recording.events if e.kind == "limits.ended"]
    if any(isinstance(r, dict) and r.get("verdict") in DECIDED for r in results):
        return None
    return "the search was ended before it had a result"


def _named(manifest: Manifest, run: PlannedRun) -> str | None:
    if manifest.label != run.scenario.label:
        return f'the recording\'s label is "{manifest.label}", and the plan\'s "{run.scenario.label}"'
    if manifest.ended_ns is None:
        return "the recording has no end: the probe was interrupted"
    return None


def _answered_at(manifest: Manifest, port: int | None) -> str | None:
    resolved = str(manifest.reflector.get("resolved"))
    if port is not None and resolved.rpartition(":")[2] != str(port):
        return f"the probe talked to {resolved}, and the reflector listens on port {port}"
    return None


def _load(probe: Probe) -> dict[str, object] | None:
    """As the manifest has it."""
    if probe.load is None:
        return None
    return {"bits_per_s": bits_per_s(probe.load), "connections": 1, "phase_ns": probe.phase_ns}
