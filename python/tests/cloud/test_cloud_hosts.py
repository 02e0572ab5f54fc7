"""A lab whose hosts are namespaces with a real sshd behind a jump host is made, measured and removed,
whatever is killed meanwhile.
"""

import json
import signal

import pytest

from fathometer.dataset import open_recording
from support.lab_of_namespaces import GIVEN, SERVER, ended
from support.machines import until

POINTS = [
    ("up", "after", "planned"),
    ("up", "after", "made"),
    ("run", "before", "ssh.ready"),
    ("run", "after", "run.started"),
    ("run", "before", "study.ended"),
    ("down", "before", "removed"),
]
DOWN = ("down", "azure-zones", "--yes")
IN_A_ROW = """
import json, sys
from fathometer.cli import main
for words in json.loads(sys.argv[2]):
    sys.argv = ["fathometer", "cloud", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, words
"""
"""Commands one after another in one process, whose imports take longer than each of them."""


def recorded(person):
    recording = open_recording(person.recordings / "label=same-zone" / "run=01")
    assert recording.totals.samples == 40
    assert recording.manifest.reflector["resolved"] == "10.60.1.20:7008"
    assert [p.name for p in person.recordings.glob("label=*/run=*")] == ["run=01"]


def test_lab_is_made_measured_and_removed(person):
    calls = ("up", *GIVEN), person.run_words(), DOWN
    said = ended(person.popen(json.dumps(calls, default=str), program=(IN_A_ROW,)))
    assert "5 things are there" in said
    assert "nothing of it is left in the subscription 0" in said
    recorded(person)
    person.nothing_is_left()


@pytest.mark.acceptance
def test_killed_at_each_point_nothing_is_left(person):
    # Killed once the copied binary is there.
    person.machine.run(f"rm -r {person.image}")
    calls = {"up": ("up", *GIVEN), "run": person.run_words(), "down": DOWN}
    for name, words in calls.items():
        for verb, when, kind in POINTS:
            if name == verb:
                person.killed(when, kind, *words)
        said = person(*words)
        if name == "run":
            recorded(person)
    assert "nothing of it is left" in said
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_reaches_tool_once(person, sign):
    person.without_hosts()
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process, sign)
    said = next(line for line in process.stderr if "the tool ends what it is at" in line)
    person.kill(process, sign)
    said += ended(process, 1)
    assert (person.cloud / "interrupts").read_text() == "1"
    assert "4 things are there: 0.10 to 0.15 $ an hour" in said
    assert "it was interrupted; `fathom cloud up azure-zones` goes on" in said
    (person.cloud / "hold").unlink()
    person(*DOWN)
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.parametrize("verb", ["up", "down"])
def test_next_call_waits_for_orphaned_tool(person, verb):
    person.without_hosts()
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process)
    process.communicate()
    again = person.popen(verb, "azure-zones", "--yes")
    until(lambda: list(person.place.glob("logs/init.log")), "the next call")
    (person.cloud / "hold").unlink()
    ended(again)
    # Nothing was made twice, and the orphan was not interrupted.
    assert not (person.cloud / "interrupts").exists()
    if verb == "up":
        person(*DOWN)
    person.nothing_is_left()


@pytest.mark.acceptance
def test_down_names_run_that_was_not_fetched(person):
    person.up()
    person.killed("after", "run.started", *person.run_words())
    said = person("down", "azure-zones", code=1)
    assert f"1 run of {person.recordings} is not fetched, and will be lost with the hosts" in said
    assert "Remove it? [y/N]" in said
    person(*DOWN)
    for kind in ("processes", "interfaces", "things", "temporary"):
        assert person.traces()[kind] == person.before[kind]


@pytest.mark.acceptance
def test_down_during_run_is_refused(person):
    person.up()
    person.like.write_text(person.like.read_text().replace("count = 40", "count = 12000"))
    process = person.popen(*person.run_words())
    until(lambda: "run.started" in person.study_kinds(), "the run")
    assert "wait for its end; `fathom study stop DIR` ends a study" in person(*DOWN, code=1)
    person.kill(process, signal.SIGINT)
    ended(process, 1)
    person(*DOWN)


@pytest.mark.acceptance
def test_study_longer_than_lab_asks_first(person):
    person("up", *GIVEN, "--for", "30m")
    person.like.write_text(person.like.read_text().replace("count = 40", "for = '2h'"))
    said = person(*person.run_words(), code=1)
    assert "it takes about 2h" in said
    assert "Begin all the same? [y/N]" in said
    assert not person.recordings.exists()
    person(*DOWN)
    person.nothing_is_left()
