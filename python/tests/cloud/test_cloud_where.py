"""What is left of a lab is looked for where it was made, and nowhere else."""

import json

import pytest

from fathometer.cloud import register, where
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.left import commands_for, look, nothing_left
from fathometer.cloud.planned import Plan, Resource
from fathometer.cloud.where import Where
from fathometer.errors import FathometerError
from support.lab_of_namespaces import EMPTY, SERVER, TAG


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A lab's place, in a cloud; and no cloud of the machine's own."""
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path))

    def begin(cloud):
        place = LabPlace(tmp_path / "lab")
        place.make()
        place.note("cloud.begun", cloud=cloud, root="zones", id="1", tool="tofu")
        return place

    return begin


def aws_says(tmp_path, account):
    """An `aws` that tells whose login it has."""
    program = tmp_path / "aws"
    program.write_text(f"#!/bin/sh\necho {account}\n")
    program.chmod(0o755)


def note(place, document, after, tag):
    """What `up` does before it makes a lab."""
    plan = Plan((), (), (), tuple(after))
    where.note(place, where.of_plan(where.known(place), document, plan, may_exist=place.may_exist))
    assert tag in where.known(place).tags


def planned(tag="fathom-zones", **variables):
    document = {"variables": {name: {"value": value} for name, value in variables.items()}}
    return document, [Resource("a", "t", {"tags": {"fathom-lab": tag}})], tag


def test_leftovers_are_queried_with_provider_cli():
    (group, _) = commands_for(Where("azure"), "x-zones")
    assert group == ["az", "group", "list", "--tag", "fathom-lab=x-zones", "--query", "[].id", "-o", "tsv"]
    assert [c[-2:] for c in commands_for(Where("azure", "s-1"), "x")] == [["--subscription", "s-1"]] * 2
    regions = [c[-1] for c in commands_for(Where("aws", regions=("eu-west-2", "us-east-1")), "x")]
    assert regions == ["eu-west-2", "us-east-1"]
    assert commands_for(Where("gcp", "p"), "x")[0][-1] == "--project=p"
    assert "`own` is not known here" in look(Where("own", tags=("x",))).problem
    assert "says its tag" in look(Where("azure")).problem
    assert "which regions" in look(Where("aws", tags=("x",))).problem
    assert nothing_left(Where("azure", "s-1")) == "nothing of it is left in the subscription s-1"
    assert nothing_left(Where("gcp")).startswith("no host of it is left")


def test_default_regions_are_searched(begun):
    """As defaults of variables, and as each thing of AWS says its own."""
    place = begun("aws")
    document, after, tag = planned(region="eu-west-2", other_region="eu-west-1")
    note(place, document, [*after, Resource("b", "t", {"region": "us-east-1"})], tag)
    assert where.known(LabPlace(place.directory)).regions == ("eu-west-2", "eu-west-1", "us-east-1")


def test_all_earlier_tags_and_regions_are_searched(begun):
    place = begun("aws")
    note(place, *planned("fathom-zones", region="eu-west-2"))
    note(place, *planned("other-zones", region="us-east-1"))
    found = where.known(LabPlace(place.directory))
    assert (found.tags, found.regions) == (("fathom-zones", "other-zones"), ("eu-west-2", "us-east-1"))
    number = len(place.entries)
    note(place, *planned("other-zones", region="us-east-1"))
    assert len(place.entries) == number


def test_location_of_older_lab_is_reconstructed(begun):
    place = begun("aws")
    place.root.mkdir(parents=True)
    place.set({"region": "eu-west-2"})
    place.note("approved", tag="fathom-zones")
    assert where.known(place) == Where("aws", None, ("eu-west-2",), ("fathom-zones",))


def test_another_account_is_refused_once_something_was_made(begun, tmp_path):
    place = begun("aws")
    aws_says(tmp_path, "111111111111")
    note(place, *planned(region="eu-west-2"))
    aws_says(tmp_path, "222222222222")
    register.must_be_named(place, "remove the lab")
    aws_says(tmp_path, "111111111111")
    note(place, *planned(region="eu-west-2"))
    place.note("apply.started")
    register.must_be_named(place, "remove the lab")
    aws_says(tmp_path, "222222222222")
    with pytest.raises(FathometerError, match="in the account 111111111111, and the environment names 222"):
        register.must_be_named(place, "remove the lab")


def test_existing_state_proves_lab_was_made(begun):
    place = begun("azure")
    place.root.mkdir(parents=True)
    place.note("where", owner="s-1", regions=[], tag="x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARM_SUBSCRIPTION_ID", "s-2")
        register.must_be_named(place, "remove the lab")
        place.state_file.touch()
        with pytest.raises(FathometerError, match="in the subscription s-1"):
            register.must_be_named(place, "remove the lab")


def test_another_project_is_refused_once_something_was_made(begun):
    place = begun("gcp")
    note(place, *planned(project="mine"))
    place.note("apply.started")
    with pytest.raises(FathometerError, match="in the project mine"):
        note(place, *planned(project="yours"))


@pytest.mark.parametrize(
    ("cloud", "values"),
    [
        ("azure", {"id": "/subscriptions/s-1/resourceGroups/x"}),
        ("aws", {"id": "i-1", "arn": "arn:aws:ec2:eu-west-2:s1:x"}),
        ("aws", {"arn": "arn:aws:ec2:eu-west-2:111111111111:instance/i-1"}),
    ],
)
def test_resource_ids_name_the_owner(begun, cloud, values):
    place = begun(cloud)
    where.note_things(place, [Resource("a", "t", values)])
    expected = {"id": "s-1"} if cloud == "azure" else {"arn": "111111111111"}
    owner = where.known(place).owner
    assert owner == (None if values.get("id") == "i-1" else next(iter(expected.values())))


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_down_asks_the_subscription_that_up_worked_in(person):
    """Somebody's next shell names another subscription, and then none."""
    person.env["ARM_SUBSCRIPTION_ID"] = "s-1"
    person.up()
    state = person.place / "labs/azure/zones/terraform.tfstate"
    # What a crash of the tool leaves: a thing in no state.
    document = json.loads(state.read_text())
    document["resources"] = [one for one in document["resources"] if one["address"] != SERVER]
    state.write_text(json.dumps(document))
    person.env["ARM_SUBSCRIPTION_ID"] = "s-2"
    said = person("down", "azure-zones", "--yes", code=1)
    assert "it was made in the subscription s-1, and the environment names s-2" in said
    assert "set ARM_SUBSCRIPTION_ID=s-1" in said
    assert "s-1" in person("up", "azure-zones", "--yes", code=1)
    assert state.exists()
    del person.env["ARM_SUBSCRIPTION_ID"]
    assert "nothing of it is left in the subscription s-1" in person("down", "azure-zones", "--yes")
    assert (person.cloud / "az.log").read_text().splitlines() == ["s-1"] * 4
    assert {*(person.cloud / "tool.log").read_text().split()} == {"s-1"}
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
@pytest.mark.parametrize("text", [None, EMPTY, '{"version": 4, "res'], ids=["gone", "empty", "torn"])
def test_a_state_that_is_lost_says_nothing(person, text):
    """The cloud does: with it gone, nobody may trust it, now and later."""
    person.up()
    state = person.place / "labs/azure/zones/terraform.tfstate"
    whole = state.read_text()
    state.unlink() if text is None else state.write_text(text)
    if text != EMPTY:
        # All of it would be made a second time, and paid for twice.
        said = person("up", "azure-zones", "--yes", code=1)
        assert "`fathom cloud down azure-zones` asks the cloud what it has of the lab" in said
    for _ in range(2):
        said = person("down", "azure-zones", "--yes", "--by-state", code=1)
        assert "the state is lost, and says nothing" in said
        assert f"    {SERVER}" in said
    assert "5 things are left that no state knows" in person("down", "azure-zones", "--yes", code=1)
    # By hand, as it tells.
    for one in json.loads(whole)["resources"]:
        person.deleted(one["address"])
    assert "nothing of it is left" in person("down", "azure-zones", "--yes")


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_unreadable_set_aside_state_distrusts_older_state(person):
    """A full disk leaves `errored.tfstate` empty: what it should have said nobody knows but the cloud."""
    person.up()
    state = person.place / "labs/azure/zones/terraform.tfstate"
    state.with_name("errored.tfstate").touch()
    said = person("up", "azure-zones", "--yes", code=1)
    assert "`fathom cloud down azure-zones` asks the cloud what it has of the lab" in said
    assert "the state is lost" in person("down", "azure-zones", "--yes", "--by-state", code=1)
    assert "5 things are left that no state knows" in person("down", "azure-zones", "--yes", code=1)
    for one in json.loads(state.read_text())["resources"]:
        person.deleted(one["address"])
    assert "nothing of it is left" in person("down", "azure-zones", "--yes")


