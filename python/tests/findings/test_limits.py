"""Searches for limits in a report: what they found is told; one that broke off is no empty recording."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import open_recordings
from fathometer.findings import render, values
from fathometer.findings.analyse import analyse
from fathometer.report import templates
from fathometer.report.page import Page
from fathometer.report.write import as_text
from support.ends import closed, explained, opened
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def end(seconds, key="idle_ns"):
    return {key: int(seconds * SECOND), "hits": 3, "of": 3, "share_95": [0.44, 1.0]}


def analysed(directory, result=None, mode="tcp-idle-limit"):
    events = [{"at_ns": START, "kind": "limits.began", "limit": "idle", "up_to_ns": 1, "connections": 3}]
    if result is not None:
        events.append({"at_ns": START + SECOND, "kind": "limits.ended", "result": result})
    probe = {"mode": mode, "size": None, "interval_ns": None}
    none = np.zeros(0, dtype=np.int64)
    write(directory / "search", none, label="there", events=events, manifest={"probe": probe})
    write(directory / "path", lognormal_ns(1, 2000), label="path")
    return analyse(open_recordings([directory]))


@pytest.mark.parametrize(
    ("result", "mode", "words"),
    [
        ({"verdict": "found", "survived": end(240), "died": end(244)}, "idle", "idle limit between"),
        ({"verdict": "found", "died": end(0.4)}, "idle", "idle limit below"),
        (
            {"verdict": "found", "survived": end(6), "died": end(10), "dies_from_ns": 7 * SECOND},
            "idle",
            "idle limit is a band: safe up to 6.00 s, dead from 10.0 s on",
        ),
        ({"verdict": "not_found", "survived": end(600)}, "idle", "no idle limit up to"),
        (
            {"verdict": "found", "survived": end(9, "age_ns"), "died": end(10, "age_ns")},
            "age",
            "age limit between",
        ),
        (
            {"verdict": "not_found", "survived": end(600), "keepalive_ns": 60 * SECOND},
            "idle",
            ", with a keepalive every 1 min",
        ),
        (
            {"verdict": "found", "died": end(600), "one_way": {"every_ns": 30 * SECOND, "from": "there"}},
            "idle",
            ", with traffic from the reflector alone every 30.0 s",
        ),
        (
            {
                "verdict": "not_found",
                "survived": end(600),
                "one_way": {"every_ns": 30 * SECOND, "from": "here"},
            },
            "idle",
            ", with traffic from this host alone every 30.0 s",
        ),
        (
            {
                "verdict": "unclear",
                "survived": end(3.5),
                "dies_from_ns": 4 * SECOND,
                "how": {"not_answered": 3},
            },
            "idle",
            "idle limit not known: requests were acknowledged and not answered from 4.00 s on",
        ),
        (
            {"verdict": "unclear", "survived": end(3), "dies_from_ns": 4 * SECOND, "strays": 29, "how": {}},
            "idle",
            "idle limit unclear: connections died from 4.00 s on, of neither one limit nor none",
        ),
        (None, "idle", "a search for the idle limit found nothing"),
        ({"verdict": "found", "survived": {"idle_ns": "long"}}, "idle", "found nothing"),
    ],
)
def test_what_a_search_found_is_a_finding(tmp_path, result, mode, words):
    analysis = analysed(tmp_path, result, f"tcp-{mode}-limit")
    (finding,) = [f for f in analysis.findings if "limit" in f.kind]
    assert words in render.statement(finding)
    ends = [
        name for name in ("survived", "died") if isinstance((result or {}).get(name, {}).get("hits"), int)
    ]
    unclear = "unclear" if "strays" in (result or {}) else "not answered"
    others = [unclear] if (result or {}).get("verdict") == "unclear" else []
    assert [fact.code for fact in finding.facts] == [f"limit {name}" for name in ends + others]
    told = render.evidence(finding)
    assert all("3 of 3 connections" in text for text in told[: len(ends)])
    more = {
        "unclear": "29 connections died, the first within 4.00 s",
        "not answered": "3 connections acknowledged a request after 4.00 s",
    }
    assert all(more[unclear] in text for text in told[len(ends) :])
    assert not others or "none up to" not in as_text(analysis, "markdown")
    assert not [f for f in analysis.findings if f.kind == "no samples"]
    assert words in as_text(analysis, "markdown")


def rate_end(rate, lost):
    return {"rate_per_s": rate, "lost": lost, "due": 2 * rate, "share_95": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("result", "words", "facts"),
    [
        (
            {
                "verdict": "found",
                "good": rate_end(1_000, 0),
                "bad": rate_end(1_250, 90),
                "began": "both",
                "connections": 4,
            },
            "loss and delay begin between 1,000/s and 1,250/s, over 4 connections",
            ["0 of 2,000 packets were lost", "90 of 2,500 packets were lost"],
        ),
        (
            {"verdict": "found", "good": rate_end(80, 0), "bad": rate_end(100, 3), "began": "loss"},
            "loss begins between 80/s and 100/s",
            ["at 80/s", "at 100/s 3 of 200"],
        ),
        (
            {"verdict": "not_found", "good": rate_end(5_000, 1), "connections": 1},
            "no rate ceiling up to 5,000/s, over one connection",
            ["1 of 10,000 packets"],
        ),
        (
            {"verdict": "found", "good": rate_end(671, 0), "bad": rate_end(839, 9), "began": "held_back"},
            "TCP begins to hold packets back between 671/s and 839/s",
            ["at 671/s", "at 839/s 9 of 1,678"],
        ),
        ({"verdict": "unclear", "good": {"rate_per_s": "many"}}, "rate ceiling found nothing", []),
        (None, "a search for the rate ceiling found nothing", []),
    ],
)
def test_rate_ceiling_gives_finding_without_keepalive_advice(tmp_path, result, words, facts):
    analysis = analysed(tmp_path, result, "tcp-rate-ceiling")
    (finding,) = [f for f in analysis.findings if "ceiling" in f.kind]
    assert words in render.statement(finding)
    evidence = render.evidence(finding)
    assert len(evidence) == len(facts)
    assert all(part in text for part, text in zip(facts, evidence, strict=True)), evidence
    assert words in as_text(analysis, "markdown")
    assert of(analysis, "keepalive", "lifetime") == []
    assert finding.confidence == ("high" if result and result["verdict"] != "unclear" else "low")


def of(analysis, *topics):
    return [a for a in analysis.advice if a.topic in topics]


def died_idle(directory, idle_s):
    """A connection in use elsewhere on the path that was found dead after so long a silence."""
    at = START + 900 * SECOND
    events = [
        opened(0, START),
        closed(0, at, 900 * SECOND, "reset", sent=9, answered=8, idle_ns=idle_s * SECOND),
        explained(0, at, "idle_expired", ["it was idle"], confidence="high"),
    ]
    write(directory / "died", lognormal_ns(2, 9), label="died", interval_ns=100 * SECOND, events=events)


def test_a_keepalive_is_half_of_what_was_survived(tmp_path):
    found = {"verdict": "found", "survived": end(240), "died": end(244)}
    (advice,) = of(analysed(tmp_path, found), "keepalive", "lifetime")
    assert advice.quantities["setting"].value == 120 * SECOND
    assert advice.confidence == "high"
    told = render.advice(advice)
    assert told.startswith("there: send a keepalive at least every 2 min 0 s")
    assert "4 min 4 s" in told
    written = {s.name: s.text for s in render.snippets(advice)}
    assert written["HikariCP"] == "keepaliveTime=120000"
    assert written["Npgsql"] == "Keepalive=120"


def test_keepalive_covers_stalls_of_searched_path(tmp_path):
    """A failover of 40 s beside a limit of 30 s: keepalives that are given up sooner end what recovers. In a
    study a search's recordings have its name as a tag, and were of another path than the probe's.
    """
    path = {"from": "a", "to": "b", "label": "p", "tags": {"study": "s", "round": "1"}}
    none = np.zeros(0, dtype=np.int64)
    found = {"verdict": "found", "survived": end(30), "died": end(31)}
    searched = {"mode": "tcp-idle-limit", "size": None, "interval_ns": None}
    write(
        tmp_path / "search",
        none,
        label="p",
        events=[{"at_ns": START + SECOND, "kind": "limits.ended", "result": found}],
        manifest={"probe": searched, "path": {**path, "tags": {**path["tags"], "limit": "idle"}}},
    )
    began = {"connection": 0, "seq": 10, "outstanding": 1, "threshold_ns": SECOND}
    ended = {"connection": 0, "duration_ns": 40 * SECOND, "samples": 40, "recovered": True}
    events = [
        opened(0, START),
        {"at_ns": START + 10 * SECOND, "kind": "stall.began", **began},
        {"at_ns": START + 50 * SECOND, "kind": "stall.ended", **ended},
    ]
    write(tmp_path / "probe", lognormal_ns(1, 200), label="p", events=events, manifest={"path": path})
    (advice,) = of(analyse(open_recordings([tmp_path])), "keepalive")
    written = {s.name: s.text for s in render.snippets(advice)}
    # Nine keepalives, a quarter of the limit apart at the most, last for 63 s: less than twice the stall.
    assert "tcp_keepalive_probes" in "".join(written.values()), written


def test_lifetime_is_nine_tenths_of_survived_age(tmp_path):
    found = {"verdict": "found", "survived": end(1800, "age_ns"), "died": end(1803, "age_ns")}
    (advice,) = of(analysed(tmp_path, found, "tcp-age-limit"), "keepalive", "lifetime")
    assert advice.topic == "lifetime"
    assert advice.quantities["setting"].value == 27 * 60 * SECOND
    assert "HikariCP" in [s.name for s in render.snippets(advice)]


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"verdict": "not_found", "survived": end(600)},
        {"verdict": "found", "survived": end(240), "died": end(244), "keepalive_ns": 60 * SECOND},
        {"verdict": "unclear", "survived": end(240), "died": end(244)},
    ],
)
def test_what_found_no_limit_asks_for_nothing(tmp_path, result):
    """As `fathom limits check` takes no such recording."""
    assert of(analysed(tmp_path, result), "keepalive", "lifetime") == []


@pytest.mark.parametrize("verdict", ["found", "stopped"])
def test_limit_below_shortest_length_has_no_setting(tmp_path, verdict):
    (advice,) = of(analysed(tmp_path, {"verdict": verdict, "died": end(0.4)}), "keepalive")
    assert "setting" not in advice.quantities
    assert render.snippets(advice) == []


@pytest.mark.parametrize(
    ("survived", "died", "idle", "setting"),
    [
        (240, 244, 300, 120),
        # A search that contradicts what was seen elsewhere on the same path is not built upon.
        (600, 610, 300, None),
        (600, None, 900, 300),
    ],
)
def test_keepalive_is_shorter_than_any_fatal_silence(tmp_path, survived, died, idle, setting):
    found = {"verdict": "found" if died else "not_found", "survived": end(survived)}
    if died:
        found["died"] = end(died)
    died_idle(tmp_path, idle)
    (advice,) = of(analysed(tmp_path, found), "keepalive")
    value = advice.quantities.get("setting")
    assert (value and value.value) == (setting and setting * SECOND)
    assert {["died", "connection", "0"][-1]} <= {i.split("/")[-1] for i in advice.evidence}
    if value is not None:
        assert value.value < idle * SECOND


def test_keepalive_settings_are_in_all_formats(tmp_path):
    analysis = analysed(tmp_path, {"verdict": "found", "survived": end(240), "died": end(244)})
    page, text = templates.html(Page("limits", analysis)), as_text(analysis, "markdown")
    assert "<pre>keepaliveTime=120000</pre>" in page
    assert "<details" in page.partition("keepaliveTime")[0].rpartition("send a keepalive")[2]
    assert "`keepaliveTime=120000`" in text
    (advice,) = [a for a in json.loads(as_text(analysis, "json"))["advice"] if a["topic"] == "keepalive"]
    (hikari,) = [s for s in advice["settings"] if s["library"] == "hikari"]
    assert hikari["settings"] == [
        {"name": "keepaliveTime", "value": "120000", "unit": "ms", "ns": 120 * SECOND}
    ]
    (kept,) = [s for s in advice["settings"] if s["library"] == "node-postgres"]
    assert (kept["text"], kept["default"]) == ("", "idleTimeoutMillis")


@given(
    st.lists(st.integers(1, 10**13), max_size=6),
    st.lists(st.integers(1, 10**13), max_size=6),
)
def test_known_safe_is_survived_and_below_deaths(survived, died):
    safe = values.known_safe(survived, died)
    if safe is None:
        assert not died or not [s for s in survived if s < min(died)]
    else:
        assert safe in survived
        assert safe < min(died)
