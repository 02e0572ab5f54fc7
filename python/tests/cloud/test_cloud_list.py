"""What `list` says of a lab that was begun, of its journal and its state alone."""

import json
import os
import shutil
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathometer.cloud import register
from fathometer.cloud.begun import summary
from fathometer.cloud.command import cloud_app
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import find
from fathometer.cloud.make import _apply, up
from fathometer.cloud.remove import _destroy
from fathometer.cloud.settings import Given
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from fathometer.study.processes import MARK

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_what_has_no_price_is_listed_without_one(made):
    words = "made, by an estimate at least 0.10 $ an hour, without {} whose price is not known here: {}"
    kinds = "azurerm_thing M128, own_thing"
    # An earlier version did not count them.
    assert words.format("things", kinds) in summary(made.directory, NOW)
    made.note("approved", addresses=["a"], low=0.1, high=0.2, unknown=["own_thing"], number_unknown=3)
    assert words.format("3 things", "own_thing") in summary(made.directory, NOW)


def test_list_directory_option_shows_lab_elsewhere(made, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = CliRunner().invoke
    assert "azure-nat  made" not in run(cloud_app, ["list"]).output
    said = run(cloud_app, ["list", "--directory", str(made.directory)])
    assert said.exit_code == 0
    assert "azure-nat  made, by an estimate at least 0.10 $ an hour, without" in said.output
    assert said.output.splitlines()[-1].endswith(f"; {made.directory}")
    said = run(cloud_app, ["list", "--directory", str(tmp_path / "none")])
    assert (said.exit_code, f"{tmp_path}/none  holds no lab" in said.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "is not there"),
        ('{"resour', "is torn"),
        ('{"version": 4, "resources": []}', "is empty"),
        ("null", "is torn"),
        ("[]", "is torn"),
    ],
)
def test_unusable_state_is_listed_as_contents_unknown(made, text, what):
    made.state_file.unlink() if text is None else made.state_file.write_text(text)
    said = summary(made.directory, NOW)
    assert f"made, but terraform.tfstate {what}: what exists is not known, by an estimate" in said


def test_state_of_another_lab_is_reported(made):
    """By what its things bear, where no lineage was noted; without a tag it may be this lab's."""
    bears = [{"attributes": {"tags": {"fathom-lab": "fathom-balancer"}}}]
    state = {"version": 4, "lineage": "one", "resources": [{"mode": "managed", "instances": bears}]}
    outputs = {"fathometer": {"value": {"lab": "fathom-balancer"}}}
    of_balancer = "is another lab's: its things are of fathom-balancer, and this lab is"
    for more, says in (
        ({}, f"{of_balancer} azure-nat: what exists"),
        ({"resources": [], "outputs": outputs}, f"{of_balancer} azure-nat: what exists"),
        ({"resources": [{**state["resources"][0], "mode": "data"}]}, None),
    ):
        made.state_file.write_text(json.dumps({**state, **more}))
        said = summary(made.directory, NOW)
        assert says in said if says else "another lab's" not in said
    made.state_file.write_text(json.dumps(state))
    made.note("where", owner=None, regions=[], tag="own-nat")
    assert f"{of_balancer} own-nat: what exists" in summary(made.directory, NOW)
    # Its name was changed, and back.
    made.note("where", owner=None, regions=[], tag="fathom-balancer")
    assert "another lab's" not in summary(made.directory, NOW)
    made.note("lineage.noted", lineage="two")
    said = summary(made.directory, NOW)
    assert "another lab's: its lineage is one, and this lab's is two: what exists is not known" in said
    # OpenTofu leaves it beside what it encrypts.
    made.state_file.write_text('{"lineage": "one", "encrypted_data": ""}')
    assert "another lab's: its lineage is one" in summary(made.directory, NOW)
    made.state_file.write_text('{"encrypted_data": ""}')
    assert "another lab's" not in summary(made.directory, NOW)
    made.note("lineage.void")
    made.state_file.write_text(json.dumps(state))
    assert "another lab's" not in summary(made.directory, NOW)


def test_a_lab_elsewhere_is_listed_without_being_named(made, listed):
    line = listed("list").splitlines()[-1]
    assert line.startswith("azure-nat  made, by an estimate at least 0.10 $ an hour")
    assert line.endswith(f"; {made.directory}")
    # Once, however it is known.
    assert listed("list", "--directory", made.directory).count("azure-nat  made") == 1


