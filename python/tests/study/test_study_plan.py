"""The plan, the hours and the journal: laws, without a process."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fathometer.errors import FathometerError
from fathometer.study.command import study_app
from fathometer.study.journal import Journal, fabrics_left, finished, read_journal
from fathometer.study.model import Schedule
from fathometer.study.plan import QUICK_INTERVAL_NS, estimate_ns, plan, quick
from fathometer.study.read import parse
from fathometer.study.schedule import next_begin

HEAD = 'format = 1\nname = "s"\n'
HOST = '[[host]]\nname = "h"\nlocal = true\n'


def study(labels=3, seed=1, probes="[[probe]]\ncount = 10\n", top=""):
    scenarios = "".join(f'[[scenario]]\nlabel = "s{n}"\nfrom = "h"\nto = "h"\n' for n in range(labels))
    made, problems = parse(f"{HEAD}seed = {seed}\n{top}\n{HOST}{scenarios}{probes}")
    assert problems == []
    return made


SWEEP = '[[probe]]\nname = "p"\nsizes = [64, "1KiB"]\nfor = "2s"\n[[probe]]\nname = "q"\ncount = 4\n'


@given(st.integers(1, 6), st.integers(0, 2**63 - 1))
def test_each_round_has_each_scenario_once(labels, seed):
    runs = plan(study(labels, seed, SWEEP))
    assert [r.number for r in runs] == list(range(1, len(runs) + 1))
    assert [r.round for r in runs] == sorted(r.round for r in runs)
    every = Counter((r.round, r.scenario.label, r.probe.name, r.size) for r in runs)
    assert set(every.values()) == {1}
    assert len(runs) == 20 * labels * 3
    assert len({r.directory for r in runs}) == len(runs)


def test_the_plan_is_the_seeds_and_nothing_elses():
    one = [r.directory for r in plan(study(4))]
    assert one == [r.directory for r in plan(study(4))]
    assert one != [r.directory for r in plan(study(4, seed=2))]


def test_rounds_differ_and_no_scenario_is_favoured():
    runs = plan(study(3, top="repetitions = 600"))
    places = Counter((r.scenario.label, (r.number - 1) % 3) for r in runs)
    # Binomial, n = 600, p = 1/3: mean 200, sd 11.5; five of them either way.
    assert len(places) == 9
    assert all(142 < n < 258 for n in places.values()), places


def test_directories():
    assert str(plan(study(1))[0].directory) == "label=s0/run=01"
    assert {str(r.directory) for r in plan(study(1, probes=SWEEP)) if r.round == 7} == {
        "label=s0/probe=p/size=64/run=07",
        "label=s0/probe=p/size=1024/run=07",
        "label=s0/probe=q/run=07",
    }


def test_one_scenario_is_no_comparison():
    assert len(plan(study(1))) == 1
    assert len(plan(study(2))) == 40


def test_quick_is_short():
    long = study(2, probes='[[probe]]\nevery = "1s"\nfor = "11h"\nwarm-up = 60\n')
    short = quick(long)
    assert len(plan(short)) == 4
    assert short.probe[0].interval_ns == QUICK_INTERVAL_NS
    assert estimate_ns(short, plan(short)) < 10 * 10**9
    assert estimate_ns(long, plan(long)) > 40 * 11 * 3600 * 10**9


def test_side_by_side_estimate_is_shorter():
    one, side = study(3, probes=SWEEP), study(3, probes=SWEEP, top='order = "side-by-side"')
    assert estimate_ns(side, plan(side)) < estimate_ns(one, plan(one)) / 3


def test_plan_prints_the_runs(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(f"{HEAD}{HOST}[[scenario]]\nlabel = 'a'\nfrom = 'h'\nto = 'h'\n[[probe]]\ncount = 10\n")
    done = CliRunner().invoke(study_app, ["plan", str(path), "--json"])
    value = json.loads(done.stdout)
    assert value["format"] == 1
    assert [r["directory"] for r in value["runs"]] == ["label=a/run=01"]
    assert value["runs"][0]["interval_ns"] == 1_000_000_000
    assert "1 run, about" in CliRunner().invoke(study_app, ["plan", str(path)]).stdout


def test_sizeless_runs_show_no_size(tmp_path):
    (tmp_path / "p.toml").write_text("")
    path = tmp_path / "s.toml"
    more = "[[policy]]\nname = 'plain'\nfile = 'p.toml'\nfor = '2s'\n[[limit]]\nkind = 'idle'\n"
    more += "[[probe]]\nname = 'made'\nmode = 'connect'\ncount = 9\n[[probe]]\nname = 'echo'\ncount = 9\n"
    path.write_text(f"{HEAD}{HOST}[[scenario]]\nlabel = 'a'\nfrom = 'h'\nto = 'h'\n{more}")
    value = json.loads(CliRunner().invoke(study_app, ["plan", str(path), "--json"]).stdout)
    sizes = {r["probe"]: r["size"] for r in value["runs"]}
    assert sizes == {"plain": None, "limit": None, "made": None, "echo": 64}
    text = CliRunner().invoke(study_app, ["plan", str(path)]).stdout
    assert " 0 B" not in text
    assert " 64 B" in text


def schedule(**fields):
    return Schedule.model_validate_json(json.dumps(fields))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# 2026-03-29 is a Sunday, on which clocks in London go from 01:00 to 02:00.
@pytest.mark.parametrize(
    ("fields", "now", "begin"),
    [
        ({}, "2026-03-25T12:00", "2026-03-25T12:00"),
        ({"hours": ["09:00-17:00"]}, "2026-03-25T12:00", "2026-03-25T12:00"),
        ({"hours": ["09:00-17:00"]}, "2026-03-25T17:00", "2026-03-26T09:00"),
        ({"hours": ["09:00-17:00"]}, "2026-03-25T08:59", "2026-03-25T09:00"),
        ({"hours": ["22:00-06:00"], "weekdays": ["wed"]}, "2026-03-26T05:00", "2026-03-26T05:00"),
        ({"hours": ["22:00-06:00"], "weekdays": ["wed"]}, "2026-03-26T06:00", "2026-04-01T22:00"),
        ({"weekdays": ["mon"]}, "2026-03-25T12:00", "2026-03-30T00:00"),
        ({"hours": ["09:00-17:00"], "zone": "Europe/London"}, "2026-03-28T18:00", "2026-03-29T08:00"),
        ({"hours": ["20:00-21:00", "09:00-10:00"]}, "2026-03-25T12:00", "2026-03-25T20:00"),
    ],
)
def test_when_a_round_may_begin(fields, now, begin):
    assert next_begin(schedule(**fields), at(now)) == at(begin)


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(["UTC", "Europe/London", "America/New_York", "Asia/Kolkata"]),
    st.sets(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1),
)
def test_next_begin_is_an_allowed_time(now, zone, days):
    made = schedule(hours=["09:00-17:00"], zone=zone, weekdays=sorted(days))
    begin = next_begin(made, now)
    assert now <= begin <= now + timedelta(days=8)
    assert next_begin(made, begin) == begin


def test_the_journal_survives_a_torn_line(tmp_path):
    journal = Journal(tmp_path)
    journal.note("study.started", id="x")
    journal.note("fabric.making", name="f")
    journal.note("run.finished", run="a")
    journal.close()
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        entries = read_journal(tmp_path)
        # A last line whose every byte but the newline is there is whole.
        assert len(entries) in (complete, complete + 1)
        again = Journal(tmp_path)
        again.note("run.finished", run="b")
        again.close()
        assert finished(read_journal(tmp_path)) == ({"b"} if complete < 3 else {"a", "b"})
    path.write_bytes(whole)
    assert fabrics_left(read_journal(tmp_path)) == ["f"]
    path.write_bytes(b"{\n" + whole)
    with pytest.raises(FathometerError, match=":1 is no JSON"):
        read_journal(tmp_path)
