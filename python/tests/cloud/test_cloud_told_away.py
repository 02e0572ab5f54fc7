"""Ways in which a lab that costs was told away, or would have been made a second time: each was believed."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from fathometer.cloud import register
from fathometer.cloud.journal import LabPlace, removed
from fathometer.cloud.tool import Tool
from fathometer.cloud.twice import must_not_be_there
from fathometer.cloud.where import known
from fathometer.cloud.work import Work, note_things
from fathometer.errors import FathometerError
from fathometer.study.journal import JOURNAL
from fathometer.study.processes import MARK
from support.lab_of_namespaces import GIVEN, SERVER

NOTHING = "nothing of it is left"
THINGS = {"version": 4, "resources": [{"mode": "managed"}, {"mode": "data"}, {"mode": "managed"}]}
SHOWN = {"values": {"root_module": {"resources": [{"address": "a.b", "type": "a", "mode": "managed"}]}}}


def entries_of(lab_id):
    return [entry for entry in register.entries()[0] if entry.id == lab_id]


@pytest.mark.parametrize("kept", [True, False], ids=["directory", "gone"])
def test_login_change_during_check_proves_nothing(aws_lab, listed, tmp_path, kept):
    """`aws` told of none at first, and of another account after the questions: that one has nothing of it."""
    place, down = aws_lab("111111111111")
    if not kept:
        shutil.rmtree(place.directory)
    once = tmp_path / "once"
    listed.az(f'[ "$1" = sts ] || exit 0; [ -e {once} ] && echo 222222222222; touch {once}', name="aws")
    said = down(1)
    assert "it was made in the account 111111111111, and the environment names 222222222222" in said
    assert NOTHING not in said
    assert len(entries_of(place.id)) == 1
    assert place.directory.exists() == kept


def test_unguarded_lab_refuses_unidentified_login(aws_lab, listed):
    """Of an earlier version, whose provider lets in whatever login it gets: a state was emptied."""
    place, _ = aws_lab("111111111111")
    (place.root / "main.tf").write_text('variable "region" {}\n')
    place.set({})
    place.note("apply.done")
    place.state_file.write_text(json.dumps(THINGS))
    tool = f"""[ "$1" = version ] && echo '{{"terraform_version": "1.12.6"}}'
[ "$1" = destroy ] && echo '{{"version": 4, "resources": []}}' >terraform.tfstate
[ "$1" = show ] && echo '{json.dumps(SHOWN)}'; exit 0"""
    listed.az(tool, name="tofu")
    listed.az('[ "$1" != sts ]', name="aws")
    for words in ((), ("--by-state",)):
        said = listed("down", "aws-zones", "--directory", place.directory, "--yes", *words, code=1)
        assert (
            "it was made in the account 111111111111, and which account the login is of could not be" in said
        )
        assert json.loads(place.state_file.read_text()) == THINGS
    # With the guard the provider refuses it, and a missing `aws` keeps no hosts running.
    (place.root / "main.tf").write_text('variable "account" {}\n')
    listed("down", "aws-zones", "--directory", place.directory, "--yes", code=1)
    assert json.loads(place.state_file.read_text()) != THINGS


def test_older_journal_copy_does_not_remake_lab(made, listed, monkeypatch):
    """What bore its tag was called another lab's, and `--var name=` was advised: paid for twice."""
    journal = made.directory / JOURNAL
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    made.state_file.unlink()
    place = LabPlace(made.directory)
    work = Work(place, "azure-nat", yes=True)
    listed.az("[ $1 = group ] || echo /subscriptions/0-1/left")
    with pytest.raises(FathometerError, match=r"it was begun, .* bears its tag 1 thing is there"):
        must_not_be_there(work, known(place))
    assert "what exists is not known, as its journal does not have that its making began" in listed(
        "list", "--directory", made.directory
    )
    assert Tool(place, print, "tofu")._environment["ARM_SUBSCRIPTION_ID"] == "0-1"
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "0-2")
    with pytest.raises(FathometerError, match="it was made in the subscription 0-1, and the environment na"):
        register.must_be_named(place, "make the lab")
    # Nor is one that is empty begun anew without a look.
    made.state_file.write_text('{"version": 4, "resources": []}')
    monkeypatch.setattr(Work, "exists", lambda _: ())
    assert work.emptied_state() == "is empty"


