"""A lab from its making to its removal, in this process: by a stand-in for OpenTofu whose hosts are files.
What kills, namespaces and real sshd add to this is in the files beside it.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

from fathometer.cloud import register
from support.command_line import run
from support.lab_of_namespaces import KILLED, SECRET, SERVER, TAG, put_stand_in, stand_in_for_ssh
from support.programs import make_key

QUOTA = (
    "creating Linux Virtual Machine: unexpected status 409 (409 Conflict) with error: OperationNotAllowed\n"
    "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota."
)


class Cloud:
    """`fathom cloud` of a home with a key; the cloud's things are files."""

    def __init__(self, directory):
        self.programs = directory / "bin"
        self.things = directory / "cloud/things"
        self.place = directory / "state/fathom/cloud/azure-zones"
        self.state = self.place / "labs/azure/zones/terraform.tfstate"
        self.things.mkdir(parents=True)
        self.set("bare", "")
        self.programs.mkdir()
        stand_in_for_ssh(self.programs)
        for name in ("tofu", "az"):
            put_stand_in(self.programs / name)
        make_key(directory / "key")
        self.given = ("--from", "203.0.113.1/32", "--public-jump", "--var", "user=root", "--yes")
        self.given += ("--key", directory / "key")

    def set(self, name, text):
        """What the stand-in does from now on."""
        (self.things.parent / name).write_text(text)

    def __call__(self, verb, *words, code=0, answer=""):
        lab = () if verb == "list" else ("azure-zones",)
        done = run("cloud", verb, *lab, *words, stdin=answer)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        # What costs is known to `list`.
        things = [thing for thing in self.things.iterdir() if thing.read_text() == TAG]
        assert not things or any(entry.may_exist for entry in register.entries()[0])
        return said

    def up(self, code=0):
        return self("up", *self.given, code=code)

    def removed(self, *words):
        assert "nothing of it is left" in self("down", "--yes", *words)
        assert [*self.things.iterdir()] == []
        assert not self.place.exists()


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    made = Cloud(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "PATH": f"{made.programs}:{os.environ['PATH']}",
        "FATHOM_TEST_CLOUD": str(made.things.parent),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ARM_CLIENT_SECRET": SECRET,
        "ARM_SUBSCRIPTION_ID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return made


def test_lab_is_made_listed_and_removed(cloud):
    assert "5  " not in cloud("list")
    assert "5 things of 3 kinds are there" in cloud.up()
    assert "azure-zones  made, estimated at" in cloud("list")
    assert "everything of it is there" in cloud("up")
    assert "nobody answered" in cloud("down", code=1)
    cloud.removed()
    assert "made, " not in cloud("list")


def test_partial_lab_is_priced_and_resumed(cloud):
    cloud.set("fail", json.dumps({SERVER: QUOTA}))
    said = cloud.up(code=1)
    assert QUOTA.split("\n")[1] in said
    assert "ask the cloud for more processors" in said
    assert "4 things of 3 kinds are there: 0.10 to 0.15 $ an hour" in said
    assert "`fathom cloud up azure-zones` goes on from here" in said
    assert "make it: `fathom cloud up azure-zones`" in cloud("run", code=1)
    cloud.set("fail", "{}")
    # What was agreed to is not asked about again; the keys are.
    said = cloud("up", code=1)
    assert "going on: 1 thing to be made" in said
    assert "[1/1]" in said
    assert "nobody answered" in said
    assert "5 things of 3 kinds are there" in cloud("up", "--yes")
    cloud.removed()


def test_killed_call_is_resumed(cloud):
    words = ("cloud", "up", "azure-zones", *cloud.given)
    program = [sys.executable, "-c", KILLED, "before", "apply.done", *words]
    killed = subprocess.run(program, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "everything of it is there" in cloud("up", "--yes")
    cloud.removed()


@pytest.mark.parametrize("text", [None, '{"version": 4, "res'], ids=["gone", "torn"])
def test_lost_state_is_never_believed(cloud, text):
    cloud.up()
    whole = cloud.state.read_text()
    cloud.state.unlink() if text is None else cloud.state.write_text(text)
    assert "down azure-zones" in cloud("up", "--yes", code=1)
    assert "5 things are left that no state knows" in cloud("down", "--yes", code=1)
    cloud.state.write_text(whole)
    cloud.removed("--by-state")


def test_resource_missing_from_state_is_reported(cloud):
    """As a tool leaves it that is killed before it writes."""
    cloud.set("die", "azurerm_resource_group.lab")
    assert "what exists is not known" in cloud.up(code=1)
    assert "1 thing is left that no state knows" in cloud("down", "--yes", code=1)


def test_down_without_cloud_query_fails(cloud):
    cloud.up()
    (cloud.programs / "az").unlink()
    said = cloud("down", "--yes", code=1)
    assert "`az` is not installed; look yourself: az group list --tag fathom-lab=fathom-zones" in said
    cloud.removed("--by-state")


def test_refused_login_makes_nothing_and_hides_secret(cloud):
    words = f"AADSTS7000215: Invalid client secret provided: {SECRET}"
    cloud.set("no-login", f"building account: could not acquire access token\n{words}")
    said = cloud.up(code=1)
    assert "Invalid client secret provided: [ARM_CLIENT_SECRET]" in said
    assert "log in again (`az login`" in said
    assert "nothing of it exists" in said
    files = [p.read_bytes() for p in cloud.place.rglob("*") if p.is_file()]
    assert SECRET.encode() not in b"".join([said.encode(), *files])
    assert [*cloud.things.iterdir()] == []
    cloud("down")
    assert not cloud.place.exists()
