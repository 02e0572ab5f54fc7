"""A lab from creation to removal, in this process, with a stand-in for OpenTofu whose hosts are files."""

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

from fathometer.cloud.left import Found
from support.lab_of_namespaces import KILLED, SECRET, SERVER

QUOTA = (
    "creating Linux Virtual Machine: unexpected status 409 (409 Conflict) with error: OperationNotAllowed\n"
    "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota."
)
NOTHING = "nothing of it is left"


def test_lab_is_planned_made_listed_and_removed(cloud):
    said = cloud("plan", *cloud.given[:-1])
    assert "to be made: 5 things" in said
    assert "costs 0.20 to 0.25 $ an hour (estimate, list prices of 2026-11-23)" in said
    assert "azure-zones  planned, nothing was made" in cloud("list")
    # The plan's options hold for `up`.
    said = cloud("up", answer="y\ny\n")
    assert "[5/5] " in said
    assert "5 things are there: 0.20 to 0.25 $ an hour" in said
    assert re.search(r"its hosts end at \S+ \S+ UTC, in 3h 5\dm; whatever else", said)
    assert said.splitlines()[0] == "to be made: 5 things"
    assert "azure-zones  made, 0.20 to 0.25 $ an hour" in cloud("list")
    assert "everything of it is there" in cloud("up")
    assert "nobody answered" in cloud("down", code=1)
    assert "nothing was changed" in cloud("down", code=1, answer="n\n")
    assert f"{NOTHING} in the subscription 0" in cloud.removed()
    assert "begun here" not in cloud("list")


def test_declined_lab_is_not_made(cloud):
    said = cloud("up", *cloud.given[:-1], code=1, answer="n\n")
    assert "Make it, at 0.20 to 0.25 $ an hour (estimate, list prices of 2026-11-23)? [y/N]" in said
    assert cloud.record.state == "planned"
    assert [*cloud.things.iterdir()] == []
    said = cloud.removed()
    assert "nothing of it was made" in said
    assert NOTHING not in said


def test_partial_lab_is_priced_and_resumed(cloud):
    cloud.set("fail", json.dumps({SERVER: QUOTA}))
    said = cloud.up(code=1)
    assert QUOTA.split("\n")[1] in said
    assert "ask the cloud for more processors" in said
    assert "4 things are there: 0.10 to 0.15 $ an hour" in said
    assert "then `fathom cloud up azure-zones` goes on" in said
    assert "azure-zones  made, but not all of it" in cloud("list")
    assert "make it: `fathom cloud up azure-zones`" in cloud("run", code=1)
    cloud.set("fail", "{}")
    assert "5 things are there" in cloud("up", "--yes")
    assert NOTHING in cloud.removed()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", ["made", "removed"])
