"""Searches for limits in a study: what is refused, what is planned, and runs of them on this machine, in a
fabric and over SSH.
"""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from fathometer.dataset import open_recording
from fathometer.dataset.model import Event
from fathometer.errors import FathometerError
from fathometer.findings.limits_compared import searched
from fathometer.findings.scenarios import scenarios
from fathometer.study.agree import disagreement
from fathometer.study.commands import limit_command
from fathometer.study.deadlines import deadline_ns, most_bytes
from fathometer.study.journal import read_journal
from fathometer.study.live.happenings import of_event
from fathometer.study.outline import outline_of, title_of
from fathometer.study.plan import estimate_ns, plan, quick
from fathometer.study.read import notes, parse
from fathometer.study.run import run_study
from support.programs import fathom, free_port, need_fabrics
from support.rate import assert_rate
from support.recordings import START
from support.recordings import write as write_recording

S = 1_000_000_000
HEAD = """\
format = 1
name = "limits"

[[host]]
name = "here"
local = true

[[scenario]]
label = "a"
from = "here"
to = "here"
port = 17007
"""
ONE = """
[[limit]]
name = "idle"
up-to = "2s"
per-length = 2
"""


def told(text):
    return [(p.line, p.column, p.what, p.remedy) for p in parse(text)[1]]


def test_a_study_of_searches_alone_has_no_problem():
    study, problems = parse(HEAD + ONE)
    assert problems == []
    # One round, as a search has its own repetitions, and no note about that.
    assert (study.rounds, notes(study)) == (1, [])
    (run,) = plan(study)
    assert str(run.directory) == "label=a/limit=idle/run=01"
    assert run.probe.mode == "tcp-idle-limit"


# Lines are counted by hand: HEAD has 12 of them, and ONE begins with an empty one.
@pytest.mark.parametrize(
    ("old", "new", "line", "what", "remedy"),
    [
        ("per-length", "per-lenght", 17, "limit.per-lenght", "did you mean `per-length`"),
        ('up-to = "2s"', 'up-to = "2"', 16, "no duration", "1m30s"),
        ('up-to = "2s"', 'up-to = "10d"', 14, "`up-to` is from 1s to 7d", '"1h"'),
        ("per-length = 2", "per-length = 0", 17, "limit.per-length", "greater than or equal to 1"),
        ("per-length = 2", 'kind = "ages"', 17, "limit.kind", "'idle', 'age' or 'rate'"),
        (
            "per-length = 2",
            'kind = "age"\nkeepalive = "5s"',
            14,
            "`keepalive` is of searches for an idle",
            "kind",
        ),
        ("per-length = 2", "connections = 24", 14, "`connections` is of searches for an age", 'kind = "age"'),
        ("per-length = 2", 'keepalive = "1500ms"', 14, "whole seconds", "round `keepalive`"),
        ("per-length = 2", 'resolution = "60%"', 14, "`resolution` is from 0.5% to 50%", '"2%"'),
        ("per-length = 2", 'resolution = "2"', 17, "limit.resolution", ""),
        ("per-length = 2", "rate-ceiling = 500", 14, "`rate-ceiling` is of searches for the rate", '"rate"'),
        ("per-length = 2", 'kind = "age"\nconnections = 7', 14, "7 `connections` do not tell", "8 or more"),
        (
            "per-length = 2",
            'kind = "age"\none-way = "5s"',
            14,
            "`one-way` is of searches for an idle",
            "idle",
        ),
        (
            'up-to = "2s"\nper-length = 2',
            'kind = "rate"',
            14,
            "up to which rate is not said",
            "rate-ceiling = 5000",
        ),
        ("per-length = 2", 'kind = "rate"\nrate-ceiling = 500', 14, "`up-to` is of searches for a limit", ""),
        (
            'up-to = "2s"\nper-length = 2',
            'kind = "rate"\nrate-ceiling = 6000',
            17,
            "sends 6,000/s a connection, above 5,000/s",
            "lower `rate-ceiling`",
        ),
        (
            'up-to = "2s"\nper-length = 2',
            'kind = "rate"\nrate-ceiling = 60000\nconnections = 100',
            17,
            "sends 60,000/s in all, above 50,000/s",
            "lower `rate-ceiling`",
        ),
        ("per-length = 2", "rate-ceiling = 99", 17, "limit.rate-ceiling", ""),
        ("per-length = 2", 'one-way-from = "there"', 14, "`one-way-from` says who sends", 'one-way = "30s"'),
        ("per-length = 2", 'one-way = "5s"\nkeepalive = "5s"', 14, "two questions", "for each"),
        ("per-length = 2", 'one-way = "500ms"', 14, "`one-way` is 1s or more", ""),
        ("[[limit]]", "[[limits]]", 14, "`limits` says how much the study may send", "[[limit]]"),
    ],
)
def test_mistake_has_line_and_remedy(old, new, line, what, remedy):
    found = told(HEAD + ONE.replace(old, new))
    assert any(f[0] == line and what in f[2] and remedy in f[3] for f in found), found


