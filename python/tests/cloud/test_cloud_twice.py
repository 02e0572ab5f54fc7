"""Two labs of one name, in two directories: their things would have the same names, and the same tag."""

import io
import shutil

import pytest

from fathometer.cloud import register
from fathometer.cloud.journal import LabPlace
from fathometer.errors import FathometerError


@pytest.fixture
def first(tmp_path, up_here, monkeypatch):
    """The place of a lab whose making was begun."""
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "0-1")
    with pytest.raises(FathometerError, match="it was begun"):
        up_here(tmp_path / "first", io.StringIO("y\n"))
    return LabPlace(tmp_path / "first")


def refused(tmp_path, up_here, somebody):
    """What `up` in another directory says, where nothing is made."""
    with pytest.raises(FathometerError, match=r"^cannot make the lab: ") as error:
        up_here(tmp_path / "second", somebody)
    assert not LabPlace(tmp_path / "second").has("apply.started")
    assert not (register.of_directory(tmp_path / "second", "azure-zones")).may_exist
    return str(error.value)


def test_second_lab_of_same_name_is_refused(tmp_path, up_here, first, monkeypatch):
    """Without `az` it was begun, and either of them would have removed the other's (a stranger)."""
    said = refused(tmp_path, up_here, io.StringIO())
    there = f"azure-zones --directory {first.directory}`"
    assert f"a lab of this name is there in the subscription 0-1, begun in {first.directory}; " in said
    assert f"`fathom cloud up {there} goes on with it, and `fathom cloud down {there} removes it" in said
    assert "or begin this one with another name: --var name=NAME" in said
    # In another subscription it is in nobody's way.
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "0-2")
    with pytest.raises(FathometerError, match="it was begun"):
        up_here(tmp_path / "second", io.StringIO("y\n"))


def test_simultaneous_labs_of_one_name_make_one(tmp_path, up_here, monkeypatch):
    """The other one was not there yet when it was looked for."""
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "0-1")
    first = LabPlace(tmp_path / "first")

    class Meanwhile:
        def readline(self):
            with pytest.raises(FathometerError, match="it was begun"):
                up_here(first.directory, io.StringIO("y\n"))
            return "y\n"

    assert "a lab of this name is there" in refused(tmp_path, up_here, Meanwhile())
    # What was agreed to is gone on with when the first one is removed.
    register.forget(LabPlace(first.directory))
    with pytest.raises(FathometerError, match="it was begun"):
        up_here(tmp_path / "second", io.StringIO())


def test_missing_directory_of_same_name_blocks_second_lab(tmp_path, up_here, first):
    shutil.rmtree(first.directory)
    said = refused(tmp_path, up_here, io.StringIO("y\n"))
    assert (
        f"a lab of this name was made in the subscription 0-1, {first.directory} does not hold it any" in said
    )
    assert "whether it is still there could not be found out: az group list" in said
    assert f"`fathom cloud down azure-zones --directory {first.directory}` asks for that one" in said
