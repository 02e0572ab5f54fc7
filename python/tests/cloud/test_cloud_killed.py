"""A lab is made, measured and removed, whatever is killed meanwhile: by a stand-in for OpenTofu whose hosts
are namespaces, over real sshd by way of a jump host.
"""

import json
import os
import re
import shlex
import sys

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.dataset import open_recording
from support.lab_of_namespaces import GIVEN, SERVER, ended
from support.machines import until
from support.programs import ROOT

POINTS = [
    ("up", "after", "cloud.begun"),
    ("up", "after", "init.started"),
    ("up", "before", "plan.done"),
    ("up", "after", "approved"),
    ("up", "after", "settings"),
    ("up", "after", "apply.started"),
    ("up", "before", "apply.done"),
    ("up", "before", "keys.taken"),
    ("run", "before", "ssh.ready"),
    ("run", "after", "run.started"),
    ("run", "before", "study.done"),
    ("down", "after", "destroy.started"),
    ("down", "before", "destroy.done"),
    ("down", "after", "left.started"),
    ("down", "after", "left.looked"),
]


def test_docs_state_number_of_kill_points():
    text = (ROOT / "docs/cloud.md").read_text()
    assert f"at one of {len(POINTS)} points" in text
    assert f"In {len(POINTS)} of {len(POINTS)} nothing was" in text


def recorded(person):
    recording = open_recording(person.recordings / "label=same-zone" / "run=01")
    assert recording.totals.samples == 40
    assert recording.manifest.reflector["resolved"] == "10.60.1.20:7008"
    assert [p.name for p in person.recordings.glob("label=*/run=*")] == ["run=01"]


EACH = os.environ.get("FATHOM_KILLS") == "each"
"""Whether each point has a lab of its own: three times as long, and what docs/cloud.md tells of."""
LIVES = (
    [[point] for point in POINTS]
    if EACH
    # A call that goes on after one of these comes by another before it is killed again.
    else [POINTS[0:8:2], POINTS[1:8:2], POINTS[8:11], POINTS[11:]]
)


def test_every_point_is_in_a_life():
    assert sorted(point for life in LIVES for point in life) == sorted(POINTS)


IN_A_ROW = """
import json, sys
from fathometer.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["fathometer", "cloud", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, words
"""
"""Commands one after another in one process, whose imports take longer than each of them."""


def test_lab_is_made_measured_and_removed(person):
    calls = ("up", *GIVEN), person.run_words(), ("down", "azure-zones", "--yes")
    said = ended(person.popen(program=(IN_A_ROW, json.dumps(calls, default=str))))
    assert "5 things of 3 kinds are there" in said
    assert "nothing of it is left" in said
    recorded(person)
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.parametrize("life", LIVES, ids=[f"{life[0][0]}-{life[0][2]}" for life in LIVES])
def test_killed_and_gone_on_with_nothing_is_left(person, life):
    if ("run", "before", "ssh.ready") in life:
        # Killed once the binary is there, which was copied.
        person.machine.run(f"rm -r {person.image}")
    calls = {"up": ("up", *GIVEN), "run": person.run_words(), "down": ("down", "azure-zones", "--yes")}
    for name, words in calls.items():
        for verb, when, kind in life:
            if name == verb:
                person.killed(when, kind, *words)
        said = person(*words)
        if name == "up":
            assert "5 things of 3 kinds are there" in said
        elif name == "run":
            recorded(person)
    assert "nothing of it is left" in said
    person.nothing_is_left()


@pytest.mark.acceptance
def test_port_conflict_names_killed_study_and_remedy(person):
    person.up()
    words = person.run_words()
    person.killed("after", "run.started", *words)
    other = ("--output", person.home / "other")
    said = person(*words, *other, code=1)
    assert f"the study in {person.recordings} was killed, and what it started may be in the way" in said
    assert "it is the reflector of another study of ours, " in said
    up = "`fathom cloud up azure-zones --var port=7009`"
    assert f". Another port: {up}, then `fathom cloud run azure-zones` with a new --output" in said
    stop = [sys.executable, "-c", "from fathometer.cli import main; main()", "study", "stop"]
    person.machine.run(shlex.join([*stop, str(person.recordings)]))
    person(*words, *other)
    assert open_recording(person.home / "other/label=same-zone/run=01").totals.samples == 40


