"""A state that was lost, set aside or put back: `down` removes what it can by it, and asks the cloud too."""

import json
import signal

import pytest

from fathometer.study.journal import JOURNAL, read_journal
from support.lab_of_namespaces import EMPTY, SERVER, ended

NO_STATES = ("{}", "null", "[]", '{"version": "4"}')
"""JSON, and no states."""
REFUSED = "5 things are left that no state knows"

pytestmark = [pytest.mark.acceptance, pytest.mark.usefixtures("without_hosts")]


@pytest.fixture
def root(person, without_hosts):  # noqa: ARG001 - before the lab is made
    """Where the tool is called, of a lab that is there."""
    person.up()
    return person.place / "labs/azure/zones"


def set_aside(root):
    """As the tool leaves its state where it could not write it."""
    (root / "terraform.tfstate").rename(root / "errored.tfstate")


def kinds(person):
    return [entry["kind"] for entry in read_journal(person.place)]


def removed(person):
    assert "nothing of it is left" in person("down", "azure-zones", "--yes", "--by-state")
    person.nothing_is_left()


def test_offline_registry_does_not_lose_state(person, root):
    set_aside(root)
    person.machine.run(f"rm -r {root}/.terraform")
    (person.cloud / "offline").touch()
    said = person("down", "azure-zones", "--yes", code=1)
    assert "cannot prepare the lab: Failed to query available provider packages" in said
    assert "state.lost" not in kinds(person)
    (person.cloud / "offline").unlink()
    removed(person)


def test_full_disk_does_not_lose_state(person, root):
    set_aside(root)
    kept = person.cloud.parent / "kept"
    # The machine's own: a few pages, all of them taken.
    person.machine.run(
        f"cp -a {root} {kept}; mount -t tmpfs -o size=2m,mode=700 tmpfs {root}; cp -a {kept}/. {root}; "
        f"cat /dev/zero >{root}/filler 2>/dev/null || :"
    )
    said = person("down", "azure-zones", "--yes", code=1)
    assert "cannot take back the lab's state" in said
    assert (
        "No space left on device); see to room and rights there; then `fathom cloud down azure-zones` goes on"
        in said
    )
    assert "state.lost" not in kinds(person)
    person.machine.run(f"umount {root}")
    removed(person)


@pytest.mark.usefixtures("root")
def test_full_disk_during_down_is_named(person):
    """The tool ends with exit code 1, and its words had no room either."""
    logs = person.place / "logs"
    person.machine.run(
        f"mount -t tmpfs -o size=2m,mode=700 tmpfs {logs}; touch {logs}/destroy.raw; "
        f"cat /dev/zero >{logs}/filler 2>/dev/null || :"
    )
    (person.cloud / "fail-destroy").touch()
    said = person("down", "azure-zones", "--yes", code=1)
    assert f"tofu left no words: no space left on device ({logs}); make room on the disk of" in said
    person.machine.run(f"umount {logs}")
    (person.cloud / "fail-destroy").unlink()
    removed(person)


def test_interrupted_state_recovery_does_not_lose_state(person, root):
    set_aside(root)
    (person.cloud / "hold-push").touch()
    process = person.popen("down", "azure-zones", "--yes")
    person.holding()
    person.kill(process, signal.SIGINT)
    said = ended(process, 1)
    assert "cannot take back the lab's state: it was interrupted" in said
    assert "state.lost" not in kinds(person)
    (person.cloud / "hold-push").unlink()
    removed(person)


def test_set_aside_state_replaces_torn_state(person, root):
    set_aside(root)
    (root / "terraform.tfstate").write_text('{"version": 4, "res')
    removed(person)


def test_refused_state_counts_as_lost_until_replaced(person, root):
    whole = (root / "terraform.tfstate").read_text()
    (root / "errored.tfstate").write_text(EMPTY)
    assert REFUSED in person("down", "azure-zones", "--yes", code=1)
    # The state that is there is no newer without it.
    (root / "errored.tfstate").unlink()
    assert "the state is lost" in person("down", "azure-zones", "--yes", "--by-state", code=1)
    (root / "errored.tfstate").write_text(whole)
    removed(person)


@pytest.mark.parametrize("text", [EMPTY, *NO_STATES])
def test_restored_state_is_trusted_again(person, root, text):
    state = root / "terraform.tfstate"
    whole = state.read_text()
    state.unlink() if text is None else state.write_text(text)
    assert REFUSED in person("down", "azure-zones", "--yes", code=1)
    state.write_text(whole)
    removed(person)


