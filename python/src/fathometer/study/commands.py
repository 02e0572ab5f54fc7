"""The command lines of a study's probes."""

from __future__ import annotations

from fathometer.study.model import Study
from fathometer.study.places import Command, bracketed
from fathometer.study.plan import Run
from fathometer.study.words import duration_text


def probe_command(study: Study, run: Run, target: str, short: bool) -> Command:
    """A run's probe against an address; `short` marks its recording as ``--quick``'s."""
    scenario, probe = run.scenario, run.probe
    words = ["--label", scenario.label, "--size", str(run.size)]
    words += ["--from", scenario.source, "--to", scenario.to]
    words += ["--via", scenario.via] if scenario.via else []
    tags = {**scenario.tags, "study": study.name, "round": str(run.round)}
    tags |= {"quick": "true"} if short else {}
    for key, value in tags.items():
        words += ["--tag", f"{key}={value}"]
    if probe.mode.startswith("udp"):
        words.append("--udp")
    if probe.interval_ns is None:
        words.append("--ping-pong")
    else:
        words += ["--every", duration_text(probe.interval_ns)]
    words += ["--count", str(probe.count)] if probe.count is not None else []
    words += ["--for", duration_text(probe.for_ns)] if probe.for_ns is not None else []
    words += ["--user-timeout", duration_text(probe.user_timeout_ns)] if probe.user_timeout_ns else []
    words += ["--warm-up", str(probe.warm_up), "--connections", str(probe.connections)]
    words += ["--allow-high-rate"] if study.limits.allow_high_rate else []
    # The emulated network has no metadata service, and asking for one is traffic.
    words += ["--cloud", "off"] if study.host_named(scenario.source).fabric else []

    def command(binary: str, record: str) -> list[str]:
        address = f"{bracketed(target)}:{scenario.port}"
        return [binary, "probe", address, "--quiet", "--json", "--record", record, *words]

    return command
