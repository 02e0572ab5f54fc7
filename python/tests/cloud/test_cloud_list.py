"""What `list` says of a lab that was begun, of its journal and its state alone."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from fathometer.cloud.command import cloud_app
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.work import summary

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def made(tmp_path):
    """The place of a lab that was made."""
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.note("cloud.begun", cloud="azure", root="nat", id="1", tool="tofu", lab="azure-nat")
    place.note("approved", addresses=["a"], low=0.1, high=0.2, unknown=["azurerm_thing M128", "own_thing"])
    place.note("apply.started")
    place.note("apply.done")
    place.root.mkdir(parents=True)
    place.state_file.write_text(json.dumps({"version": 4, "resources": [{"mode": "managed"}]}))
    return place


def test_what_has_no_price_is_listed_without_one(made):
    said = summary(made.directory, NOW)
    assert "made, estimated at 0.10 to 0.20 $ an hour without azurerm_thing M128, own_thing, whose" in said


def test_a_lab_elsewhere_is_listed_where_it_is_named(made, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = CliRunner().invoke
    assert "azure-nat  made" not in run(cloud_app, ["list"]).output
    said = run(cloud_app, ["list", "--directory", str(made.directory)])
    assert said.exit_code == 0
    assert "azure-nat  made, estimated at 0.10 to 0.20 $ an hour without" in said.output
    assert said.output.splitlines()[-1].endswith(f"; {made.directory}")
    said = run(cloud_app, ["list", "--directory", str(tmp_path / "none")])
    assert (said.exit_code, f"{tmp_path}/none  holds no lab" in said.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "what"),
    [(None, "is not there"), ('{"resour', "is torn"), ('{"resources": [], "outputs": {}}', "is empty")],
)
def test_a_lab_whose_state_says_nothing_is_not_just_listed_as_made(made, text, what):
    made.state_file.unlink() if text is None else made.state_file.write_text(text)
    said = summary(made.directory, NOW)
    assert f"made, but terraform.tfstate {what}: what exists is not known, estimated" in said