def test_current_account_does_not_prove_earlier_location(aws_lab, listed):
    """The plan of the later call says where it would make it; where the earlier one did nobody noted."""
    place, _ = aws_lab(None)
    listed.az('[ "$1" != sts ] || echo 222222222222', name="aws")
    asked = replace(known(place), owner="222222222222")
    with pytest.raises(FathometerError, match="in which account it was made is not known"):
        must_not_be_there(Work(place, "aws-zones", yes=True), asked)


LATE = f"""
import os, signal, sys
def end(*_):
    open(sys.argv[1], "w").write({json.dumps(THINGS)!r})
    os._exit(0)
signal.signal(signal.SIGINT, end)
print("works", flush=True)
while True:
    signal.pause()
"""


def test_down_rereads_state_after_waiting_for_tool(made, listed):
    """It was looked at before the tool was waited for, and the cloud lists what is new some time later."""
    (made.directory / JOURNAL).unlink()
    made.state_file.unlink()
    tool = subprocess.Popen(
        [sys.executable, "-c", LATE, made.state_file],
        env={**os.environ, MARK: made.id},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        tool.stdout.readline()
        listed.az("exit 0")
        said = listed("down", "azure-nat", "--directory", made.directory, code=1)
    finally:
        tool.kill()
        tool.communicate()
    assert f"{made.state_file} names 2 things" in said
    assert NOTHING not in said
    assert len(entries_of(made.id)) == 1


def test_set_aside_state_is_pushed_first(made, listed):
    """It is newer: after a `destroy` of the other the tool would refuse it."""
    (made.directory / JOURNAL).unlink()
    aside = made.root / "errored.tfstate"
    for state in (made.state_file, aside):
        state.write_text(json.dumps(THINGS))
    down = ("down", "azure-nat", "--directory", made.directory)
    push = f"`terraform -chdir={made.root} state push errored.tfstate`, move {aside} elsewhere"
    assert f"{push}, and call `terraform -chdir={made.root} destroy`" in listed(*down, code=1)
    # That one is in the state now.
    aside.rename(made.directory.with_name("elsewhere"))
    said = listed(*down, code=1)
    assert f"{made.state_file} names 2 things" in said
    assert "state push" not in said


def test_missing_journal_keeps_state_stored_elsewhere(made, listed, tmp_path):
    """Its disk was full, and somebody made room by taking the journal away, or all of the directory."""
    (made.directory / JOURNAL).unlink()
    made.state_file.unlink()
    kept = tmp_path / f"state/fathom/fathom-{made.id}.tfstate"
    kept.write_text(json.dumps(THINGS))
    listed.az("exit 0")
    down = ("down", "azure-nat", "--directory", made.directory)
    said = listed(*down, code=1)
    aside = made.root / "errored.tfstate"
    assert f"{kept} has the lab's state: it is now {aside}" in said
    assert f"{aside} names 2 things in the subscription 0-1" in said
    aside.rename(kept)
    shutil.rmtree(made.directory)
    said = listed(*down, code=1)
    assert f"{kept} names 2 things in the subscription 0-1" in said
    assert f"`terraform state push {kept}` and `terraform destroy` in nat of a copy of infra/azure" in said
    assert len(entries_of(made.id)) == 1
    kept.unlink()
    assert NOTHING in listed(*down)


def test_printed_state_is_recovered_from_log(made, listed):
    """No disk had room for it. `down --by-state` trusted the one before, and took those words away."""
    printed = made.logs / "apply.printed"
    printed.write_text(json.dumps({"@message": "Emergency state dump", "state": THINGS}))
    with Work(made, "azure-nat", yes=True).held():
        assert json.loads(made.aside.read_text()) == THINGS
        assert not printed.exists()
    # Also where its journal is gone.
    (made.directory / JOURNAL).unlink()
    made.aside.unlink()
    made.state_file.unlink()
    printed.write_text(json.dumps({"@message": "Emergency state dump", "state": THINGS}))
    listed.az("exit 0")
    said = listed("down", "azure-nat", "--directory", made.directory, code=1)
    assert f"{made.aside} names 2 things in the subscription 0-1" in said


def test_encrypted_state_is_not_empty(made, listed):
    """By OpenTofu's TF_ENCRYPTION: without the tool nobody knows what it names."""
    made.state_file.write_text(
        json.dumps({"serial": 3, "lineage": "x", "encrypted_data": "AAAA", "encryption_version": "v0"})
    )
    said = listed("list", "--directory", made.directory)
    assert "azure-nat  made, " in said
    assert "is empty" not in said
    (made.directory / JOURNAL).unlink()
    listed.az("exit 0")
    said = listed("down", "azure-nat", "--directory", made.directory, code=1)
    assert f"{made.state_file} is encrypted, and may name things in the subscription 0-1" in said
    assert len(entries_of(made.id)) == 1


def test_directory_without_journal_can_be_removed(made, listed):
    """`up` begins nothing beside a state, and `down` had forgotten the lab."""
    (made.directory / JOURNAL).unlink()
    made.state_file.write_text('{"version": 4, "resources": []}')
    (made.directory / "mine").touch()
    listed.az("exit 0")
    down = ("down", "azure-nat", "--directory", made.directory)
    said = listed(*down)
    assert f"{NOTHING} in the subscription 0-1" in said
    assert f"{made.directory} holds mine, too: look into it, and remove it yourself" in said
    # Without an entry nobody is asked: it says what to do.
    said = listed(*down, code=1)
    assert f"{made.state_file} names nothing, and where the lab was is not known" in said
    register.note(made, may_exist=True)
    (made.directory / "mine").unlink()
    assert NOTHING in listed(*down)
    assert not made.directory.exists()
    assert entries_of(made.id) == []


def test_unreadable_entry_is_not_overwritten(made, listed):
    """A newer fathom's was replaced by one that says less than it."""
    file = register.file_of(made)
    text = json.dumps({"format": 2, "of": "tomorrow"})
    file.write_text(text)
    assert register.note(made, may_exist=False) == f"{file} cannot be read"
    place = LabPlace(made.directory)
    place.entries = place.entries[:1]
    made.state_file.unlink()
    assert register.may_exist(place)
    said = listed("down", "azure-nat", "--directory", made.directory, "--yes", code=1)
    assert f"{file} cannot be read; look into it, and if a newer fathom wrote it, use that" in said
    assert file.read_text() == text
    assert made.directory.exists()
    (made.directory / JOURNAL).unlink()
    said = listed("down", "azure-nat", "--directory", made.directory, code=1)
    assert f"holds none, and {file}, which may be of it, cannot be read" in said


def test_resumed_removal_does_not_claim_nothing_left(made, listed):
    """`--by-state` had removed it, which asks no cloud, and was killed."""
    register.forget(made)
    made.directory.rename(removed(made.directory))
    said = listed("down", "azure-nat", "--directory", made.directory)
    assert "it was removed before, and the rest of its directory is now" in said
    assert NOTHING not in said
    assert not removed(made.directory).exists()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_kill_before_noting_resources_still_requires_proof(person):
    """With everything removed it counted as a lab whose making left nothing, of which no proof is asked."""
    del person.env["ARM_SUBSCRIPTION_ID"]
    (person.cloud / "fail").write_text(json.dumps({SERVER: "SkuNotAvailable"}))
    person.killed("after", "apply.failed", "up", *GIVEN)
    said = person("down", "azure-zones", "--yes", code=1)
    assert "in which subscription it was made is not known" in said
    assert NOTHING not in said.replace(f"that {NOTHING}", "")


def test_unreadable_state_counts_as_possibly_made(made):
    made.note("apply.started")
    made.note("apply.failed", code=1)
    assert made.begun_in_vain
    work = Work(made, "azure-nat", yes=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "exists", unreadable)
        assert note_things(work) == ()
    assert not made.begun_in_vain
    assert not LabPlace(made.directory).begun_in_vain


def unreadable(_):
    raise FathometerError("look at a lab", "its provider is gone", "call it again")
