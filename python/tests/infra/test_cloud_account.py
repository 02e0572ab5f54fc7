"""A lab of AWS, by the real OpenTofu (or Terraform), and a login of another account, to which all of the lab
seems gone. The stand-in for the provider refuses it as the real one does.
"""

import json

import pytest

from fathometer.cloud.whose import tags_of
from support.lab_of_tofu import Cloud
from support.terraform import served

pytestmark = pytest.mark.acceptance

OURS, OTHER = "111111111111", "222222222222"
GIVEN = ("aws-balancer", "--from", "198.51.100.7/32")


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path, lab="aws-balancer")

    def login(account, *, told=True):
        """Whose login the provider has, and whether `aws` tells that; of things it lists none."""
        made.env.update(served("aws", account))
        made.program("aws", f'[ "$1" = sts ] || exit 0; {f"echo {account}" if told else "exit 1"}')

    made.login = login
    return made


def things(cloud):
    state = json.loads((cloud.place / "labs/aws/balancer/terraform.tfstate").read_text())
    return [one for one in state["resources"] if one["mode"] == "managed"]


def test_other_account_cannot_remove_or_remake_lab(cloud):
    """`aws` did not tell whose login it was: the state was emptied, and "nothing of it is left" was said."""
    cloud.login(OURS)
    cloud("up", *GIVEN, "--yes")
    there = things(cloud)
    assert len(there) > 10
    assert tags_of({"resources": there}) == {"fathom-balancer"}
    cloud.login(OTHER, told=False)
    for words in (
        ("up", "aws-balancer", "--yes"),
        ("down", "aws-balancer", "--yes", "--by-state"),
        ("down", "aws-balancer", "--yes"),
    ):
        _, err = cloud(*words, code=1)
        assert f"AWS account ID not allowed: {OTHER}" in err
        assert "use a profile or a login of the lab's own" in err
        assert things(cloud) == there
    cloud.login(OURS, told=False)
    _, err = cloud("down", "aws-balancer", "--yes", "--by-state")
    assert "nothing of it is left in its state; the cloud was not asked" in err
    assert not cloud.place.exists()


def test_lab_settings_include_aws_account(cloud):
    """So it guards a `terraform destroy` by hand, too."""
    cloud.login(OTHER)
    cloud("plan", *GIVEN)
    cloud.login(OURS)
    # It was only planned by another login.
    cloud("up", "aws-balancer", code=1, answer="n\n")
    root = cloud.place / "labs/aws/balancer"
    proposal = json.loads((root / "lab.proposal.tfvars.json").read_text())
    assert proposal["account"] == OURS


def test_an_account_that_was_learnt_later_guards_too(cloud):
    """Of a lab whose things told whose they are: its settings do not have it."""
    cloud.login(OURS, told=False)
    cloud("up", *GIVEN, "--yes")
    root = cloud.place / "labs/aws/balancer"
    assert "account" not in json.loads((root / "lab.auto.tfvars.json").read_text())
    with (cloud.place / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({"kind": "where", "owner": OURS, "regions": [], "tag": None}) + "\n")
    cloud.login(OTHER, told=False)
    there = things(cloud)
    # The plan of a lab whose account is known has it, told by `aws` or not; and so has its removal.
    for words in (("up", "aws-balancer"), ("down", "aws-balancer", "--yes", "--by-state")):
        _, err = cloud(*words, code=1)
        assert f"AWS account ID not allowed: {OTHER}" in err
        assert things(cloud) == there
