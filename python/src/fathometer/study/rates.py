"""How much a study sends: held against its own limits and what is polite, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from fathometer.counts import count
from fathometer.study.model import (
    PACKET,
    POLITE_CONNECTS,
    POLITE_IN_ALL,
    POLITE_PER_CONNECTION,
    Study,
)
from fathometer.study.positions import Where
from fathometer.study.words import bits_per_s

Found = tuple[Where, str, str]
"""Where in the file, what is wrong, and the remedy."""


def rates(study: Study) -> Iterator[Found]:
    """What is sent faster than the study's limits, or than is polite."""
    limits = study.limits
    if not limits.allow_high_rate:
        for key, given, ceiling in (
            ("per-connection", limits.per_connection, POLITE_PER_CONNECTION),
            ("in-all", limits.in_all, POLITE_IN_ALL),
        ):
            if given > ceiling:
                yield (
                    ("limits", key),
                    f"`limits.{key}` is {given:,}/s, above the polite ceiling of {ceiling:,}/s",
                    "lower it, or write `allow-high-rate = true` beside it to say that it is meant",
                )
    yield from _request_rates(study)
    yield from _ceilings(study)
    beside = len(study.scenario) if study.order == "side-by-side" else 1
    for number, probe in enumerate(study.probe):
        apart = [s.label for s in study.scenario if s.source != s.to]
        yield from _loads(study, number, apart)
        rate = probe.per_second
        if probe.fills:
            yield from _throughputs(study, number, apart)
            continue
        if rate is None:
            # As `fathom probe` has it: back to back is as fast as the path, and must be meant.
            if apart and not limits.allow_high_rate:
                yield (
                    ("probe", number, "mode"),
                    f'probe "{probe.name}" sends to another host as fast as it answers ("{apart[0]}")',
                    "write `allow-high-rate = true` under [limits] if you may load the path, or use `every`",
                )
            continue
        in_all = rate * probe.connections * beside
        key = "rate" if probe.rate is not None else "every"
        hasty = probe.connects and rate > POLITE_CONNECTS
        if hasty and apart and not limits.allow_high_rate:
            yield (
                ("probe", number, key),
                f'probe "{probe.name}" makes more than {POLITE_CONNECTS} connections a second',
                "make fewer, or write `allow-high-rate = true` under [limits] if you may",
            )
        elif rate > limits.per_connection * (1 + 1e-9):
            yield (
                ("probe", number, key),
                f'probe "{probe.name}" sends {rate:,.0f}/s a connection, above {limits.per_connection:,}/s',
                "send less often, or raise `limits.per-connection`",
            )
        elif in_all > limits.in_all * (1 + 1e-9):
            yield (
                ("probe", number, "connections" if probe.connections > 1 else key),
                f'probe "{probe.name}" sends {in_all:,.0f}/s in all, above {limits.in_all:,}/s',
                "send less often, use fewer connections, or raise `limits.in-all`",
            )


def _request_rates(study: Study) -> Iterator[Found]:
    """Applications of one round send at the same time where it is side by side."""
    together = len(study.scenario) * len(study.policy) if study.order == "side-by-side" else 1
    for number, policy in enumerate(study.policy):
        in_all = policy.rate * together
        if in_all > study.limits.in_all:
            yield (
                ("policy", number, "rate" if "rate" in policy.model_fields_set else "name"),
                f'policy "{policy.name}" asks {in_all:,.0f}/s in all, above {study.limits.in_all:,}/s',
                "ask less often, or raise `limits.in-all`",
            )


def _ceilings(study: Study) -> Iterator[Found]:
    """Searches for the rate ceiling send as much as they try."""
    limits = study.limits
    beside = len(study.scenario) if study.order == "side-by-side" else 1
    for number, limit in enumerate(study.limit):
        if limit.kind != "rate" or limit.rate_ceiling is None:
            continue
        where: Where = ("limit", number, "rate-ceiling")
        each, in_all = limit.rate_ceiling / limit.of_each, limit.rate_ceiling * beside
        if each > limits.per_connection:
            yield (
                where,
                f'limit "{limit.name}" sends {each:,.0f}/s a connection, above {limits.per_connection:,}/s',
                "lower `rate-ceiling`, use more `connections`, or raise `limits.per-connection`",
            )
        elif in_all > limits.in_all:
            yield (
                where,
                f'limit "{limit.name}" sends {in_all:,}/s in all, above {limits.in_all:,}/s',
                "lower `rate-ceiling`, or raise `limits.in-all`",
            )