@pytest.mark.parametrize("file", ["terraform.tfstate", "errored.tfstate"])
@pytest.mark.parametrize("is_noted", [True, False], ids=["lineage", "tag"])
def test_state_of_another_lab_is_refused(person, root, file, is_noted):
    """`down` of one lab removed another, and said that nothing was left (a stranger)."""
    state, journal = root / "terraform.tfstate", person.place / JOURNAL
    whole = state.read_text()
    if not is_noted:
        # An earlier version noted none.
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(line for line in lines if '"lineage.' not in line))
    theirs = person.cloud / "things/other.azurerm_thing.this"
    theirs.write_text("fathom-other")
    document = json.loads(whole.replace("fathom-zones", "fathom-other")) | {"lineage": "theirs"}
    document["resources"] = [{**document["resources"][0], "address": theirs.name}]
    (root / file).write_text(json.dumps(document))
    for words in (("down", "azure-zones", "--by-state"), ("up", "azure-zones"), person.run_words()):
        said = person(*words, "--yes", code=1)
        assert f"cannot use the lab's state: {root / file} is another lab's: its" in said
        assert "put this lab's own there. Where that is lost, move this one away all the same" in said
    assert f"azure-zones  made, but {root / file} is another lab's" in person("list")
    theirs.unlink()
    (root / file).unlink()
    state.write_text(whole)
    removed(person)


def test_rebuilt_lab_gets_new_state_lineage(person, root):
    state = root / "terraform.tfstate"
    before = state.read_text()
    for one in json.loads(before)["resources"]:
        person.deleted(one["address"])
    state.unlink()
    (person.place / JOURNAL).write_text(
        "".join(
            line
            for line in (person.place / JOURNAL).read_text().splitlines(keepends=True)
            if '"apply.done"' not in line
        )
    )
    # Killed before it notes anything.
    person.killed("before", "apply.done", "up", "azure-zones", "--yes")
    assert json.loads(state.read_text())["lineage"] != json.loads(before)["lineage"]
    assert "everything of it is there" in person("up", "azure-zones", "--yes")
    state.write_text(before)
    assert "is another lab's: its lineage is" in person("down", "azure-zones", "--yes", code=1)
    state.unlink()
    assert REFUSED in person("down", "azure-zones", "--yes", code=1)
    for one in json.loads(before)["resources"]:
        person.deleted(one["address"])
    assert "nothing of it is left" in person("down", "azure-zones", "--yes")


def test_empty_state_does_not_remake_lab(person, root):
    """It is whole, so that nothing but the cloud tells of what is there."""
    state = root / "terraform.tfstate"
    whole = state.read_text()
    state.write_text(EMPTY)
    number = kinds(person).count("apply.started")
    assert f"{state} is empty" in person("plan", "azure-zones")
    said = person("up", "azure-zones", "--yes", code=1)
    assert f"it was begun, {state} is empty, and of what bears its tag 5 things are there" in said
    az = person.cloud.parent / "bin/az"
    program = az.readlink()
    az.unlink()
    said = person("up", "azure-zones", "--yes", code=1)
    assert "whether something was made could not be found out: `az` is not installed" in said
    az.symlink_to(program)
    assert kinds(person).count("apply.started") == number
    # Somebody removed it by hand, and the cloud says so.
    for one in reversed(json.loads(whole)["resources"]):
        person.deleted(one["address"])
    assert "5 things of 3 kinds are there" in person("up", "azure-zones", "--yes")
    removed(person)


def test_failed_start_resumes_without_cloud_query(person):
    """The tool ended in order, and its state has nothing: that is no state which was lost."""
    group = "azurerm_resource_group.lab"
    (person.cloud / "fail").write_text(json.dumps({group: "AuthorizationFailed"}))
    # As the real one does, which writes a state before it makes anything.
    (person.cloud / "opened").touch()
    az = person.cloud.parent / "bin/az"
    az.unlink()
    person.up(code=1)
    (person.cloud / "fail").write_text(json.dumps({SERVER: "SkuNotAvailable"}))
    assert "4 things of 3 kinds are there" in person("up", "azure-zones", "--yes", code=1)
    (person.place / "labs/azure/zones/terraform.tfstate").write_text(EMPTY)
    assert "could not be found out" in person("up", "azure-zones", "--yes", code=1)


@pytest.mark.parametrize("file", ["terraform.tfstate", "errored.tfstate"])
def test_down_removes_lab_despite_missing_journal_entries(person, root, file):
    (root / "terraform.tfstate").rename(root / file)
    journal = person.place / JOURNAL
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"kind": "apply.' not in line))
    removed(person)


def test_partial_lab_with_missing_state_is_not_remade(person):
    """Its making failed, so that no entry says that it was ever there."""
    (person.cloud / "fail").write_text(json.dumps({SERVER: "SkuNotAvailable"}))
    person.up(code=1)
    (person.cloud / "fail").unlink()
    state = person.place / "labs/azure/zones/terraform.tfstate"
    whole = state.read_text()
    state.unlink()
    said = person("up", "azure-zones", "--yes", code=1)
    assert f"it was begun, {state} is not there, and of what bears its tag 4 things are there" in said
    assert "`fathom cloud down azure-zones` lists what is left of it" in said
    az = person.cloud.parent / "bin/az"
    program = az.readlink()
    az.unlink()
    said = person("up", "azure-zones", "--yes", code=1)
    assert "whether something was made could not be found out: `az` is not installed" in said
    assert "where you see yourself that nothing of it is there, begin anew with --directory DIR" in said
    assert kinds(person).count("apply.started") == 1
    az.symlink_to(program)
    state.write_text(whole)
    removed(person)
