"""What somebody agreed to, and what they are asked."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.settings import Proposal
from fathometer.errors import FathometerError
from support.lab_of_namespaces import GIVEN, SERVER, ended
from support.machines import until


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_only_approved_settings_resume_partial_lab_unasked(person):
    (person.cloud / "fail").write_text(json.dumps({SERVER: "no\nroom"}))
    person("up", *GIVEN, "--for", "1h", code=1)
    (person.cloud / "fail").unlink()
    for other in (("--for", "24h"), ("--from", "10.9.0.0/16")):
        said = person("up", "azure-zones", *other, code=1)
        assert "Do that, and pay for it? [y/N]" in said
        assert "going on" not in said
    said = person("up", "azure-zones", "--for", "1h", code=1)
    assert "going on: 1 thing to be made" in said
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.parametrize(
    ("hours", "values", "same"),
    [
        (None, {"a": 1, "expires": "1"}, True),
        ("1h", {"a": 1, "expires": "2"}, True),
        ("2h", {"a": 1, "expires": "2"}, False),
        (None, {"a": 2, "expires": "1"}, False),
        (None, {"a": 1, "b": None, "expires": "1"}, False),
    ],
)
def test_only_equal_settings_are_as_approved(tmp_path, hours, values, same):
    place = LabPlace(tmp_path)
    place.root.mkdir(parents=True)
    place.note("approved", hours="1h")
    Proposal({"a": 1, "expires": "1"}, None, "1h").take(place)
    assert Proposal(values, None, hours).is_as_agreed(place) == same


class LateAnswer:
    """Standard input of somebody who agrees after some minutes, and the clock meanwhile."""

    def __init__(self, minutes):
        self.now = datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.late = timedelta(minutes=minutes)

    def readline(self):
        self.now += self.late
        return "y\n"


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (20, "it was begun"),
        (21, "are to end at 2026-11-23 12:30 UTC, and it may not be done by then; .* with --for 4h"),
    ],
)
def test_an_answer_may_come_too_late(tmp_path, up_here, minutes, words):
    """Agreed to 29 minutes later, hosts that were to be there for 30 began after their time of day, and ran
    until it came again.
    """
    somebody = LateAnswer(minutes)
    with pytest.raises(FathometerError, match=words):
        up_here(tmp_path / "lab", somebody, lambda: somebody.now, "30m")
    place = LabPlace(tmp_path / "lab")
    begun = "it was begun" in words
    assert place.has("approved") == begun
    assert place.has("apply.started") == begun
    assert place.settings.get("expires") == ("2026-11-23T12:30:00Z" if begun else None)


def test_expiry_during_prompt_is_noted(tmp_path, up_here):
    """The next one starts no host that was switched off by then."""
    somebody = LateAnswer(0)
    # It leaves a state that has nothing: nobody need ask the cloud.
    (up_here.cloud / "opened").touch()
    with pytest.raises(FathometerError, match="it was begun"):
        up_here(tmp_path / "lab", somebody, lambda: somebody.now, "30m")
    somebody.now += timedelta(minutes=29)
    somebody.late = timedelta(minutes=2)
    with pytest.raises(FathometerError, match="it was begun"):
        up_here(tmp_path / "lab", somebody, lambda: somebody.now, "4h")
    place = LabPlace(tmp_path / "lab")
    assert place.last("hosts.ended")["at"] == "2026-11-23T12:30:00+00:00"
    assert place.settings["expires"] == "2026-11-23T16:29:00Z"


@pytest.mark.acceptance
def test_down_stops_study_only_after_confirmation(person):
    person.up()
    person.like.write_text(person.like.read_text().replace("count = 40", "count = 12000"))
    process = person.popen(*person.run_words())
    until(lambda: "run.started" in person.study_kinds(), "the run")
    said = person("down", "azure-zones", code=1)
    assert f"the study in {person.recordings} goes on" in said
    assert "to be removed: 5 things" in said
    assert "nobody answered" in said
    assert process.poll() is None
    assert "study.interrupted" not in person.study_kinds()
    # Asked once.
    said = person("down", "azure-zones", answer="y\n")
    assert said.count("[y/N]") == 1
    assert "interrupted after 0 of 1 run" in ended(process, 1)
    assert "nothing of it is left" in said
    for kind in ("processes", "interfaces", "things", "temporary"):
        assert person.traces()[kind] == person.before[kind]


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_a_directory_of_another_lab_is_refused(person):
    person.up()
    there = ("--directory", str(person.place))
    for verb in ("down", "run"):
        said = person(verb, "aws-zones", *there, "--yes", code=2)
        assert f"{person.place}: it holds the lab azure-zones" in said
    assert len(person.traces()["things"]) == 5
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_unreadable_journal_does_not_hide_other_labs(person):
    person.up()
    broken = person.place.with_name("azure-balancer")
    broken.mkdir()
    (broken / "journal.jsonl").write_text('{"kind": "cloud.beg\n{"kind": "apply.done"}\n')
    said = person("list", code=1)
    assert "azure-zones  made, estimated at" in said
    assert f"azure-balancer  cannot be read: {broken}/journal.jsonl:1 is no JSON" in said
    (broken / "journal.jsonl").unlink()
    broken.rmdir()
    assert "cannot be read" not in person("list")
    person("down", "azure-zones", "--yes")


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "gone"])
def test_killed_tool_leaves_lab_contents_unknown(person, empty):
    """It opens its state, makes a thing, and is killed before it writes it down."""
    (person.cloud / "die").write_text("azurerm_resource_group.lab")
    if empty:
        (person.cloud / "opened").touch()
    said = person.up(code=1)
    assert "nothing of it exists" not in said
    state = person.place / "labs/azure/zones/terraform.tfstate"
    words = f"what exists is not known: {state} is {'torn' if empty else 'not there'}"
    assert f"{words}; `fathom cloud down azure-zones` asks the cloud" in said
    # With a state that is torn it refuses.
    assert ("`fathom cloud up azure-zones` goes on from here" in said) is not empty
    assert "1 thing is left that no state knows" in person("down", "azure-zones", "--yes", code=1)
