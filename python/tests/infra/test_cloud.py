"""`fathom cloud` with the real OpenTofu (or Terraform) and real roots, against the stand-in provider."""

import json
import re
import shlex
import signal
import subprocess
import time

import pytest

from support.lab_of_tofu import GIVEN, Cloud
from support.programs import fathom
from support.terraform import program, served

pytestmark = pytest.mark.acceptance

OWN_ROOT = """# Does a lab of one's own work?
variable "port" {
  type    = number
  default = 7007
}
resource "terraform_data" "host" {}
output "fathometer" {
  value = {
    format    = 1
    lab       = "own"
    hosts     = [{ name = "here", address = "198.51.100.1", user = "fathom" }]
    scenarios = [{ label = "path", from = "here", to = "here", port = var.port, tags = {} }]
  }
}
"""


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


@pytest.fixture
def attached(tmp_path):
    """One whose tool asks a provider that runs already."""
    return Cloud(tmp_path, more=served("azure"))


def test_lab_is_planned_made_prolonged_and_removed(cloud):
    out, err = cloud("plan", *GIVEN)
    assert "6  azurerm_linux_virtual_machine" in out
    # Five hosts at 0.10, a jump host of at most 0.05 and its address: docs/cloud.md says where that is from.
    assert "costs 0.51 to 0.55 $ an hour (estimate, list prices of 2026-11-23)" in out
    assert not list(cloud.place.rglob("terraform.tfstate"))
    # The options of `plan` hold.
    out, err = cloud("up", "azure-zones", answer="y\ny\n")
    assert "[45/45] " in err
    assert "45 things are there: 0.51 to 0.55 $ an hour" in err
    assert re.search(r"in 3h 5\dm", err)
    assert out.splitlines()[-1] == "fathom cloud run azure-zones"
    state = cloud.place / "labs/azure/zones/terraform.tfstate"
    assert state.stat().st_mode & 0o777 == 0o600
    assert "everything of it is there" in cloud("up", "azure-zones")[1]
    assert "azure-zones  made, 0.51 to 0.55 $ an hour" in cloud("list")[0]
    out, err = cloud("up", "azure-zones", "--for", "8h", "--yes")
    assert "to be changed" in out
    assert "to be made" not in out
    assert re.search(r"in 7h 5\dm", err)
    # Without `az` nobody knows what no state knows.
    out, err = cloud("down", "azure-zones", "--yes", code=1)
    assert "to be removed: 45 things" in out
    assert "az group list --tag fathom-lab=fathom-zones" in err
    cloud.program("az", '[ "$1" = resource ] || exit 0; echo /subscriptions/0/left')
    out, err = cloud("down", "azure-zones", code=1)
    assert "    /subscriptions/0/left" in out
    assert "1 thing is left that no state has" in err
    cloud.program("az", "exit 0")
    assert "nothing of it is left in the subscription 0" in cloud("down", "azure-zones")[1]
    assert list(cloud.place.parent.iterdir()) == []


def test_refused_value_is_named_and_not_kept(attached):
    for words in (("--from", "0.0.0.0/0"), ("--from", "198.51.100.7/32", "--var", "port=22")):
        _, err = attached("plan", "azure-zones", *words, code=1)
        assert "Invalid value for variable" in err
        assert "set it by its option, or by --var NAME=VALUE" in err
    assert "variable port: Port 22 is SSH's" in err
    assert "--from is required" in attached("up", "azure-zones", code=2)[1]
    assert "to be made" in attached("plan", *GIVEN)[0]


