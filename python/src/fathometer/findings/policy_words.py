"""What a policy does, and what a comparison of policies says, for readers who know neither."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fathometer.findings.policies import SHARES, Application, Compared, PolicyComparison, Weigh, like_the_best
from fathometer.findings.words import count, duration, figure, listed, share
from fathometer.stats.repeated import Mean

ENDS: Final[Mapping[str, str]] = {
    "answered": "answered",
    "failed": "never sent",
    "ambiguous": "sent without an answer",
    "shed": "not tried, as the breaker was open",
    "fallback": "served by the fallback",
}
_MORE: Final[Mapping[Weigh, str]] = {
    "failed": "more requests go unserved under it",
    "latency": "callers wait longer under it",
    "load": "it makes more connections and tries",
}


def settings(policy: Mapping[str, Any]) -> list[str]:
    """What a policy does, rule by rule. What is not understood is left out: a later version may say it."""
    every = []
    for rule in (_requests, _retry, _pool, _connections, _breaker, _recovery, _fallback):
        try:
            every += list(rule(policy))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue
    return every


def _requests(policy: Mapping[str, Any]) -> Iterator[str]:
    r = policy["requests"]
    yield (
        f"a caller waits for {_time(r['deadline_ns'])} at most, and a try for {_time(r['try_timeout_ns'])} "
        "of that"
    )
    if not r["idempotent"]:
        yield "a request that was sent is never sent again, as it may have been done"


def _retry(policy: Mapping[str, Any]) -> Iterator[str]:
    r = policy["retry"]
    if r is None:
        yield "nothing is tried again"
        return
    b = r["backoff"]
    jitter = "without jitter" if b["jitter"] == "none" else f"drawn by chance ({b['jitter']} jitter)"
    yield (
        f"up to {count(int(r['at_most']), 'more try', 'more tries')}, after waits that grow from "
        f"{_time(b['first_ns'])} to {_time(b['cap_ns'])}, {jitter}"
    )
    budget = r["budget"]
    if isinstance(budget, dict) and "share" in budget:
        most = budget["share"]
        yield f"at most {share(float(most['share']))} of the requests again, and {most['burst']:g} at once"
    elif isinstance(budget, dict) and "throttle" in budget:
        yield "no more tries while most of them fail (a budget of tokens)"


def _pool(policy: Mapping[str, Any]) -> Iterator[str]:
    p = policy["pool"]
    order = "the last used first" if p["order"] == "lifo" else "all in turn"
    if p["max"] == 1:
        yield "one connection, for which requests wait in turn"
    else:
        yield f"a pool of {p['min']} to {count(int(p['max']), 'connection')}, {order}"
    if p["validate_after_ns"] is not None:
        rest = f" that was idle for {_time(p['validate_after_ns'])}" if p["validate_after_ns"] else ""
        yield f"a connection{rest} is asked before use whether it works"
    if p["check_every_ns"] is not None:
        yield f"idle connections are asked every {_time(p['check_every_ns'])} whether they work"
    if p["idle_ns"] is not None:
        yield f"connections that are not needed are closed after {_time(p['idle_ns'])}"


def _connections(policy: Mapping[str, Any]) -> Iterator[str]:
    age = policy["age"]
    if age is not None:
        least, most = age["at_most_ns"] - age["jitter_ns"], age["at_most_ns"]
        between = _time(most) if least == most else f"{_time(least)} to {_time(most)}"
        yield f"a connection is replaced at an age of {between}"
    if policy["keepalive_ns"] is not None:
        yield f"TCP keepalive after {_time(policy['keepalive_ns'])}"
    if policy["user_timeout_ns"] is not None:
        yield (
            f"the kernel ends a connection after {_time(policy['user_timeout_ns'])} without an "
            "acknowledgement"
        )


def _breaker(policy: Mapping[str, Any]) -> Iterator[str]:
    b = policy["breaker"]
    if b is None:
        return
    window = b["window"]
    over = f"within {_time(window['ns'])}" if "ns" in window else f"of the last {window['count']}"
    least = count(int(b["least"]), "try", "tries")
    yield (
        f"a circuit breaker: where {share(float(b['failures']))} of at least {least} {over} failed, "
        f"nothing is tried for {_time(b['open_ns'])}"
    )


def _recovery(policy: Mapping[str, Any]) -> Iterator[str]:
    r = policy.get("recovery")  # Older recordings do not have it.
    if r is not None:
        yield (
            f"meanwhile the server is asked every {_time(r['every_ns'])} whether it is back, which it is "
            f"after {count(int(r['after']), 'answer')} in a row"
        )


def _fallback(policy: Mapping[str, Any]) -> Iterator[str]:
    f = policy["fallback"]
    if f is None:
        return
    if "target" in f:
        yield f"what fails is asked of {f['target']} instead"
    elif "last_answer" in f:
        yield f"what fails gets the last answer, if it is no older than {_time(f['last_answer'])}"


def _time(ns: float) -> str:
    """`2 s`, `100 ms`: a setting has no more digits than somebody gave it."""
    text = duration(float(ns))
    number, space, unit = text.partition(" ")
    if "." in number and not unit.count(" "):
        number = number.rstrip("0").rstrip(".")
    text = f"{number}{space}{unit}"
    for zero in (" 0 s", " 0 min", " 0 h"):
        text = text.removesuffix(zero)
    return text


def told(a: Application) -> str:
    """What became of the requests of one recording."""
    c = a.client
    if not c.due:
        return f"{a.name}: no request was due"
    parts = [f"{n:,} {ENDS[name]}" for name, n in c.ended.items() if n and name != "answered"]
    parts += [f"{c.not_known:,} not known"] if c.not_known else []
    served = c.ended["answered"] + c.ended["fallback"]
    rest = f" ({listed(parts)})" if parts else ""
    least = "at least " if c.not_known else ""
    part = f"{least}{_percent(served / c.due)}"
    return f"{a.name}: {served:,} of {count(c.due, 'request')} ({part}) were served{rest}"


def verdict(comparison: PolicyComparison) -> str:
    """Which policy did best, and which cannot be told from it."""
    placed = [p for p in comparison.policies if p.rank is not None]
    if not placed:
        return f"{comparison.path}: nothing to rank the policies by"
    best, others = placed[0], placed[1:]
    alike = like_the_best(comparison)[1:]
    said = _told_apart(comparison, best, others, alike)
    return f"{comparison.path}: {said}{_unlike(comparison)}{_left_out(comparison)}"


def _told_apart(
    comparison: PolicyComparison, best: Compared, others: Sequence[Compared], alike: list[str]
) -> str:
    runs = repetitions(comparison)
    if all(p.behind is not None and not p.behind.mean for p in others):
        return f"no difference between the policies by {_by(comparison, best)}, over {runs}"
    if len(alike) == len(others) and comparison.runs < 2:
        least = f"{best.name} had least by {_by(comparison, best)}"
        return f"{least}: what of that is chance, a single repetition cannot tell"
    lead = f"{best.name} did best by {_by(comparison, best)}, over {runs}"
    if len(alike) == len(others):
        return f"the policies are not told apart by {runs}; {best.name} had least"
    if alike:
        return f"{lead}; not told apart from it: {listed(alike)}"
    return f"{lead}; it is told apart from all others"


def repetitions(comparison: PolicyComparison) -> str:
    """`5 repetitions`, or `2 to 6 repetitions` where one policy has fewer than another."""
    if comparison.runs == comparison.most_runs:
        return count(comparison.runs, "repetition")
    return f"{comparison.runs} to {count(comparison.most_runs, 'repetition')}"


def _unlike(comparison: PolicyComparison) -> str:
    """What was not the same for all of them."""
    parts = [
        f"; {name} names {count(len(versions), 'policy', 'policies')} that differ, and they are not pooled: "
        f"{listed(list(versions))}"
        for name, versions in comparison.changed.items()
    ]
    if comparison.of_several_rates:
        rates = [f"{p.name} {1e9 / p.interval_ns:.3g} a second" for p in comparison.policies if p.interval_ns]
        parts.append(
            f"; they had different rates of requests ({listed(rates)}): shares, waits and load are per "
            "request, and what is counted is of a whole run"
        )
    return "".join(parts)


def _left_out(comparison: PolicyComparison) -> str:
    if not comparison.left_out:
        return ""
    return f"; left out: {count(comparison.left_out, 'recording')} without the end of every request"


def _by(comparison: PolicyComparison, best: Compared) -> str:
    value = best.figures[comparison.by]
    match comparison.weigh:
        case "failed":
            return comparison.matters + (f" ({share(value.mean)})" if value else "")
        case "latency":
            return comparison.matters + (f" ({duration(value.mean)})" if value else "")
        case "load":
            return "connections and tries more than needed"


def reasons(comparison: PolicyComparison) -> list[str]:
    """Why: what each of the others does worse than the best, and how sure that is."""
    best = next((p for p in comparison.policies if p.rank is not None), None)
    if best is None:
        return []
    every = []
    for p in comparison.policies:
        if p is best or p.behind is None:
            continue
        sure = f": {_behind(comparison.weigh, p.behind)}"
        apart = p.rank != best.rank and p.behind.is_positive
        verb = _MORE[comparison.weigh] if apart else "not told apart from " + best.name
        if not apart and p.rank is not None and p.rank != best.rank:
            verb += ", though from one between them"
        how = _how(p, best, counts=not comparison.of_several_rates) if apart else ""
        every.append(f"{p.name}: {verb}{sure}{how}")
    nobody = best.figures["unservable"]
    unserved = [p.figures["unserved"] for p in comparison.policies]
    if nobody is not None and (nobody.mean or any(u is not None and u.mean for u in unserved)):
        every.append(
            f"nobody could have served {share(nobody.mean)} of the requests, whatever the policy: for longer "
            "than callers wait, the path or its end was away"
            if nobody.mean
            else "the path and its end were never away for longer than callers wait: what went unserved, "
            "another policy might have served"
        )
    return every


def _behind(weigh: Weigh, more: Mean) -> str:
    def value(x: float) -> str:
        sign, size = ("-" if x < 0 else ""), abs(x)
        if weigh == "failed":
            return f"{sign}{share(size)}"
        return f"{sign}{duration(size)}" if weigh == "latency" else f"{sign}{figure(size)}"

    what = "of the requests" if weigh == "failed" else "per 1,000 requests" if weigh == "load" else ""
    text = f"{value(more.mean)} {what}".rstrip() + " more"
    if more.low is None or more.high is None or (not more.mean and more.low == more.high):
        return text if more.mean else "no difference"
    if more.low == more.high:
        return f"{text} in each repetition"
    return f"{text}, between {value(more.low)} and {value(more.high)} with 95 % confidence"


def _how(p: Compared, best: Compared, *, counts: bool) -> str:
    """What went otherwise under it, as far as both tell; `counts`: those of a run may be held together."""
    ways = (
        ("notice_p50_ns", "it notices after {} that no answer comes, not after {}"),
        ("recover_p50_ns", "trouble lasts {}, not {}"),
    )
    found = []
    for name, words in ways:
        mine, theirs = p.figures[name], best.figures[name]
        if mine is not None and theirs is not None and theirs.mean > 0 and mine.mean > 1.25 * theirs.mean:
            found.append(words.format(duration(mine.mean), duration(theirs.mean)))
    mine, theirs = p.figures["extra_connections"], best.figures["extra_connections"]
    if counts and mine is not None and theirs is not None and mine.mean > 2 * max(theirs.mean, 0.5):
        mean, other = figure(mine.mean), figure(theirs.mean)
        found.append(f"of connections it makes {mean} anew, not {other}")
    return f" ({'; '.join(found)})" if found else ""


def _percent(value: float) -> str:
    """With as many digits as tell it from 100 %: at the least two, and two of what is lacking."""
    if value >= 1:
        return "100 %"
    digits = max(2, 1 - math.floor(math.log10(100 * (1 - value))))
    return f"{100 * value:.{digits}f} %"


def figures(name: str, value: float) -> str:
    """A figure of `policies.FIGURES` as a table shows it."""
    if name.endswith("_ns"):
        return duration(value)
    if name in SHARES:
        return share(value) if value else "0"
    return figure(value) if value else "0"
