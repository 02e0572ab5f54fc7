"""The window of a breaker, against a breaker that is gone through try by try, and the client's own."""

import subprocess
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import open_recordings
from fathometer.findings import library_settings, render, values
from fathometer.findings.analyse import analyse
from fathometer.findings.render.snippets import snippet
from fathometer.report.write import as_text
from fathometer.stats.breaker import false_alarms, opens_after
from support.programs import fathom

SECOND = 1_000_000_000
SCENARIO = """
format = 1
name = "restarts"
seed = 1

[[host]]
name = "app"
address = "10.90.1.4"

[[host]]
name = "db"
address = "10.90.2.4"

[[path]]
label = "way"
from = "app"
to = "db"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[simulate]
for = "12m"
"""
RESTART = """
[[simulate.restart]]
host = "db"
at = "{at}m"
for = "{lasts}s"
"""
POLICY = "[request]\ntry_timeout = '1s'\ndeadline = '3s'\n"


def simulated(directory, policy, rate, lasts=30, restarts=(3, 6, 9)):
    directory.mkdir()
    scenario, file = directory / "s.toml", directory / "policy.toml"
    scenario.write_text(SCENARIO + "".join(RESTART.format(at=at, lasts=lasts) for at in restarts))
    file.write_text(policy)
    command = [fathom(), "fabric", "simulate", scenario, "--as-client", file, "--rate", str(rate)]
    subprocess.run([*command, "--record", directory / "r"], capture_output=True, check=True)
    return analyse(open_recordings([directory / "r"]))


def breaker_of(analysis):
    return [a for a in analysis.advice if a.topic == "breaker"]


def test_advised_window_opens_where_default_never_does(tmp_path):
    """The law: what is advised is given to the same client, in the same network, and its breaker opens in
    each of the outages; the default of 100 calls opens in none.
    """
    (advice,) = breaker_of(simulated(tmp_path / "without", POLICY, 1))
    assert advice.quantities["default window"].value == 100 * SECOND
    assert advice.quantities["opened"].value == 0
    assert advice.quantities["troubles"].value == 3
    told = render.advice(advice)
    assert "takes 1 min 40 s" in told
    assert "would have opened in 0 of them" in told
    (tried,) = [s.text for s in render.snippets(advice) if "--as-client" in s.name]
    opened = {}
    for name, breaker in (("default", "[breaker]\n"), ("advised", tried + "\n")):
        analysis = simulated(tmp_path / name, f"{POLICY}{breaker}open = '5s'\n", 1)
        opened[name] = [a.client.breaker_opened for a in analysis.applications]
        assert breaker_of(analysis) == []  # It has one.
    assert opened["default"] == [0]
    assert opened["advised"][0] >= 3


@pytest.mark.parametrize(("rate", "lasts"), [(10, 30), (1, 6)])
def test_no_advice_if_default_opens_or_few_fail(tmp_path, rate, lasts):
    assert breaker_of(simulated(tmp_path / "r", POLICY, rate, lasts)) == []


@pytest.mark.parametrize("lasts", [3, 30])
def test_advised_retries_survive_the_outage(tmp_path, lasts):
    """And those of the defaults do: what is written is given to a client, in virtual time."""
    (recipe, spring) = library_settings.retries(values.patience(lasts * SECOND))
    advised = snippet(recipe).text.replace("[request]", "[request]\nidempotent = true")
    lost = {}
    for name, policy in (("advised", advised), ("default", "[request]\nidempotent = true\n[retry]\n")):
        (a,) = simulated(tmp_path / name, policy, 1, lasts).applications
        lost[name] = a.client.unserved
    assert lost["advised"] == 0
    assert lost["default"] > 0
    told = dict(line.split("=") for line in snippet(spring).text.splitlines())
    patience = values.patience(lasts * SECOND)
    # Of its `max-attempts` one is no retry; a wait is at least half of what it would be without chance.
    waits = [min(patience.cap_ns, patience.first_ns * 2**n) / 2 for n in range(patience.retries)]
    assert int(told["resilience4j.retry.configs.default.max-attempts"]) == len(waits) + 1
    assert sum(waits) > lasts * SECOND


def test_a_report_of_applications_alone_has_it(tmp_path):
    """Its Markdown had no section for advice: there was none but on paths."""
    text = as_text(simulated(tmp_path / "r", POLICY, 1), "markdown")
    assert "a circuit breaker" in text.partition("## What to change")[2]


def stepped(ended, failed, spans, calls):
    """A breaker that never closes again after a span's first opening, one try at a time."""
    first = [None] * len(spans)
    window = deque(maxlen=calls)
    for at, bad in zip(ended, failed, strict=True):
        window.append(bad)
        if len(window) == calls and sum(window) >= calls / 2 and any(window):
            for number, (begin, end) in enumerate(spans):
                if begin <= at <= end and first[number] is None:
                    first[number] = at - begin
    return first


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=60),
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300)), max_size=4),
    st.integers(1, 12),
)
def test_opening_matches_a_stepped_breaker(tries, spans, calls):
    ended = np.cumsum([gap for gap, _ in tries]).astype(np.int64)
    failed = np.array([bad for _, bad in tries], dtype=np.bool_)
    spans = [(begin, begin + length) for begin, length in spans]
    found = opens_after(ended, failed, spans, calls)
    assert found == stepped(ended.tolist(), failed.tolist(), spans, calls)


