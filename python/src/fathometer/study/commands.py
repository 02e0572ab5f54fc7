"""The command lines of a study's probes."""

from __future__ import annotations

from fathometer.study.limit import Limit
from fathometer.study.model import Study
from fathometer.study.places import Command, bracketed
from fathometer.study.plan import PlannedRun
from fathometer.study.policy import Policy
from fathometer.study.probe import Probe
from fathometer.study.query import Query
from fathometer.study.words import duration_text


def probe_command(study: Study, run: PlannedRun, target: str, short: bool) -> Command:
    """A run's probe against an address; `short` marks its recording as ``--quick``'s."""
    scenario, probe = run.scenario, run.probe
    assert isinstance(probe, Probe)
    words = _of_path(study, run, short, {})
    words += ["--size", str(run.size)] if not probe.connects else []
    words += _of_mode(probe)
    if probe.ping_pong:
        words.append("--ping-pong")
    elif probe.interval_ns is not None:
        words += ["--every", duration_text(probe.interval_ns)]
    words += ["--load", probe.load, "--load-phase", duration_text(probe.phase_ns)] if probe.load else []
    words += ["--count", str(probe.count)] if probe.count is not None else []
    words += ["--for", duration_text(probe.for_ns)] if probe.for_ns is not None else []
    words += ["--user-timeout", duration_text(probe.user_timeout_ns)] if probe.user_timeout_ns else []
    words += ["--warm-up", str(probe.warm_up)] if not probe.fills else []
    words += ["--connections", str(probe.connections)] if not probe.connects else []
    words += ["--allow-high-rate"] if study.limits.allow_high_rate else []
    # The emulated network has no metadata service, and asking for one is traffic.
    words += ["--cloud", "off"] if study.host_named(scenario.source).fabric else []

    return _probing(run, target, words)


def client_command(
    study: Study, run: PlannedRun, target: str, short: bool, file: str, fabric: dict[str, str]
) -> Command:
    """A run's application against an address. `file`: its policy's, as it is called where it runs; `fabric`:
    the tags that say where its path lies in one.
    """
    policy = run.probe
    assert isinstance(policy, Policy)
    tags = {"policy": policy.name} | fabric
    words = ["--as-client", file, "--rate", f"{policy.rate:.12g}", "--for", duration_text(policy.for_ns)]
    words += _of_path(study, run, short, tags)
    words += ["--allow-high-rate"] if study.limits.allow_high_rate else []
    return _probing(run, target, words)


def limit_command(study: Study, run: PlannedRun, target: str, short: bool) -> Command:
    """A run's search against an address."""
    limit = run.probe
    assert isinstance(limit, Limit)
    if limit.kind == "rate":
        words = ["--rate-ceiling", str(limit.rate_ceiling), "--connections", str(limit.of_each)]
        words += ["--allow-high-rate"] if study.limits.allow_high_rate else []
        return _running("limits", run, target, words + _of_path(study, run, short, {"limit": limit.name}))
    words = ["--up-to", duration_text(limit.up_to_ns)]
    if limit.kind == "age":
        words += ["--age", "--connections", str(limit.of_each)]
    else:
        words += ["--per-length", str(limit.of_each)]
    words += ["--resolution", limit.resolution] if limit.resolution else []
    words += ["--max-connections", str(limit.max_connections)] if limit.max_connections else []
    words += ["--keepalive", duration_text(limit.keepalive_ns)] if limit.keepalive_ns else []
    words += ["--one-way", duration_text(limit.one_way_ns)] if limit.one_way_ns else []
    words += ["--one-way-from", limit.one_way_from] if limit.one_way_from else []
    return _running("limits", run, target, words + _of_path(study, run, short, {"limit": limit.name}))


def query_command(run: PlannedRun, target: str) -> Command:
    """A run's queries of the database at an address."""
    query = run.probe
    assert isinstance(query, Query)
    where = f"{query.user}@{bracketed(target)}:{run.scenario.port}/{query.schema_}"

    def command(binary: str, record: str) -> list[str]:
        url = f"{query.scheme}://{where}{query.parameters}"
        return [binary, "sql", url, "--quiet", "--json", "--record", record, *query.words()]

    return command


def _of_path(study: Study, run: PlannedRun, short: bool, more: dict[str, str]) -> list[str]:
    """What the recording says of where and for what it was made."""
    scenario = run.scenario
    words = ["--label", scenario.label, "--from", scenario.source, "--to", scenario.to]
    words += ["--via", scenario.via] if scenario.via else []
    words += ["--source", scenario.source_address] if scenario.source_address else []
    words += ["--mark", "quick"] if short else []
    tags = {**scenario.tags, "study": study.name, "round": str(run.round), **more}
    for key, value in tags.items():
        words += ["--tag", f"{key}={value}"]
    return words


def _probing(run: PlannedRun, target: str, words: list[str]) -> Command:
    return _running("probe", run, target, words)


def _running(what: str, run: PlannedRun, target: str, words: list[str]) -> Command:
    def command(binary: str, record: str) -> list[str]:
        address = f"{bracketed(target)}:{run.scenario.port}"
        return [binary, what, address, "--quiet", "--json", "--record", record, *words]

    return command


def _of_mode(probe: Probe) -> list[str]:
    if probe.connects:
        return ["--connect", "--tls"] if probe.mode == "connect-tls" else ["--connect"]
    if probe.fills:
        words = ["--throughput"]
        words += [f"--{probe.direction}"] if probe.direction != "forward" else []
        words += ["--bitrate", probe.bitrate] if probe.bitrate else []
        words += ["--omit", duration_text(probe.omit_ns)] if probe.omit_ns else []
        return words
    words = [f"--{probe.protocol}"] if probe.protocol in {"udp", "stamp"} else []
    if probe.idle_gap_ns:
        words += ["--idle-gap", ",".join(duration_text(ns) for ns in probe.gaps_ns)]
    return words