def test_lab_with_missing_directory_stays_listed(made, listed):
    shutil.rmtree(made.directory)
    for _ in range(2):
        line = listed("list", code=1).splitlines()[-1]
        assert line.startswith(f"azure-nat  {made.directory} is gone")
        assert "what exists in the subscription 0-1 is not known, and may go on costing" in line
        assert f"`fathom cloud down azure-nat --directory {made.directory}` asks the cloud" in line
    # Another lab there is not the same.
    other = LabPlace(made.directory)
    other.make()
    other.note("cloud.begun", cloud="azure", root="nat", id="2", tool="tofu", lab="azure-nat")
    said = listed("list", code=1)
    assert f"{made.directory} holds another lab or none" in said
    assert "but by its journal nothing was made yet" in said
    # That one would be removed by the same words.
    assert "asks the cloud once the lab that is there now is removed" in said


def test_down_queries_cloud_when_directory_is_missing(made, listed):
    shutil.rmtree(made.directory)
    down = ("down", "azure-nat", "--directory", made.directory)
    listed.az('echo "$*" >> "$XDG_STATE_HOME/asked"; [ "$1" = group ] || echo /subscriptions/0-1/left')
    said = listed(*down, code=1)
    assert "    /subscriptions/0-1/left" in said
    assert "1 thing is left that no state knows" in said
    listed.az("echo no login >&2; exit 1")
    assert "the state is gone, and az group list" in listed(*down, code=1)
    assert "without --by-state asks the cloud" in listed(*down, "--by-state", code=1)
    assert "is gone" in listed("list", code=1)
    listed.az("exit 0")
    assert "nothing of it is left in the subscription 0-1" in listed(*down)
    assert "begun here" not in listed("list")
    assert "holds none" in listed(*down, code=1)


def test_missing_directory_report_names_state_kept_elsewhere(made, listed, tmp_path):
    """`list` said that its state was gone with it, and that the cloud is asked."""
    kept = tmp_path / f"state/fathom/fathom-{made.id}.tfstate"
    kept.write_text(made.state_file.read_text())
    shutil.rmtree(made.directory)
    (line,) = [one for one in listed("list", code=1).splitlines() if one.startswith("azure-nat  /")]
    assert f"{made.directory} is gone, and {kept} is there: what exists in the subscription 0-1 may" in line
    assert "says what to do" in line
    assert f"{kept} names 1 thing" in listed("down", "azure-nat", "--directory", made.directory, code=1)


def test_down_refuses_other_subscription_for_missing_directory(made, listed, monkeypatch):
    shutil.rmtree(made.directory)
    listed.az("exit 0")
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "0-2")
    said = listed("down", "azure-nat", "--directory", made.directory, code=1)
    assert "it was made in the subscription 0-1, and the environment names 0-2" in said


def makes(work):
    _apply(work, 1)


def finds_everything_there(work):
    """The making was killed before it noted what there is."""
    infra = work.place.directory.with_name("infra")
    (infra / "aws/zones").mkdir(parents=True)
    (infra / "aws/zones/main.tf").touch()
    work.place.note("apply.started")
    with pytest.raises(FathometerError, match="outputs"):
        up(work, find(infra, "aws-zones"), Given())


def removes(work):
    _destroy(work, agreed=True)


@pytest.mark.parametrize("call", [makes, finds_everything_there, removes])
def test_register_learns_account_from_resources(tmp_path, listed, call):
    """As where `aws` is missing when a lab is made."""
    thing = {"address": "a", "type": "aws_eip", "mode": "managed"}
    thing["values"] = {"arn": "arn:aws:ec2:eu-west-2:111111111111:eip/a"}
    shown = json.dumps({"values": {"root_module": {"resources": [thing]}}})
    tool = tmp_path / "bin/tofu"
    listed.az(
        f"[ $1 = show ] && echo '{shown}' || echo '{{\"version\": 4}}' > terraform.tfstate", name="tofu"
    )
    listed.az("exit 1", name="aws")
    place = LabPlace(tmp_path / "aws")
    place.make()
    place.note("cloud.begun", cloud="aws", root="zones", id=uuid.uuid4().hex, tool=str(tool), lab="aws-zones")
    place.note("where", owner=None, regions=["eu-west-2"], tag="fathom-zones")
    place.root.mkdir(parents=True)
    (place.root / "common.tf").write_text('variable "account" {}\n')
    place.state_file.write_text('{"version": 4}')
    register.note(place, may_exist=True)
    call(Work(place, "aws-zones", yes=True))
    (entry,) = [entry for entry in register.entries()[0] if entry.id == place.id]
    assert entry.where.owner == "111111111111"
    assert entry.may_exist