def test_names_and_addresses():
    (found,) = told(HEAD + ONE + ONE)
    assert (found[0], found[2]) == (20, 'two searches are called "idle"')
    (found,) = told(HEAD.replace("port = 17007", 'source-address = "here"') + ONE)
    assert (found[0], found[2]) == (12, '`scenario.source-address`: "here" is no address')


def test_the_plan_counts_searches_too():
    """By hand: 10 min, a tenth and a minute; 24 connections, each a 120th of the hour after the other."""
    text = HEAD + '[[limit]]\n[[limit]]\nname = "old"\nkind = "age"\nup-to = "1h"\n'
    study, problems = parse(text)
    assert problems == []
    first, second = plan(study)
    by_name = {r.probe.name: r for r in (first, second)}
    assert by_name["limit"].estimate_ns == (600 + 60 + 60) * S + S // 2
    assert by_name["old"].estimate_ns == (3600 + 24 * 30) * S + S // 2
    assert estimate_ns(study, (first, second)) == (720 + 4320 + 1) * S
    assert [title_of(p["directory"]) for p in outline_of(study, (first,))["paths"]] == [
        f"a  {first.probe.name}"
    ]
    # A search begins anew where something else ended its connections.
    assert deadline_ns(first) > 5 * first.estimate_ns
    assert most_bytes(first) > 64 << 20
    short = {r.probe.name: r for r in plan(quick(study))}
    assert short["limit"].probe.up_to_ns == short["old"].probe.up_to_ns == 2 * S
    assert max(r.estimate_ns for r in short.values()) < 20 * S


def test_reflector_traffic_has_a_minimum_interval():
    """By hand: 20 min and an eighth are 1,350 s, in which 128 segments are 10.5 s apart: 10.6 s do."""
    text = HEAD + '[[limit]]\nup-to = "20m"\none-way = "10500ms"\none-way-from = "there"\n'
    (found,) = told(text)
    assert "`one-way` is 10s 600ms or more" in found[2]
    assert told(text.replace("10500", "10600")) == []
    assert told(text.replace('one-way-from = "there"\n', "").replace("10500ms", "1s")) == []


def test_a_rate_ceiling_is_planned_and_asked_for():
    """By hand: 5,000/s is 50/s a quarter higher 20 times, which are 21 steps; with the last two tried again
    23 of at most 3.5 s.
    """
    text = HEAD + '[[limit]]\nkind = "rate"\nrate-ceiling = 5000\nconnections = 2\n'
    study, problems = parse(text)
    assert problems == []
    (run,) = plan(study)
    assert run.probe.mode == "tcp-rate-ceiling"
    assert run.estimate_ns == 23 * 3.5 * S + S // 2
    words = limit_command(study, run, "127.0.0.1", False)("fathom", "r")
    asked = words[words.index("--rate-ceiling") :][:4]
    assert asked == ["--rate-ceiling", "5000", "--connections", "2"]
    assert "--up-to" not in words
    assert "--allow-high-rate" not in words
    (short,) = plan(quick(study))
    assert (short.probe.rate_ceiling, short.probe.of_each) == (100, 1)
    one_way, _ = parse(HEAD + '[[limit]]\none-way = "30s"\none-way-from = "there"\n')
    (run,) = plan(one_way)
    words = limit_command(one_way, run, "127.0.0.1", False)("fathom", "r")
    assert words[words.index("--one-way") :][:4] == ["--one-way", "30s", "--one-way-from", "there"]


def test_remaining_rounds_are_estimated_alone():
    """Side by side, the first round is finished: the second takes as long as its longest run."""
    study, _ = parse(HEAD.replace("\n\n[[host", '\nrepetitions = 3\norder = "side-by-side"\n\n[[host') + ONE)
    left = tuple(r for r in plan(study) if r.round > 1)
    assert len(left) == 2
    assert estimate_ns(study, left) == 2 * left[0].estimate_ns
    assert estimate_ns(study, ()) == 0