def _loads(study: Study, number: int, apart: list[str]) -> Iterator[Found]:
    """A load that `fathom probe` would refuse between two hosts."""
    probe = study.probe[number]
    if probe.load is None or not apart or study.limits.allow_high_rate:
        return
    bits = bits_per_s(probe.load)
    if bits is None or bits > POLITE_PER_CONNECTION * PACKET * 8:
        yield (
            ("probe", number, "load"),
            f'probe "{probe.name}" loads another host\'s path with {probe.load} ("{apart[0]}")',
            "write `allow-high-rate = true` under [limits] if you may load it, or lower `load`",
        )


def _throughputs(study: Study, number: int, apart: list[str]) -> Iterator[Found]:
    """A throughput test that `fathom probe` would refuse between two hosts, and those that are in each
    other's way.
    """
    probe = study.probe[number]
    if study.order == "side-by-side" and len(study.scenario) * len(study.measured) > 1:
        yield (
            ("probe", number, "mode"),
            f'probe "{probe.name}" measures throughput beside other runs, which share its links',
            'write `order = "one-by-one"`, or measure it in a study of its own',
        )
    bits = None if probe.bitrate is None else bits_per_s(probe.bitrate)
    if bits is None and apart and not study.limits.allow_high_rate:
        yield (
            ("probe", number, "mode"),
            f'probe "{probe.name}" fills another host\'s path ("{apart[0]}")',
            "write `allow-high-rate = true` under [limits] if you may load it, or a polite `bitrate`",
        )
        return
    packets = inf if bits is None else bits / (PACKET * 8)
    # As `fathom probe` counts them: both ways at once are twice as many.
    streams = probe.connections * (2 if probe.direction == "bidirectional" else 1)
    on_all = f"on all of its {count(streams, 'stream')}"
    for key, sent, where, polite in (
        ("per-connection", packets, "on a stream", POLITE_PER_CONNECTION),
        ("in-all", packets * streams, on_all, POLITE_IN_ALL),
    ):
        most, remedy = _most_packets(study, key, polite, apart=bool(apart))
        if sent == inf and most < inf:
            yield (
                ("probe", number, "mode"),
                f'probe "{probe.name}" fills its path, and `limits.{key}` is {most:,.0f} packets/s',
                f"write a `bitrate` within that, or leave `limits.{key}` out",
            )
            return
        if sent > most * (1 + 1e-9):
            yield (
                ("probe", number, "bitrate"),
                f'probe "{probe.name}" sends {sent:,.0f} packets/s {where}, above {most:,.0f}',
                f"lower `bitrate`, use fewer `connections`, or {remedy}",
            )
            return


def _most_packets(study: Study, key: str, polite: int, *, apart: bool) -> tuple[float, str]:
    """How many packets a second a throughput test may send, and what raises that: the file's own limit where
    it has one, and between two hosts what is polite.
    """
    limits = study.limits
    name = key.replace("-", "_")
    said = float(getattr(limits, name)) if name in limits.model_fields_set else inf
    meant = float(polite) if apart and not limits.allow_high_rate else inf
    if said < meant:
        return said, f"raise `limits.{key}`"
    return meant, "write `allow-high-rate = true` under [limits] if you may load the path"


def servers(study: Study) -> Iterator[Found]:
    """What probes need of the servers that answer them."""
    protocols = {p.protocol for p in study.measured}
    if {"tcp", "throughput"} <= protocols:
        number = next(i for i, p in enumerate(study.probe) if p.fills)
        yield (
            ("probe", number, "mode"),
            "echoes and throughput tests go to the same TCP port of a scenario",
            "measure them in two studies",
        )
    if {"udp", "stamp"} <= protocols:
        number = next(i for i, p in enumerate(study.probe) if p.protocol == "stamp")
        yield (
            ("probe", number, "mode"),
            "udp and stamp go to the same UDP port of a scenario",
            "measure them in two studies",
        )
    # A name that no host has is told elsewhere.
    by_ssh = {host.name for host in study.host if host.ssh}
    over_ssh = [s.to for s in study.scenario if s.to in by_ssh]
    if "tds" in protocols and over_ssh:
        number = next(i for i, q in enumerate(study.query) if q.protocol == "tds")
        yield (
            ("query", number, "database"),
            f'"{over_ssh[0]}" is a host over SSH, where `fathom echo --tds` would serve everybody',
            'write `database = "mssql"`, and start it there with `--allow`',
        )
    if "postgres" in protocols and over_ssh:
        number = next(i for i, q in enumerate(study.query) if q.protocol == "postgres")
        yield (
            ("query", number, "start"),
            f'"{over_ssh[0]}" is a host over SSH, where a PostgreSQL without passwords would serve everybody',
            "leave `start` out, and name a user of the one that listens there",
        )
    if any(p.protocol is None for p in study.probe):
        for number, scenario in enumerate(study.scenario):
            if scenario.address is None:
                yield (
                    ("scenario", number, "to"),
                    f'a probe does TLS handshakes, and "{scenario.label}" names no server that answers them',
                    "say with `address` and `port` where a TLS server of yours listens",
                )
