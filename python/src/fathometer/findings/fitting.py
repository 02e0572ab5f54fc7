"""Whether several ends of connections may have one cause: what each leaves open decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathometer.findings.finding import Finding

OURS = "local_error"
"""How a connection ended that this probe gave up for what came on it, as from a peer that does not echo: its
cause is known, and no event took it."""


def of(f: Finding) -> frozenset[str]:
    """What may have been the cause of an end or a stall. Of one that nobody explained: whatever ends
    connections like that.
    """
    how = f.terms.get("how", "")
    if how == OURS:
        return frozenset({f"{OURS} {f.recording}"})  # Two probes that give up have two reasons.
    if f.cause not in {None, "unknown"}:
        return frozenset({str(f.cause)})
    return frozenset(f.terms.get("could be", "").split()) or frozenset({f"like {how}"})


def explained(f: Finding) -> bool:
    """Whether anything is known of its cause; what is not explained fits to whatever happened beside it."""
    return f.terms.get("how") == OURS or f.cause not in {None, "unknown"} or bool(f.terms.get("could be"))


def fit(a: Finding, b: Finding) -> bool:
    """Whether two ends may have one cause."""
    if a.recording == b.recording and not (explained(a) and explained(b)):
        return True
    return bool(of(a) & of(b))


def fell_silent(f: Finding) -> bool:
    """Whether no echo had come for longer than samples are apart when a connection ended."""
    silent = f.quantities.get("silent")
    return silent is not None and silent.value > f.uncertain_ns


def fits_each(cause: str | None, ends: Sequence[Finding]) -> bool:
    """Whether that may be the cause of all of these ends."""
    return all(cause in of(f) or (not explained(f) and fell_silent(f)) for f in ends)


def apart(
    group: Sequence[Finding], related: Callable[[Finding, Finding], bool]
) -> tuple[list[list[Finding]], list[Finding]]:
    """The parts of an incident by causes that fit each end, with what is related to one of those ends; and
    what is related to none. A group that one cause fits stays as it is.
    """
    ends = [f for f in group if f.kind == "death"]
    if not ends:
        return [list(group)], []
    clusters: list[list[Finding]] = []
    shared: list[frozenset[str]] = []
    for f in ends:
        open_ = not explained(f)
        for n, cluster in enumerate(clusters):
            if shared[n] & of(f) or (open_ and any(one.recording == f.recording for one in cluster)):
                cluster.append(f)
                shared[n] = shared[n] & of(f) or shared[n]
                break
        else:
            clusters.append([f])
            shared.append(of(f))
    others = [f for f in group if f.kind != "death"]
    if len(clusters) == 1:
        # A recording in which nothing ended is no part of ends whose cause nobody knows.
        if any(f.cause not in {None, "unknown"} for f in group if f.kind in {"death", "pause"}):
            return [list(group)], []
        mine = {f.recording for f in ends}
        left = [f for f in others if f.kind in _LEVELS and f.recording not in mine]
        return [[f for f in group if all(f is not one for one in left)]], left
    left = []
    for f in others:
        near = next((c for c in clusters if any(related(f, one) for one in c if one.kind == "death")), None)
        (left if near is None else near).append(f)
    return clusters, left


_LEVELS = frozenset({"change", "burst", "restless"})