def test_killed_call_is_resumed(cloud, when, state):
    cloud("plan", *cloud.given[:-1])
    verb = "up" if state == "made" else "down"
    if verb == "down":
        cloud("up", "--yes")
    program = [sys.executable, "-c", KILLED, when, state, "cloud", verb, "azure-zones", "--yes"]
    killed = subprocess.run(program, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if verb == "up":
        assert "5 things are there" in cloud("up", "--yes")
    assert NOTHING in cloud.removed()


@pytest.mark.parametrize("text", [None, '{"version": 4, "resources": []}', '{"version": 4, "res'])
def test_lost_state_is_never_believed(cloud, text):
    cloud.up()
    state = cloud.root / "terraform.tfstate"
    whole = state.read_text()
    state.unlink() if text is None else state.write_text(text)
    # All of it would be made a second time, and paid for twice.
    cloud("up", "--yes", code=1)
    assert len([*cloud.things.iterdir()]) == 5
    said = cloud("down", "--yes", "--by-state", code=1)
    assert "its state has nothing, or is torn; log in to the cloud, then `fathom cloud down azure" in said
    assert f"where you see yourself that nothing is left, remove {cloud.place}" in said
    said = cloud("down", "--yes", code=1)
    assert "5 things are left that no state has" in said
    assert "    /subscriptions/0/azurerm_resource_group.lab" in said
    state.write_text(whole)
    assert "its state is empty; the cloud was not asked" in cloud.removed("--by-state")


def test_resource_missing_from_state_is_found(cloud):
    """A tool that is killed before it writes leaves such a resource."""
    cloud.set("die", "azurerm_resource_group.lab")
    assert "the tool was killed: more may exist than its state has" in cloud.up(code=1)
    said = cloud("up", "--yes", code=1)
    assert "1 thing is there already with its tag, and terraform.tfstate has none" in said
    assert "1 thing is left that no state has" in cloud("down", "--yes", code=1)
    shutil.rmtree(cloud.things)
    cloud.things.mkdir()
    assert NOTHING in cloud.removed()


def test_lab_of_same_name_is_refused(cloud):
    (cloud.things / "theirs").write_text("fathom-zones")
    said = cloud.up(code=1)
    assert "1 thing is there already with its tag, and terraform.tfstate has none: " in said
    assert "/subscriptions/0/theirs; begin with another name, --var name=NAME" in said
    assert [thing.name for thing in cloud.things.iterdir()] == ["theirs"]
    assert cloud.record.state == "planned"


def test_down_without_cloud_query_fails(cloud):
    cloud.up()
    (cloud.programs / "az").unlink()
    said = cloud("down", "--yes", code=1)
    assert "the tool removed all that its state had, and `az` is not installed" in said
    assert "look yourself: `az group list --tag fathom-lab=fathom-zones" in said
    assert "removed, but more of it may be left" in cloud("list")
    assert "it was removed, and more may be left" in cloud("up", "--yes", code=1)
    assert NOTHING not in cloud.removed("--by-state")


def test_unasked_cloud_is_named_before_making(cloud):
    (cloud.programs / "az").unlink()
    assert "what the cloud has with its tag is unknown: `az` is not installed" in cloud.up()
    # Where the making began, an empty state proves nothing.
    (cloud.root / "terraform.tfstate").unlink()
    said = cloud("up", "--yes", code=1)
    assert "its state is empty, and what the cloud has with its tag is unknown" in said


def test_failed_removal_prints_destroy_by_hand(cloud):
    cloud.up()
    text = (cloud.programs / "tofu").read_text()
    program = '#!/bin/sh\n[ "$1" = destroy ] || exec {0}.real "$@"\necho "Error: no room"; exit 1\n'
    tofu = cloud.programs / "tofu"
    tofu.rename(f"{tofu}.real").write_text(text)
    tofu.write_text(program.format(tofu))
    tofu.chmod(0o755)
    said = cloud("down", "--yes", code=1)
    assert f"by hand: `{tofu} -chdir={cloud.root} destroy`" in said
    assert cloud.record.state == "made"
    # By hand the tool has the values that the lab was made with.
    assert json.loads((cloud.root / "lab.auto.tfvars.json").read_text())["user"] == "root"
    (cloud.root / "lab.auto.tfvars.json").unlink()
    cloud("down", "--yes", code=1)
    assert json.loads((cloud.root / "lab.auto.tfvars.json").read_text())["user"] == "root"


def test_set_aside_state_is_pushed_by_hand(cloud):
    cloud.up()
    state = cloud.root / "terraform.tfstate"
    state.rename(state.with_name("errored.tfstate"))
    for words in (("up",), ("down", "--yes")):
        said = cloud(*words, code=1)
        assert f"-chdir={cloud.root} state push errored.tfstate` and remove that file" in said


def test_refused_login_makes_nothing_and_hides_secret(cloud):
    words = f"AADSTS7000215: Invalid client secret provided: {SECRET}"
    cloud.set("no-login", f"building account: could not acquire access token\n{words}")
    said = cloud.up(code=1)
    assert "Invalid client secret provided: [ARM_CLIENT_SECRET]" in said
    assert "log in again (`az login`" in said
    files = [path for path in cloud.place.rglob("*") if path.is_file()]
    assert "[ARM_CLIENT_SECRET]" in (cloud.place / "logs/plan.log").read_text()
    assert SECRET.encode() not in b"".join([said.encode(), *(path.read_bytes() for path in files)])
    assert [*cloud.things.iterdir()] == []
    cloud.removed()


def test_files_are_private_and_raw_logs_removed(cloud):
    cloud.up()
    # A killed call leaves such a file.
    (cloud.place / "logs/apply.raw").write_text(SECRET)
    cloud("up")
    assert not (cloud.place / "logs/apply.raw").exists()
    own = [path for path in cloud.place.rglob("*") if path.name != ".lock"]
    assert [path for path in (cloud.place, *own) if path.stat().st_mode & 0o077] == []
    cloud.place.chmod(0o755)
    assert "not a directory that only its owner can read (chmod 700)" in cloud("up", code=1)


def test_other_subscription_is_refused(cloud, monkeypatch):
    cloud.up()
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "1")
    for words in (("up", "--yes"), ("down", "--yes")):
        said = cloud(*words, code=1)
        assert "it was made in the subscription 0, and the environment names 1" in said
        assert "set ARM_SUBSCRIPTION_ID=0" in said
    # Without a subscription in the environment, the lab's own is used.
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    assert NOTHING in cloud.removed()
    assert {*(cloud.things.parent / "az.log").read_text().split()} == {"0"}
    assert {*(cloud.things.parent / "tool.log").read_text().split()} == {"0"}


