"""What modes beside echoes on a schedule show, in words: throughput, silences, ways of datagrams, handshakes,
load.
"""

from __future__ import annotations

from fathometer.findings.finding import Fact, Finding
from fathometer.findings.render.facts import fact, whole
from fathometer.findings.render.phrase import THERE, WAYS
from fathometer.findings.render.table import FACTS, facts, finding, findings, says
from fathometer.findings.words import count, data, duration, listed, rate, span

facts(
    {
        "seconds": "{way:way}: {slowest:rate} in the slowest second, {fastest:rate} in the fastest",
        "smoothed": (
            "{way:way}: smoothed round trip {mean:duration} ({min:duration} to {max:duration}), by the "
            "sender's kernel under it"
        ),
        "under way": "{way:way}: {bytes:data} had been sent and were not counted as received",
        "held to": "each stream was held to {rate:rate}",
        "ended early": "ended early: {why}",
        "clocks": "each at most {error:duration} from the truth, by both ends' clocks",
        "blocks": "blocks {pairing}, {a} and {b} of them",
    }
)
findings(
    {
        "loss direction": (
            69,
            (
                "datagrams are lost on the way {way:there}: {most} of {known:count loss|losses} whose way is "
                "known"
            ),
        ),
        "tls": (
            52,
            (
                "of the making of a connection {tcp:duration} are TCP's and {tls:duration and ends} the TLS "
                "handshake's, in the median of {connections:count connection}"
            ),
        ),
    }
)


@finding("throughput", 67)
def _throughput(f: Finding) -> str:
    ways = [_carried(f, name) for name in f.terms]
    return f"TCP carried {listed(ways)}" if ways else "throughput was to be measured, and nothing was counted"


def _carried(f: Finding, name: str) -> str:
    q = {what: f.quantities[f"{name} {what}"].value for what in ("rate", "bytes", "for", "streams")}
    again = f.quantities.get(f"{name} sent again")
    resent = "how many segments were sent again is not known"
    if again is not None:
        resent = (
            f"{count(int(again.value), 'segment')} sent again" if again.value else "no segment sent again"
        )
    by = "" if f.terms[name] == "receiver" else ", by the sender's count"
    of = f"{data(q['bytes'])} in {duration(q['for'])} on {count(int(q['streams']), 'stream')}"
    return f"{rate(q['rate'])} {WAYS[name]} ({of}{by}; {resent})"


@says(FACTS, "congestion")
def _congestion(one: Fact) -> str:
    here, there = one.terms["here"], one.terms["there"]
    if here and there and here != there:
        return f"congestion control {here} here, {there} there"
    return f"congestion control {here or there}"


@says(FACTS, "ways of losses")
def _ways_of_losses(one: Fact) -> str:
    most, known, unknown = (whole(one, n) for n in ("most", "known", "unknown"))
    parts = [f"{most:,} on the way {THERE[one.terms['way']]}"]
    parts += [f"{known - most:,} on the other"] if known > most else []
    parts += [f"{unknown:,} nobody can say where"] if unknown else []
    return ", ".join(parts)


@finding("asymmetry", 51)
def _asymmetry(f: Finding) -> str:
    there, back = (f.quantities[n].value for n in ("forward", "backward"))
    longer = "there" if there > back else "back"
    return f"the way {longer} takes longer: {duration(there)} there and {duration(back)} back in the median"


@finding("silence", 66)
def _silence(f: Finding) -> str:
    what = f"after {duration(f.quantities['gap'].value)} of silence"
    cost = f.quantities["cost"]
    ends = "" if cost.low is None or cost.high is None else f" ({span(cost.low, cost.high, positive=False)})"
    words = {
        "cannot be decided": "it cannot be decided whether the first echo takes longer than a warm one",
        "no difference shown": "the first echo is not shown to differ from a warm one",
        "longer": f"the first echo takes {duration(cost.value)} longer{ends}",
        "shorter": "the first echo takes less than a warm one",
    }
    return f"{what} {words[f.terms['verdict']]}{_growths(f, ': ')}"


def _growths(f: Finding, before: str) -> str:
    growths = [fact(one) for one in f.facts if one.code == "growth"]
    return before + listed(growths) if growths else ""


@says(FACTS, "silences")
def _silences(one: Fact) -> str:
    lost, outside = whole(one, "first unanswered"), whole(one, "outside")
    parts = [f"{count(whole(one, 'first'), 'first sample')} and {count(whole(one, 'warm'), 'warm one')}"]
    if lost:
        parts.append(f"{lost:,} of {count(whole(one, 'first sent'), 'first sample')} never answered")
    if outside:
        parts.append(f"{count(outside, 'sample')} after a loss or a step of the clock left out")
    return "; ".join(parts)


@finding("under load", 68)
def _under_load(f: Finding) -> str:
    return f"under load{_growths(f, ' ')}{': queues on the path fill' if f.terms['queues'] else ''}"


@says(FACTS, "load")
def _load(one: Fact) -> str:
    rates = [f"{rate(one.quantities[n].value)} {n}" for n in ("sent", "came back") if n in one.quantities]
    return f"the load: {listed(rates)}, the mean of {count(whole(one, 'phases'), 'phase')}"