def test_a_search_beside_probes_leaves_their_repetitions_alone():
    study, _ = parse(HEAD + ONE + "[[probe]]\ncount = 10\n")
    assert study.rounds == 1
    study, _ = parse(HEAD + ONE + '[[probe]]\nname = "p"\ncount = 10\n[[probe]]\nname = "q"\ncount = 10\n')
    assert study.rounds == 20


def write(directory, text, port):
    file = directory / "study.toml"
    file.write_text(text.replace("17007", str(port)))
    return file


def test_local_search_is_recorded_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    head = HEAD.replace("to =", 'via = "nothing"\ntags = { tier = "1" }\nto =')
    file = write(tmp_path, head + ONE.replace("2s", "1s").replace("= 2", "= 1"), free_port())
    output, said = tmp_path / "out", []
    assert run_study(file, output, Path(fathom()), False, said.append) == 1
    assert any("no idle limit up to 1.0" in line for line in said)
    directory = output / "label=a" / "limit=idle" / "run=01"
    manifest = open_recording(directory).manifest
    tags = manifest.path.tags
    assert (manifest.label, manifest.mode, manifest.path.via) == ("a", "tcp-idle-limit", "nothing")
    assert (tags["study"], tags["round"], tags["limit"], tags["tier"]) == ("limits", "1", "idle", "1")
    (run,) = plan(parse(file.read_text())[0])
    assert disagreement(directory, run, run.scenario.port) is None
    other = replace(run, probe=run.probe.model_copy(update={"up_to_ns": 3 * S}))
    assert "the probe's up_to_ns was 1000000000" in disagreement(directory, other, None)
    other = replace(run, probe=run.probe.model_copy(update={"per_length": 5}))
    assert "per_length" in disagreement(directory, other, None)
    # It is finished: the same command does nothing more.
    run_study(file, output, Path(fathom()), False, lambda _: None)
    kinds = [e["kind"] for e in read_journal(output)]
    assert kinds.count("run.started") == kinds.count("run.finished") == 1
    # One that was ended early has a result, too, and does not count.
    events = directory / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "limits.ended":
            line["result"]["verdict"] = "stopped"
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert disagreement(directory, run, None) == "the search was ended before it had a result"


RATE = HEAD + '[[limit]]\nkind = "rate"\nrate-ceiling = 100\n'


def rates_agree(directory, run):
    """Whether the recording is that of the plan's search, and not of others."""
    assert disagreement(directory, run, run.scenario.port) is None
    other = replace(run, probe=run.probe.model_copy(update={"rate_ceiling": 200}))
    assert "the probe's up_to_per_s was 100" in disagreement(directory, other, None)
    other = replace(run, probe=run.probe.model_copy(update={"connections": 2}))
    assert "connections" in disagreement(directory, other, None)


def test_rate_recording_must_agree_with_the_plan(tmp_path):
    (run,) = plan(parse(RATE)[0])
    directory = write_recording(
        tmp_path / "r",
        np.zeros(0, dtype=np.int64),
        label="a",
        events=[{"at_ns": START, "kind": "limits.ended", "result": {"verdict": "not_found"}}],
        manifest={
            "probe": {"mode": "tcp-rate-ceiling", "up_to_per_s": 100, "connections": 1},
            "reflector": {"address": "here:17007", "resolved": "127.0.0.1:17007"},
        },
    )
    rates_agree(directory, run)