def test_printed_destroy_removes_lab_by_hand(cloud):
    """The remedy for whatever `down` cannot do."""
    cloud("up", *GIVEN, "--yes")
    moved = (cloud.programs / "tofu").rename(cloud.home / "moved")
    _, err = cloud("down", "azure-zones", "--yes", code=1)
    assert "the lab was made with it: put it back, or name another with --tool" in err
    failing = cloud.home / "failing"
    failing.write_text(f'#!/bin/sh\n[ "$1" = destroy ] && exit 1\nexec {moved} "$@"\n')
    failing.chmod(0o755)
    _, err = cloud("down", "azure-zones", "--yes", "--tool", failing, code=1)
    (command,) = re.findall("by hand: `(.*)`", err)
    tool, *words = shlex.split(command)
    assert (tool, words[-1]) == (str(failing), "destroy")
    done = subprocess.run([moved, *words, "-auto-approve"], env=cloud.env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    state = json.loads((cloud.place / "labs/azure/zones/terraform.tfstate").read_text())
    assert state["resources"] == []


def test_interrupt_and_orphan_lose_no_resources(cloud):
    cloud.program("az", "exit 0")
    for sign, *words in (
        (signal.SIGINT, "up", *GIVEN, "--yes"),
        (signal.SIGKILL, "down", "azure-zones", "--yes"),
    ):
        log = cloud.place / f"logs/{'apply' if words[0] == 'up' else 'destroy'}.raw"
        process = cloud.popen(*words)
        # Its first line: before the tool runs a signal ends the call itself, and nothing can be lost.
        while not (log.exists() and log.stat().st_size) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(sign)
        process.communicate(timeout=120)
        assert process.returncode != 0
    # It waits for the orphan's lock.
    _, err = cloud("down", "azure-zones", "--yes")
    assert "nothing of it is left in the subscription 0" in err
    assert not cloud.place.exists()


def test_missing_tool_error_names_download_site(attached):
    (attached.programs / "tofu").unlink()
    _, err = attached("up", *GIVEN, code=1)
    assert "neither `tofu` nor `terraform` is in PATH; install OpenTofu (https://opentofu.org/" in err
    (attached.programs / "terraform").symlink_to(program())
    assert "to be made" in attached("plan", *GIVEN)[0]


def test_other_account_cannot_remove_lab(tmp_path):
    """To another account the whole lab seems gone. The stand-in refuses its login as the provider does."""
    cloud = Cloud(tmp_path, lab="aws-balancer")
    cloud.program("aws", '[ "$1" = sts ] || exit 0; echo 111111111111')
    cloud.env.update(served("aws", "111111111111"))
    cloud("up", "aws-balancer", *GIVEN[1:], "--yes")
    root = cloud.place / "labs/aws/balancer"
    assert json.loads((root / "lab.auto.tfvars.json").read_text())["account"] == "111111111111"
    there = (root / "terraform.tfstate").read_text()
    cloud.program("aws", "exit 1")
    cloud.env.update(served("aws", "222222222222"))
    for words in (("up",), ("down", "--by-state")):
        _, err = cloud(words[0], "aws-balancer", "--yes", *words[1:], code=1)
        assert "AWS account ID not allowed: 222222222222" in err
        assert "use a profile or a login of the lab's own" in err
        assert (root / "terraform.tfstate").read_text() == there
    cloud.program("aws", "echo 222222222222")
    _, err = cloud("down", "aws-balancer", "--yes", code=1)
    assert "it was made in the account 111111111111, and the environment names 222222222222" in err


def test_output_only_change_applies_without_question(tmp_path):
    own = Cloud(tmp_path, lab="azure-own")
    root = own.home / "infra/azure/own"
    root.mkdir(parents=True)
    (root / "main.tf").write_text(OWN_ROOT)
    own("up", "azure-own", "--infra", "infra", "--yes")
    study = own.place / "study.toml"
    # No host answers: what it would measure is written before that.
    own("run", "azure-own", "--fathom", fathom(), code=1)
    assert "7008" not in study.read_text()
    _, err = own("up", "azure-own", "--infra", "infra", "--var", "port=7008")
    assert "no resource changes: only the outputs" in err
    assert "[y/N]" not in err
    own("run", "azure-own", "--fathom", fathom(), code=1)
    assert "7008" in study.read_text()
    assert study.stat().st_mode & 0o777 == 0o600
    own("down", "azure-own", "--yes", "--by-state")
