"""A wall clock that was set while a run went on."""

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report import templates
from fathometer.report.page import Page
from support.ends import closed, opened
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND


def step(at, set_before, by):
    """The clock is set after so many seconds of the run."""
    at_ns = START + at * SECOND + set_before + by
    return {"at_ns": at_ns, "mono_ns": at * SECOND, "kind": "clock.stepped", "step_ns": by}


def analysed(tmp_path, events):
    write(tmp_path / "r", lognormal_ns(1, 100), events=events)
    return analyse(open_recordings([tmp_path]))


def test_each_step_is_reported_apart(tmp_path):
    """+1 h and then -3 h were "-2 h, twice"."""
    steps = [step(20, 0, HOUR), step(23, HOUR, -3 * HOUR), step(26, -2 * HOUR, HOUR)]
    analysis = analysed(tmp_path, steps)
    told = [render.statement(f) for f in analysis.findings if f.kind == "clock.stepped"]
    assert len(told) == 3
    for words in ("forward by 1 h 0 min", "back by 3 h 0 min"):
        assert any(words in text for text in told)
    assert not any("twice" in text or "-" in text.split(" at ")[0] for text in told)
    assert len([i for i in analysis.incidents if i.kind == "clock.stepped"]) == 3


def test_two_probes_see_one_step(tmp_path):
    for name, seen in (("a", HOUR), ("b", HOUR - 11)):
        write(tmp_path / name, lognormal_ns(1, 100), label=name, events=[step(20, 0, seen)])
    analysis = analyse(open_recordings([tmp_path]))
    assert [len(i.parts) for i in analysis.incidents if i.kind == "clock.stepped"] == [2]


def test_outage_over_step_has_its_length(tmp_path):
    """Nothing answered from the 40th second to the 70th, and in between the clock was set an hour forward."""
    events = [
        opened(0, START),
        closed(0, START + 40 * SECOND, 40 * SECOND, outstanding=6, silent_ns=0),
        step(50, 0, HOUR),
        opened(1, START + 70 * SECOND + HOUR),
        {"at_ns": START + 80 * SECOND + HOUR, "kind": "note", "text": "it goes on"},
    ]
    analysis = analysed(tmp_path, events)
    [silent] = [f for f in analysis.findings if f.kind == "without answers"]
    assert silent.quantities["longest"].value == 30 * SECOND


def test_page_tells_length_without_steps(tmp_path):
    analysis = analysed(tmp_path, [step(20, 0, HOUR), step(99, HOUR, -3 * HOUR)])
    measured = " ".join(templates.html(Page("", analysis)).split())
    assert "UTC, 1 min 40 s, 1 recording" in measured
