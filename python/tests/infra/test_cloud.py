"""`fathom cloud` with the real OpenTofu (or Terraform) and a real root, against the stand-in provider."""

import json
import re
import shutil
import signal

import pytest

from support.lab_of_tofu import GIVEN, Cloud, with_own_root
from support.machines import until
from support.programs import fathom
from support.terraform import program, served

pytestmark = pytest.mark.acceptance


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


@pytest.fixture
def attached(tmp_path):
    """One whose tool asks a provider that runs already."""
    return Cloud(tmp_path, more=served("azure"))


def test_a_lab_is_planned_made_and_removed(cloud):
    out, err = cloud("plan", *GIVEN)
    assert "6  azurerm_linux_virtual_machine" in out
    # Five hosts at 0.10, a jump host of at most 0.05 and its address: docs/cloud.md says where that is from.
    assert "costs 0.51 to 0.55 $ an hour (estimate, list prices of 2026-11-23)" in out
    assert cloud.place.stat().st_mode & 0o777 == 0o700
    assert not list(cloud.place.rglob("terraform.tfstate"))
    # What was given to `plan` holds.
    out, err = cloud("up", "azure-zones", answer="y\ny\n")
    assert "[45/45] " in err
    assert "45 things of 11 kinds are there: 0.51 to 0.55 $ an hour" in err
    assert re.search(r"in 3h 5\dm", err)
    assert out.splitlines()[-1] == "fathom cloud run azure-zones"
    assert cloud("up", "azure-zones")[1].count("everything of it is there") == 1
    assert "azure-zones  made, estimated at 0.51 to 0.55 $ an hour" in cloud("list")[0]
    # Without `az` nobody knows what no state knows.
    out, err = cloud("down", "azure-zones", "--yes", code=1)
    assert "to be removed: 45 things" in out
    assert "az group list --tag fathom-lab=fathom-zones" in err
    cloud.program("az", '[ "$1" = resource ] || exit 0; echo /subscriptions/0/left')
    out, err = cloud("down", "azure-zones", code=1)
    assert "    /subscriptions/0/left" in out
    assert "1 thing is left that no state knows" in err
    cloud.program("az", "exit 0")
    out, err = cloud("down", "azure-zones")
    assert "nothing of it is left" in err
    assert list(cloud.place.parent.iterdir()) == []


def test_declined_lab_is_not_made(attached):
    _, err = attached("up", *GIVEN, code=1, answer="n\n")
    assert "nobody wanted it" in err
    assert "apply.started" not in attached.kinds()
    _, err = attached("up", *GIVEN, code=1)
    assert "nobody answered; answer y, or add --yes" in err
    attached("down", "azure-zones")
    assert not attached.place.exists()


def test_extending_lab_changes_it_in_place(cloud):
    cloud("up", *GIVEN, "--yes")
    out, err = cloud("up", "azure-zones", "--for", "8h", "--yes")
    assert "to be changed" in out
    assert "to be made" not in out
    assert re.search(r"in 7h 5\dm", err)
    # The provider was a link into a cache that was emptied; and the tool could not write its state where that
    # belongs. Neither makes a lab one that nobody can remove.
    root = cloud.place / "labs/azure/zones"
    shutil.rmtree(root / ".terraform/providers")
    (root / "terraform.tfstate").rename(root / "errored.tfstate")
    # So is a program that was moved.
    moved = (cloud.programs / "tofu").rename(cloud.home / "moved")
    _, err = cloud("down", "azure-zones", "--yes", "--by-state", code=1)
    assert (
        "No such file or directory; this lab was made with it: put it back, or name another with --tool"
        in err
    )
    _, err = cloud("down", "azure-zones", "--tool", "nowhere", code=1)
    assert "nowhere is no program" in err
    out, err = cloud("down", "azure-zones", "--yes", "--by-state", "--tool", moved)
    assert "taking back errored.tfstate" in err
    assert "to be removed: 45 things" in out
    assert not cloud.place.exists()


def test_ctrl_c_during_up_loses_no_resources(cloud):
    # Interrupted before the first thing there is no state, and `up` asks the cloud.
    cloud.program("az", "exit 0")
    process = cloud.popen("up", *GIVEN, "--yes")
    # Its first line: a signal before the tool runs ends `up` itself, and then there is nothing to lose.
    log = cloud.place / "logs/apply.raw"
    until(lambda: log.exists() and log.stat().st_size > 0, "the making")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert "tofu gets it once" in err
    assert "`fathom cloud down azure-zones` removes it" in err or "nothing of it exists" in err
    out, err = cloud("up", "azure-zones", "--yes")
    assert "45 things of 11 kinds are there" in err
    cloud("down", "azure-zones", "--yes", "--by-state")
    assert not cloud.place.exists()