def test_full_journal_disk_is_reported(begun, monkeypatch):
    place = begun("azure")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fathometer.study.journal.os.fsync", full)
    with pytest.raises(FathometerError, match=r"the lab's journal.*No space left on device; make room there"):
        place.note("apply.done")


def test_full_disk_keeps_old_settings(begun, monkeypatch):
    place = begun("azure")
    place.root.mkdir(parents=True)
    place.set({"size": "small"})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fathometer.cloud.journal.os.fsync", full)
    with pytest.raises(FathometerError, match=rf"No space left on device.*on the disk of {place.directory};"):
        place.set({"size": "large"})
    assert LabPlace(place.directory).settings == {"size": "small"}


def test_damaged_journal_names_lab_and_remedy(begun):
    place = begun("azure")
    (place.directory / "journal.jsonl").write_text('{"kind": "cloud.beg\n{"kind": "apply.done"}\n')
    with pytest.raises(
        FathometerError, match=r"the lab's journal.*:1 is no JSON; put back a copy of it.*/labs: call"
    ):
        LabPlace(place.directory)


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_taken_lab_name_is_refused_before_making(person):
    theirs = person.cloud / "things/theirs"
    theirs.write_text(TAG)
    person.before["things"] = [theirs.name]
    said = person.up(code=1)
    assert "1 thing is there already of a lab of this name" in said
    assert "--var name=NAME" in said
    assert [p.name for p in theirs.parent.iterdir()] == ["theirs"]
    person("down", "azure-zones", "--yes")
    assert theirs.exists()
