"""What `fathom cloud` itself asks of AWS, by the real `aws`: whose login it is, and what bears a lab's tag. A
model of AWS (moto) on loopback answers.
"""

import os
import sys
from pathlib import Path

import boto3
import pytest

from fathometer.cloud.left import Where, look, owner_now
from fathometer.errors import FathometerError
from support.programs import missing
from support.store import aws

REGIONS = ("eu-west-2", "us-east-1")
# The account of a client of moto.
ACCOUNT = "123456789012"

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def cloud():
    programs = Path(sys.executable).parent
    if not (programs / "aws").exists():
        missing("aws (awscli, of the development tools)")
    with aws() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        yield lambda service, region: boto3.client(service, region_name=region, endpoint_url=endpoint)


def made(cloud, region, lab):
    """A network with a lab's tag: its id."""
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "fathom-lab", "Value": lab}]}]
    vpc = cloud("ec2", region).create_vpc(CidrBlock="10.60.0.0/16", TagSpecifications=tags)
    return vpc["Vpc"]["VpcId"]


@pytest.mark.usefixtures("cloud")
def test_login_account_is_known():
    assert owner_now("aws") == ACCOUNT


def test_look_finds_only_tagged_resources_per_region(cloud):
    near, far = (made(cloud, region, "fathom-zones") for region in REGIONS)
    made(cloud, REGIONS[0], "fathom-balancer")
    found = look(Where("aws", ACCOUNT, REGIONS, ("fathom-zones",)))
    arns = {f"arn:aws:ec2:{r}:{ACCOUNT}:vpc/{v}" for r, v in zip(REGIONS, (near, far), strict=True)}
    assert {*found.things} == arns
    cloud("ec2", REGIONS[1]).delete_vpc(VpcId=far)
    found = look(Where("aws", ACCOUNT, REGIONS[1:], ("fathom-zones",)))
    assert found.things == ()
    assert str(found) == f"nothing of it is left in the account {ACCOUNT} (us-east-1)"


@pytest.mark.usefixtures("cloud")
def test_missing_credentials_are_reported_as_problem(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FathometerError, match="the login's account is unknown"):
        look(Where("aws", ACCOUNT, REGIONS[:1], ("fathom-zones",)))
