"""Findings as the detectors make them, of a path at so many seconds."""

from fathometer.findings.finding import Finding, Place, ns, number

SECOND = 1_000_000_000
T0 = 1_742_428_800 * SECOND


def pause(path, at, length=3.0, host="remote", reason=""):
    cause = "peer_paused" if host == "remote" else "local_paused"
    return Finding(
        "pause",
        (Place(path, f"r-{path}"),),
        T0 + round(at * SECOND),
        T0 + round((at + length) * SECOND),
        cause,
        quantities={"length": ns(round(length * SECOND))},
        terms={"host": host, "reason": reason},
        uncertain_ns=SECOND // 5,
    )


def stall(path, at, length=3.0, connection=0, cause="peer_paused", end="recovered"):
    return Finding(
        "stall",
        (Place(path, f"r-{path}", connection),),
        T0 + round(at * SECOND),
        T0 + round((at + length) * SECOND),
        cause,
        "medium",
        {"length": ns(round(length * SECOND)), "waited": number(3, "samples")},
        {"end": end, "announced": ""},
        uncertain_ns=SECOND // 5,
    )


def death(path, at, silent=30.0, connection=0, cause="flow_forgotten", age=1000.0, lost=30):
    return Finding(
        "death",
        (Place(path, f"r-{path}", connection),),
        T0 + round(at * SECOND),
        T0 + round((at + silent) * SECOND),
        cause,
        "medium",
        {"silent": ns(round(silent * SECOND)), "age": ns(round(age * SECOND)), "lost": number(lost)},
        {"how": "timed_out"},
        uncertain_ns=SECOND // 5,
    )


def shift(path, at, before=1.0, after=2.0, cause="path changed"):
    return Finding(
        "change",
        (Place(path, f"r-{path}"),),
        T0 + round(at * SECOND),
        T0 + round(at * SECOND),
        cause,
        "medium",
        {"before": ns(before * 1e6), "after": ns(after * 1e6)},
        {"of": "level"},
        uncertain_ns=SECOND,
    )


def overrun(path, at, samples=1, reason="unconnected"):
    when = T0 + round(at * SECOND)
    quantities = {"times": number(1), "samples": number(samples, "samples")}
    return Finding(
        "schedule.overrun",
        (Place(path, f"r-{path}"),),
        when,
        when,
        quantities=quantities,
        terms={"reason": reason},
    )


def refused(path, at, length=5.0):
    return Finding(
        "refused",
        (Place(path, f"r-{path}"),),
        T0 + round(at * SECOND),
        T0 + round((at + length) * SECOND),
        quantities={"attempts": number(4)},
    )


def whole(path):
    return Finding("loss", (Place(path),), quantities={"sent": number(9, "samples"), "unanswered": number(1)})