def alarmed(ended, failed, spans, calls):
    """Stretches in which such a breaker has reason to be open, one try at a time, with no try of a span."""
    window, stretches, opens = deque(maxlen=calls), [], False
    for at, bad in zip(ended, failed, strict=True):
        window.append((at, bad))
        bads = sum(bad for _, bad in window)
        was, opens = opens, len(window) == calls and bads >= calls / 2 and bads > 0
        if opens and not was:
            stretches.append(set())
        if opens:
            stretches[-1] |= {at for at, _ in window}
    return sum(
        not any(min(tries) <= to and begin <= max(tries) for begin, to in spans) for tries in stretches
    )


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=80),
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), max_size=3),
    st.integers(1, 12),
)
def test_false_alarms_match_a_stepped_breaker(tries, spans, calls):
    ended = np.cumsum([gap for gap, _ in tries]).astype(np.int64)
    failed = np.array([bad for _, bad in tries], dtype=np.bool_)
    spans = [(begin, begin + length) for begin, length in spans]
    assert false_alarms(ended, failed, spans, calls) == alarmed(ended.tolist(), failed.tolist(), spans, calls)


@pytest.mark.parametrize(("short", "alarms"), [((), 0), ((1.5, 4.5), 2), ((1.5, 4.5, 7.5, 10, 10.5), None)])
def test_false_alarms_weaken_window_advice(tmp_path, short, alarms):
    """Outages of 16 s need a window of ten calls at one request a second, and a restart of 6 s opens that."""
    text = SCENARIO + "".join(RESTART.format(at=at, lasts=16) for at in (3, 6, 9))
    text += "".join(
        f'[[simulate.restart]]\nhost = "db"\nat = "{round(at * 60)}s"\nfor = "6s"\n' for at in sorted(short)
    )
    (tmp_path / "s.toml").write_text(text)
    (tmp_path / "p.toml").write_text(POLICY)
    command = [fathom(), "fabric", "simulate", tmp_path / "s.toml", "--as-client", tmp_path / "p.toml"]
    subprocess.run([*command, "--rate", "1", "--record", tmp_path / "r"], capture_output=True, check=True)
    found = breaker_of(analyse(open_recordings([tmp_path / "r"])))
    if alarms is None:
        assert found == []
        return
    (advice,) = found
    assert (advice.quantities["calls"].value, advice.quantities["alarms"].value) == (10, alarms)
    assert advice.confidence == ("low" if alarms else "medium")
    words = "it would have opened 2 times" if alarms else "it would not have opened without an outage"
    told = [render.fact(one) for one in advice.facts]
    assert any(words in text for text in told), told


def test_advised_window_is_written_for_resilience4j(tmp_path):
    (advice,) = breaker_of(simulated(tmp_path / "r", POLICY, 1))
    calls = int(advice.quantities["calls"].value)
    (spring,) = [s.text for s in render.snippets(advice) if s.name == "Resilience4j"]
    assert dict(line.split("=") for line in spring.splitlines()) == {
        f"resilience4j.circuitbreaker.configs.default.{name}": str(calls)
        for name in ("sliding-window-size", "minimum-number-of-calls")
    }


def test_each_policy_has_a_window_of_its_own(tmp_path):
    """They were pooled: one that sends a request six times said which window both were to have."""
    retrying = (
        "[request]\nidempotent = true\ntry_timeout = '200ms'\ndeadline = '3s'\n"
        "[retry]\nat_most = 5\nfirst = '100ms'\njitter = 'none'\nbudget = 'none'\n"
    )
    (tmp_path / "s.toml").write_text(SCENARIO + "".join(RESTART.format(at=at, lasts=30) for at in (3, 6, 9)))
    command = [fathom(), "fabric", "simulate", tmp_path / "s.toml", "--rate", "1"]
    alone = {}
    for name, policy in (("plain", POLICY), ("again", retrying)):
        (tmp_path / f"{name}.toml").write_text(policy)
        command += ["--as-client", tmp_path / f"{name}.toml"]
        (a,) = breaker_of(simulated(tmp_path / name, policy, 1)) or [None]
        alone[f"way, {name}"] = a and a.quantities["calls"].value
    subprocess.run([*command, "--record", tmp_path / "both"], capture_output=True, check=True)
    every = breaker_of(analyse(open_recordings([tmp_path / "both"])))
    found = {a.paths[0]: a.quantities["calls"].value for a in every}
    assert len(set(alone.values())) == 2, "or pooling them would not be seen"
    assert found == {name: calls for name, calls in alone.items() if calls is not None}