def test_down_waits_for_running_tool_of_missing_directory(made, listed, tmp_path):
    """What it makes last, the cloud has only once it has ended."""
    late = tmp_path / "late"
    program = (
        "import pathlib, signal, sys\n"
        "def end(*_):\n"
        "    pathlib.Path(sys.argv[1]).write_text('/subscriptions/0-1/late')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGINT, end)\n"
        "print(flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-c", program, late]
    environment = {**os.environ, MARK: made.id}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as tool:
        try:
            tool.stdout.readline()
            shutil.rmtree(made.directory)
            listed.az(f'[ "$1" = group ] || ! [ -e {late} ] || cat {late}')
            output = listed("down", "azure-nat", "--directory", made.directory, code=1)
        finally:
            tool.kill()
    assert f"an earlier call's process {tool.pid} still works on this lab" in output
    assert "    /subscriptions/0-1/late" in output


def test_naming_moved_lab_updates_register(made, listed, tmp_path):
    moved = made.directory.rename(tmp_path / "moved")
    assert "is gone" in listed("list", code=1)
    assert "is gone" not in listed("list", "--directory", moved)
    assert listed("list").splitlines()[-1].endswith(f"; {moved}")


def test_unmade_lab_with_missing_directory_is_dropped(tmp_path, listed):
    planned = LabPlace(tmp_path / "planned")
    planned.make()
    planned.note("cloud.begun", cloud="azure", root="nat", id="3", tool="tofu", lab="azure-zones")
    register.note(planned, may_exist=False)
    assert "azure-zones  nothing was made yet" in listed("list")
    shutil.rmtree(planned.directory)
    assert "azure-zones  " not in listed("list").partition("begun here")[2]
    assert [entry.lab for entry in register.entries()[0]] == ["azure-nat"]


def test_unreadable_register_is_reported(listed, tmp_path):
    (file,) = (tmp_path / "state/fathom/labs").iterdir()
    file.write_text('{"format": 1, "id"')
    assert f"{file}  cannot be read" in listed("list", code=1)
    # As does one of a later version.
    file.write_text('{"format": 2}')
    assert f"{file}  cannot be read" in listed("list", code=1)


@pytest.mark.usefixtures("listed")
def test_unreadable_settings_keep_registered_location(made):
    """By that alone the cloud can be asked once the directory is gone."""
    before = register.of_directory(made.directory, "azure-nat").where
    made.set({})
    (settings,) = made.root.glob("*.tfvars.json")
    for text in ('{"zon', "null"):
        settings.write_text(text)
        assert register.note(LabPlace(made.directory), may_exist=False) is None
        assert register.of_directory(made.directory, "azure-nat").where == before
    assert (before.owner, before.tags) == ("0-1", ("fathom-nat",))


def test_planned_lab_does_not_hide_made_lab(made, listed):
    """Both were begun in the same directory, under the same name."""
    shutil.rmtree(made.directory)
    for lab_id in ("0", "g"):
        planned = LabPlace(made.directory)
        planned.make()
        planned.note("cloud.begun", cloud="azure", root="nat", id=lab_id, tool="tofu", lab="azure-nat")
        register.note(planned, may_exist=False)
        shutil.rmtree(planned.directory)
    assert register.of_directory(made.directory, "azure-nat").id == made.id
    listed.az("exit 0")
    assert "nothing of it is left" in listed("down", "azure-nat", "--directory", made.directory)
    assert "holds none" in listed("down", "azure-nat", "--directory", made.directory, code=1)


def test_unreadable_register_entry_advises_no_removal(listed, tmp_path):
    """It may be the last that leads to a lab that costs, also where a later version wrote it."""
    (file,) = (tmp_path / "state/fathom/labs").iterdir()
    file.write_text('{"format": 2}')
    (line,) = [line for line in listed("list", code=1).splitlines() if line.startswith(str(file))]
    assert "remove" not in line
    assert "may go on costing" in line
    assert "look into it" in line
    assert "if a newer fathom wrote it, use that" in line


def test_unreadable_lab_path_does_not_stop_list(made, listed, tmp_path):
    """As a directory that its owner closed, a share that is away, or a name that is too long."""
    too_long = tmp_path / ("x" * 300)
    (file,) = (tmp_path / "state/fathom/labs").iterdir()
    entry = {**json.loads(file.read_text()), "id": "far", "directory": str(too_long / "lab")}
    file.with_name("far.json").write_text(json.dumps(entry))
    for words in ((), ("--directory", too_long)):
        lines = listed("list", *words, code=1).splitlines()
        assert [line for line in lines if line.startswith("azure-nat  made, ")]
        assert [line for line in lines if f"cannot be read: {too_long}/lab: File name too long" in line]
    assert f"cannot be read: {too_long}: File name too long" in listed(
        "list", "--directory", too_long, code=1
    )
    assert "File name too long" in listed("down", "azure-nat", "--directory", too_long, code=1)
    # Nor is it taken for gone.
    assert {entry.id for entry in register.entries()[0]} == {made.id, "far"}
    assert "is gone" not in listed("list", code=1)