def test_missing_tool_error_names_download_site(attached):
    (attached.programs / "tofu").unlink()
    _, err = attached("up", *GIVEN, code=1)
    assert "neither `tofu` nor `terraform` is in PATH; install OpenTofu (https://opentofu.org/" in err
    (attached.programs / "terraform").symlink_to(program())
    assert "to be made" in attached("plan", *GIVEN)[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("azure-zones",), "--from 198.51.100.7/32"),
        (("azure-zone",), "azure-zones"),
        ((*GIVEN, "--for", "25h"), "at most 24h"),
        ((*GIVEN, "--for", "soon"), "at most 24h"),
        ((*GIVEN, "--for", ""), 'cannot be there for ""'),
        ((*GIVEN, "--var", "size=a", "--var", "size=b"), '"size" is given twice'),
        # Hosts would be there after their end, and run on.
        ((*GIVEN, "--for", "1s"), 'cannot be there for "1s"; use a duration of at least 30m'),
        ((*GIVEN, "--var", "expires=2030-01-01T00:00:00Z"), "say how long it is for: --for 6h"),
        ((*GIVEN, "--var", "ssh_from=10.9.0.0/16"), '--from says what --var says of "ssh_from"'),
        ((*GIVEN, "--var", "public_jump=false"), '--public-jump says what --var says of "public_jump"'),
        ((*GIVEN, "--key", "k", "--var", "ssh_public_key=k"), "--key says what --var says"),
        ((*GIVEN, "--var", "zone=1"), 'no variable "zone"'),
        ((*GIVEN, "--var", "zones"), "NAME=VALUE"),
    ],
)
def test_a_wrong_command_line(cloud, words, says):
    _, err = cloud("up", *words, code=2)
    assert says in err


def test_a_value_that_the_lab_refuses(attached):
    """A wrong `--from` was advised to be set with `--var`."""
    _, err = attached("up", "azure-zones", "--from", "0.0.0.0/0", code=1)
    assert "Give a network of IPv4 in CIDR notation" in err
    assert err.rstrip().endswith("; set it with --from CIDR")
    # What the tool says of its files is no use to whoever gave a value.
    assert "cannot plan the lab: ssh_from: Give a network" in err
    assert "validation rule" not in err
    # By itself it would say that nobody said whence SSH may come.
    assert "azure-zones: the same command with its options goes on from here" in err
    for words, ways in (
        (("--var", "ssh_from=0.0.0.0/0"), {"--var ssh_from=VALUE"}),
        (("--from", "here", "--var", "zones=[]"), {"--from CIDR", "--var zones=VALUE"}),
        # Of another type, over several lines, and no text.
        (("--var", 'ssh_from=["a","b"]'), {"--var ssh_from=VALUE"}),
        (("--from", "198.51.100.7/32", "--var", "user="), {"--var user=VALUE"}),
        (
            ("--from", "198.51.100.7/32", "--var", "region=", "--var", "port=22", "--var", 'zones=["../x"]'),
            {"--var region=VALUE", "--var port=VALUE", "--var zones=VALUE"},
        ),
    ):
        _, err = attached("up", "azure-zones", *words, code=1)
        assert set(err.rstrip().rpartition("; set it with ")[2].split(" and ")) == ways


def test_module_validation_error_names_variable(tmp_path):
    nat = Cloud(tmp_path, lab="azure-nat", more=served("azure"))
    words = ("azure-nat", *GIVEN[1:], "--var", "idle_timeout_minutes=4.5")
    _, err = nat("plan", *words, code=1)
    says = "idle_timeout_minutes: Whole minutes from 4 to 120; set it with --var idle_timeout_minutes=VALUE"
    assert says in err


OWN_ROOT = """# Does a lab of one's own work?
variable "port" {
  type    = number
  default = 7007
}
resource "terraform_data" "host" {}
output "fathometer" {
  value = {
    format = 1
    lab    = "own"
    hosts = [
      { name = "here", address = "198.51.100.1", user = "fathom" },
      { name = "there", address = "198.51.100.2", user = "fathom" },
    ]
    scenarios = [{ label = "path", from = "here", to = "there", port = var.port, tags = {} }]
  }
}
"""


@pytest.fixture
def own(tmp_path):
    """Somebody with a lab of their own, whose variable changes nothing but what its output tells."""
    return with_own_root(tmp_path, OWN_ROOT)


def test_output_only_change_applies_without_question(own):
    own("up", "azure-own", "--infra", "infra", "--yes")
    # No host answers: what it would measure is written before that.
    own("run", "azure-own", "--fathom", fathom(), code=1)
    study = own.place / "study.toml"
    assert "7008" not in study.read_text()
    said = "".join(own("up", "azure-own", "--infra", "infra", "--var", "port=7008"))
    assert (
        "nothing is made, changed or removed, and no cost: only what `run` reads of the lab changes" in said
    )
    assert "[y/N]" not in said
    state = json.loads((own.place / "labs/azure/own/terraform.tfstate").read_text())
    (path,) = state["outputs"]["fathometer"]["value"]["scenarios"]
    assert path["port"] == 7008
    assert own.kinds().count("apply.done") == 2
    assert "everything of it is there" in "".join(own("up", "azure-own", "--infra", "infra"))
    own("run", "azure-own", "--fathom", fathom(), code=1)
    assert "7008" in study.read_text()
    # Another lab's state has no tag here, and a lineage of its own, encrypted or not.
    other = own.home / "other"
    own("up", "azure-own", "--infra", "infra", "--directory", str(other), "--yes")
    (mine, theirs) = (place / "labs/azure/own/terraform.tfstate" for place in (own.place, other))
    kept = mine.read_text()
    shutil.copy(theirs, mine)
    _, err = own("down", "azure-own", "--yes", "--by-state", code=1)
    assert f"{mine} is another lab's: its lineage is {json.loads(theirs.read_text())['lineage']}" in err
    mine.write_text(kept)
    own("down", "azure-own", "--yes", "--by-state")
