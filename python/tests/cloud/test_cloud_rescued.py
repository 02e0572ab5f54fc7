"""A state that the tool prints because it can write it nowhere: it is kept, and taken up by the next call."""

import json

import pytest

from fathometer.cloud import rescued
from support.lab_of_namespaces import GIVEN, SERVER, ended
from support.machines import until

THING = "azurerm_resource_group.lab"


@pytest.fixture
def person(person):
    person.without_hosts()
    return person


def no_words_of_a_cloud(said):
    assert "Emergency state dump" not in said
    assert '"lineage"' not in said


def removed(person):
    assert "nothing of it is left" in person("down", "azure-zones", "--yes", "--by-state")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_printed_state_is_kept_and_reused(person):
    (person.cloud / "no-room").touch()
    said = person.up(code=1)
    no_words_of_a_cloud(said)
    aside = person.place / "labs/azure/zones/errored.tfstate"
    assert f"what was printed of it is kept in {aside}" in said
    assert len(json.loads(aside.read_text())["resources"]) == len(list((person.cloud / "things").iterdir()))
    assert aside.stat().st_mode & 0o777 == 0o600
    assert THING not in (person.place / "logs/apply.log").read_text()
    (person.cloud / "no-room").unlink()
    assert "everything of it is there" in person("up", "azure-zones", "--yes")
    removed(person)


def on_own_disk(person, directory, size):
    """Gives a directory of a lab that was planned a small disk of its own, within the machine."""
    copy = person.cloud.parent / "copy"
    person.machine.run(
        f"cp -a {directory} {copy}; mount -t tmpfs -o size={size},mode=700 tmpfs {directory}; "
        f"cp -a {copy}/. {directory}"
    )


@pytest.mark.acceptance
def test_reserved_space_keeps_printed_state_on_full_disk(person):
    person("plan", *GIVEN[:-1])
    on_own_disk(person, person.place, "48m")
    (person.cloud / "no-room").write_text(f"{person.place}/filler")
    said = person.up(code=1)
    aside = person.place / "labs/azure/zones/errored.tfstate"
    no_words_of_a_cloud(said)
    assert f"what was printed of it is kept in {aside}" in said
    (person.cloud / "no-room").unlink()
    person.machine.run(f"rm {person.place}/filler")
    assert "everything of it is there" in person("up", "azure-zones", "--yes")
    person.machine.run(f"cp -a {person.place}/. {person.cloud.parent}/copy; umount {person.place}")
    person.machine.run(f"cp -a {person.cloud.parent}/copy/. {person.place}")
    removed(person)


@pytest.mark.acceptance
def test_next_call_keeps_state_printed_after_kill(person):
    (person.cloud / "no-room").touch()
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process)
    ended(process, -9)
    (person.cloud / "hold").unlink()
    # Interrupted before it goes on, it would not come to print it.
    logs = person.place / "logs"
    until(lambda: any("Emergency state dump" in raw.read_text() for raw in logs.glob("*.raw")), "the state")
    said = person("down", "azure-zones", "--yes", "--by-state")
    assert "what was printed of it is kept in" in said
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.parametrize("verb", ["up", "down"])
def test_printed_state_goes_to_user_state_directory(person, verb):
    person("plan", *GIVEN[:-1])
    root = person.place / "labs/azure/zones"
    on_own_disk(person, root, "2m")
    (person.cloud / "no-room").write_text(f"{root}/filler")
    said = person.up(code=1)
    no_words_of_a_cloud(said)
    (kept,) = (person.home / ".local/state/fathom").glob("fathom-*.tfstate")
    assert f"what was printed of it is kept in {kept}" in said
    assert kept.stat().st_mode & 0o777 == 0o600
    (person.cloud / "no-room").unlink()
    # The plan that was applied left some room.
    person.machine.run(f"cat /dev/zero >{root}/more 2>/dev/null || :")
    said = person(verb, "azure-zones", "--yes", code=1)
    assert f"{kept} cannot be copied to {root}/errored.tfstate: No space left on device; see to room" in said
    copy = person.cloud.parent / "copy"
    person.machine.run(
        f"rm {root}/filler {root}/more; cp -a {root}/. {copy}; umount {root}; cp -a {copy}/. {root}"
    )
    if verb == "up":
        said = person("up", "azure-zones", "--yes")
        assert f"{kept} has the lab's state" in said
        assert "everything of it is there" in said
    removed(person)
    assert not kept.exists()


def test_printed_state_prefers_home_over_tmpdir(made, tmp_path, monkeypatch):
    """Another call with another TMPDIR would not find it there either."""
    for name in ("home", "t"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    # Neither beside the lab's own nor in the user's state can a file be written.
    (tmp_path / "fathom").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made.aside.mkdir()
    raw = made.logs / "apply.raw"
    raw.write_text(json.dumps({"@message": "Emergency state dump", "state": {"version": 4}}) + "\n")
    said = []
    rescued.keep(made, raw, said.append)
    (kept,) = rescued.kept(made.id, made.directory)
    assert kept.parent == tmp_path / "home"
    assert said == [f"the state could not be written; what was printed of it is kept in {kept}"]
    assert rescued.text_of(kept) == '{"version": 4}'