@pytest.mark.acceptance
def test_rate_search_is_recorded_and_agrees(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    numbers = count()

    def search():
        place = tmp_path / str(next(numbers))
        place.mkdir()
        file, said = write(place, RATE, free_port()), []
        (run,) = plan(parse(file.read_text())[0])
        try:
            run_study(file, place / "out", Path(fathom()), False, said.append)
        except FathometerError as error:
            raise AssertionError(str(error)) from None
        assert any("no rate ceiling up to 100/s" in line for line in said), said
        directory = place / "out" / run.directory
        rates_agree(directory, run)
        recording = open_recording(directory)
        (ended,) = [e for e in recording.events if e.kind == "limits.ended"]
        assert of_event("", "", ended).text == "no rate ceiling up to 100/s"
        assert len([e for e in recording.events if e.kind == "ceiling.stepped" and e.known]) >= 4

    # A machine that is too busy for 100 packets a second cannot search.
    assert_rate(2, 3, search)


def test_search_error_is_the_failure_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    text = HEAD + '[[limit]]\nup-to = "1h"\nmax-connections = 16\n'
    file = write(tmp_path, text, free_port())
    with pytest.raises(FathometerError, match="1 of 1 run failed"):
        run_study(file, tmp_path / "out", Path(fathom()), False, lambda _: None)
    (failed,) = [e for e in read_journal(tmp_path / "out") if e["kind"] == "run.failed"]
    assert "--max-connections" in failed["reason"]


FABRIC = """
format = 1
name = "forgetful"

[[host]]
name = "near"
addresses = ["10.93.1.4", "10.93.1.14"]

[[host]]
name = "far"
addresses = ["10.93.2.4", "10.93.2.14"]

[[middlebox]]
name = "short"
kind = "firewall"
idle = "1s"
on-expiry = "reset"

[[middlebox]]
name = "long"
kind = "firewall"
idle = "2500ms"
unknown = "drop"

[[path]]
label = "first"
from = "10.93.1.4"
to = "10.93.2.4"
via = ["short"]
source = "nobody's"
rtt = { mean = "1ms" }

[[path]]
label = "second"
from = "10.93.1.14"
to = "10.93.2.14"
via = ["long"]
source = "nobody's"
rtt = { mean = "1ms" }
"""
EMULATED = """\
format = 1
name = "emulated"
order = "side-by-side"

[[host]]
name = "here"
fabric = { scenario = "forgetful.toml", host = "near" }

[[host]]
name = "there"
fabric = { scenario = "forgetful.toml", host = "far" }

[[scenario]]
label = "resets"
from = "here"
to = "there"
source-address = "10.93.1.4"
address = "10.93.2.4"

[[scenario]]
label = "forgets"
from = "here"
to = "there"
source-address = "10.93.1.14"
address = "10.93.2.14"

[[limit]]
up-to = "3500ms"
"""


@pytest.mark.acceptance
def test_fabric_path_limits_are_distinguished(tmp_path, monkeypatch):
    """Each path has a firewall of its own, and is reached from an address of its own: limits of 1 s and 2.5 s
    must lie in their brackets.
    """
    need_fabrics()
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    (tmp_path / "forgetful.toml").write_text(FABRIC)
    file = tmp_path / "study.toml"
    file.write_text(EMULATED)
    run_study(file, tmp_path / "out", Path(fathom()), False, lambda _: None)
    recordings = [open_recording(p.parent) for p in (tmp_path / "out").glob("**/recording.json")]
    resets, forgets = searched(scenarios(recordings))
    assert (resets.name, forgets.name) == ("resets", "forgets")
    assert resets.bracket[0] <= S <= resets.bracket[1] < forgets.bracket[1]
    assert forgets.bracket[0] <= 2.5 * S <= forgets.bracket[1]
    assert set(resets.how) == {"reset_while_idle"}
    assert set(forgets.how) == {"silent"}


@pytest.mark.acceptance
def test_a_search_on_a_host_over_ssh(lab):
    lab.write([("a", "b")], probe="count = 10\nevery = '5ms'\n\n[[limit]]\nup-to = '1s'\nper-length = 1\n")
    lab.run()
    recording = open_recording(lab.output / "label=a-b" / "limit=limit" / "run=01")
    assert recording.manifest.mode == "tcp-idle-limit"
    lab.assert_nothing_left()


def event(kind, **fields):
    return Event(0, None, kind, None, fields, True)


@pytest.mark.parametrize(
    ("result", "words", "weight"),
    [
        (
            {
                "limit": "idle",
                "verdict": "found",
                "survived": {"idle_ns": 240 * S},
                "died": {"idle_ns": 244 * S},
            },
            "idle limit between 4 min 0 s and 4 min 4 s",
            "good",
        ),
        (
            {"limit": "age", "verdict": "not_found", "survived": {"age_ns": 9 * S}},
            "no age limit up to 9.00 s",
            "good",
        ),
        ({"limit": "idle", "verdict": "found", "died": {"idle_ns": S}}, "idle limit below 1.00 s", "good"),
        (
            {"limit": "idle", "verdict": "unclear", "survived": {"idle_ns": S}},
            "no idle limit up to 1.00 s, and that is not sure (unclear)",
            "warn",
        ),
        (
            {"limit": "idle", "verdict": "found", "survived": {"idle_ns": "long"}},
            "the search has ended",
            "plain",
        ),
    ],
)
def test_search_result_in_words(result, words, weight):
    happening = of_event("label=a", "run=01", event("limits.ended", result=result))
    assert (happening.text, happening.weight) == (words, weight)


def test_event_beside_a_search_in_words():
    happening = of_event(
        "label=a", "run=01", event("limits.happened", what={"died_together": {"connections": 3}})
    )
    assert "no limit" in happening.text
    assert of_event("label=a", "run=01", event("limits.happened", what={"something_new": {}})) is None