@pytest.mark.acceptance
def test_run_warns_when_new_study_differs(person):
    """As after a change of the outputs, for which `run` wants another directory."""
    person.up()
    words = person.run_words()
    assert "a new study" not in person(*words)
    # The same one goes on as it was begun, unasked.
    unlike = [word for word in words if word not in {"--like", person.like}]
    assert "a new study" not in person(*unlike)
    place = LabPlace(person.place)
    place.note("outputs.changed")
    said = person(*unlike, code=1)
    told = f"a new study, which measures ten samples a second for 25s: --like {person.like} measures what"
    assert told in said
    assert "choose a new --output" in said
    said = person(*unlike, "--quick", "--output", person.home / "other")
    assert told in said
    assert "a new study" not in person(*words, "--output", person.home / "third")


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_next_up_waits_for_orphaned_tool(person):
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process)
    process.communicate()
    again = person.popen("up", *GIVEN)
    line = next(line for line in again.stderr if "still works" in line)
    assert "waiting for its end" in line
    assert again.poll() is None
    (person.cloud / "hold").unlink()
    ended(again)
    # Nobody interrupted it, and nothing was made twice.
    assert not (person.cloud / "interrupts").exists()
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_down_interrupts_orphaned_tool_once(person):
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process)
    process.communicate()
    assert "to be removed: 4 things" in person("down", "azure-zones", "--yes")
    assert (person.cloud / "interrupts").read_text() == "1"
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_killed_while_things_are_removed(person):
    person.up()
    (person.cloud / "hold").write_text(SERVER.replace('server["server-zone-1"]', "client"))
    process = person.popen("down", "azure-zones", "--yes")
    person.holding()
    person.kill(process)
    process.communicate()
    (person.cloud / "hold").unlink()
    # Who agreed once is not asked again.
    person("down", "azure-zones")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_down_removes_resource_missing_from_state(person):
    (person.cloud / "die").write_text(SERVER)
    assert "4 things of 3 kinds are there" in person.up(code=1)
    (person.cloud / "die").unlink()
    said = person.up(code=1)
    assert "already exists" in said
    assert re.search("`fathom cloud down azure-zones[^`]*` removes the lab", said)
    assert "nothing of it is left" in person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_killed_while_it_measures_and_removed_then(person):
    person.up()
    person.killed("after", "run.started", *person.run_words())
    said = person("down", "azure-zones", "--yes")
    assert "is not fetched, and what the hosts have of that goes with them" in said
    assert person.traces()["processes"] == person.before["processes"]
    assert person.traces()["temporary"] == person.before["temporary"]


@pytest.mark.acceptance
def test_down_asks_before_discarding_unfetched_run(person):
    person.up()
    person.killed("after", "run.started", *person.run_words())
    said = person("down", "azure-zones", code=1)
    assert f"1 run of {person.recordings} is not fetched" in said
    assert "`fathom cloud run azure-zones` fetches it" in said
    assert "Remove the lab without it? [y/N]" in said
    person(*person.run_words())
    recorded(person)
    assert "not fetched" not in person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_removed_while_it_measures(person):
    """Whoever removes a lab ends its study first, and the study's call says how far it came."""
    person.up()
    person.like.write_text(person.like.read_text().replace("count = 40", "count = 12000"))
    process = person.popen(*person.run_words())
    until(lambda: "run.started" in person.study_kinds(), "the run")
    assert "nothing of it is left" in person("down", "azure-zones", "--yes")
    assert "interrupted after 0 of 1 run" in ended(process, 1)
    assert "study.interrupted" in person.study_kinds()
    for kind in ("processes", "interfaces", "things", "temporary"):
        assert person.traces()[kind] == person.before[kind]


@pytest.mark.acceptance
def test_study_longer_than_lab_lifetime_asks_first(person):
    person("up", *GIVEN, "--for", "30m")
    person.like.write_text(person.like.read_text().replace("count = 40", "for = '2h'"))
    said = person(*person.run_words(), code=1)
    assert "it takes about 2h" in said
    assert "Begin all the same? [y/N]" in said
    assert not person.recordings.exists()
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()
