"""What `list` says of a lab that was begun, of its journal and its state alone."""

import json
from datetime import UTC, datetime

import pytest

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


@pytest.mark.parametrize(
    ("text", "what"),
    [(None, "is not there"), ('{"resour', "is torn"), ('{"resources": [], "outputs": {}}', "is empty")],
)
def test_a_lab_whose_state_says_nothing_is_not_just_listed_as_made(made, text, what):
    made.state_file.unlink() if text is None else made.state_file.write_text(text)
    said = summary(made.directory, NOW)
    assert f"made, but terraform.tfstate {what}: what exists is not known, estimated" in said