def test_unknown_subscription_is_refused_before_making(cloud, monkeypatch):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    said = cloud.up(code=1)
    assert "the subscription of the lab is unknown; set ARM_SUBSCRIPTION_ID" in said
    assert [*cloud.things.iterdir()] == []


def test_only_an_answer_says_nothing_is_left(cloud, monkeypatch):
    """The law by its one source: without these words no call can say it."""
    monkeypatch.setattr(Found, "__str__", lambda _: "answered")
    cloud.up()
    said = cloud.removed()
    assert "answered" in said
    assert NOTHING not in said


def test_lab_in_own_directory_is_listed(cloud, tmp_path):
    there = ("--directory", tmp_path / "own")
    cloud("up", *cloud.given, *there)
    assert "azure-zones  made, 0.20 to 0.25 $ an hour (estimate, list prices of 2026-11-23); its " in cloud(
        "list"
    )
    assert cloud("list").rstrip().endswith(f"; {tmp_path}/own")
    said = cloud("down", *there, code=2, lab="aws-zones")
    assert f"{tmp_path}/own holds azure-zones" in said
    (tmp_path / "own").rename(tmp_path / "moved")
    said = cloud("list", code=1)
    assert f"  {tmp_path}/own is gone, and the lab may go on costing" in said
    (tmp_path / "moved").rename(tmp_path / "own")
    assert NOTHING in cloud("down", "--yes", *there)
    assert "begun here" not in cloud("list")


def test_directory_without_lab_is_named(cloud, tmp_path):
    said = cloud("list", "--directory", tmp_path / "none", code=1)
    assert f"{tmp_path}/none  holds no lab" in said
    said = cloud("down", code=1)
    assert f"{cloud.place} holds none; name its --directory" in said
    (cloud.place / "labs/azure/zones").mkdir(parents=True)
    (cloud.place).chmod(0o700)
    (cloud.root / "terraform.tfstate").write_text("{}")
    assert "it has no journal, and holds terraform.tfstate" in cloud.up(code=1)


def test_unreadable_journal_names_destroy_and_others(cloud):
    cloud.up()
    journal = cloud.place / "journal.jsonl"
    old = '{"kind": "cloud.begun", "format": 1, "lab": "azure-zones"}\n'
    for text, what in ((old, "has format 1, and fathom"), ("{\n{}\n", ":1 is no JSON")):
        journal.write_text(text)
        for words in (("list",), ("up",), ("down", "--yes")):
            said = cloud(*words, code=1)
            assert what in said
            assert f"`terraform -chdir={cloud.root} destroy`" in said
    assert len([*cloud.things.iterdir()]) == 5