def test_each_lab_is_listed_with_its_directory_once(made, listed):
    """Where no end of its hosts is known the directory is all there is to tell."""
    line = listed("list").splitlines()[-1]
    assert line.count(str(made.directory)) == 1
    made.set({})
    made.entries.clear()
    ends = datetime(2026, 11, 25, 16, tzinfo=UTC)
    made.note("settings", names=[], expires=ends.isoformat(), key=None)
    made.note("apply.started")
    made.note("apply.done")
    line = listed("list").splitlines()[-1]
    assert "its hosts" in line
    assert line.endswith(f"; {made.directory}")


@pytest.mark.parametrize("name", ["labs", "cloud"])
def test_unreadable_lab_search_directory_is_reported(listed, tmp_path, name):
    directory = tmp_path / "state/fathom" / name
    if directory.exists():
        directory.rename(directory.with_suffix(".away"))
    directory.touch()
    assert f"{directory}  cannot be read" in listed("list", code=1)


@pytest.mark.parametrize("way", ["..", "link"])
def test_a_directory_is_known_however_it_is_named(made, listed, tmp_path, monkeypatch, way):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link").symlink_to(tmp_path)
    other = {"..": "../lab", "link": "link/lab"}[way]
    monkeypatch.chdir(tmp_path / "elsewhere")
    register.forget(made)
    assert register.note(LabPlace(Path(other)), may_exist=False) is None
    for words in ((), ("--directory", made.directory), ("--directory", other)):
        assert listed("list", *words).count("azure-nat  made") == 1
    assert register.of_directory(Path(other), "azure-nat").directory == made.directory
    # An entry that was written before it is so.
    (file,) = (tmp_path / "state/fathom/labs").iterdir()
    file.write_text(file.read_text().replace(f'"{made.directory}"', f'"{Path(other).absolute()}"'))
    assert listed("list", "--directory", made.directory).count("azure-nat  made") == 1
    shutil.rmtree(made.directory)
    listed.az("exit 0")
    assert "nothing of it is left" in listed("down", "azure-nat", "--directory", made.directory)
    assert not register.entries()[0]


def test_empty_directory_is_shown_as_typed(listed, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    output = listed("list", "--directory", tmp_path / "link/empty", code=1)
    assert f"{tmp_path}/link/empty  holds no lab" in output


def test_symlink_loop_is_reported(listed, tmp_path):
    (tmp_path / "round").symlink_to("round")
    output = listed("list", "--directory", tmp_path / "round", code=1)
    assert "azure-nat  made" in output
    assert f"cannot be read: {tmp_path}/round: Too many levels of symbolic links" in output


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ((), "nothing was planned"),
        (("init.failed",), "its last plan failed"),
        (("plan.done", "planned", "plan.failed"), "its last plan failed"),
        (("plan.failed", "plan.done"), None),
        (("plan.done", "planned"), None),
    ],
)
def test_unplanned_lab_lists_its_down_command(tmp_path, listed, kinds, why):
    """It stayed there for ever, and nothing said that `down` ends it."""
    place = LabPlace(tmp_path / "planned")
    place.make()
    place.note("cloud.begun", cloud="azure", root="zones", id="3", tool="tofu", lab="azure-zones")
    for kind in kinds:
        place.note(kind)
    register.note(place, may_exist=False)
    down = ("down", "azure-zones", "--directory", place.directory)
    advice = f", and {why}: `fathom cloud {' '.join(map(str, down))}` takes it out of this list; "
    assert f"azure-zones  nothing was made yet{advice if why else '; '}{place.directory}" in listed("list")
    listed(*down)
    assert "azure-zones  " not in listed("list").partition("begun here")[2]


def test_the_register_is_read_once(made, listed, tmp_path, monkeypatch):
    """What was written between two looks was told by one of them alone."""
    calls = []
    entries = register.entries
    monkeypatch.setattr(register, "entries", lambda: calls.append(1) or entries())
    moved = made.directory.rename(tmp_path / "moved")
    lines = listed("list", "--directory", moved).splitlines()
    assert lines[-1].endswith(f"; {moved}")
    assert lines[-2] == "begun here:"
    assert len(calls) == 1
