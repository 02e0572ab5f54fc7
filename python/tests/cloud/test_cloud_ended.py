"""Hosts whose end has passed have switched themselves off: a later end starts none of them again."""

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.planned import Resource, read_plan
from fathometer.cloud.running import must_run, start_commands
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from support.lab_of_namespaces import MAIN, SERVER, ended

QUICK = f"import fathometer.cloud.running as r; r.PATIENCE_S = 0; r.keys.ANSWER_S = 1\n{MAIN}"
"""Who does not answer is not waited for: a second, and once."""
JUMP = "module.jump[0].azurerm_linux_virtual_machine.this"


@pytest.mark.acceptance
def test_ended_hosts_error_gives_start_command(person):
    person.up()
    longer = ("up", "azure-zones", "--for", "4h", "--yes")
    for off, name in ((SERVER, "server-zone-1 (10.60.1.20)"), (JUMP, "the jump host (203.0.113.10)")):
        person.end_has_passed()
        person.az("vm", "deallocate", "--ids", off)
        said = ended(person.popen(*longer, program=(QUICK,)), 1)
        assert f"{name} does not answer to SSH: its hosts were ended at " in said
        assert "`az vm start --ids " in said
        assert (
            "then `fathom cloud up azure-zones` looks again; or `fathom cloud down azure-zones`, and" in said
        )
        assert "makes it anew; if they run, see that you come from the network that `ssh_from` names" in said
        # Their new end lies ahead: neither that nor anything else says that they run.
        said = ended(person.popen(*person.run_words(), program=(QUICK,)), 1)
        assert f"{name} does not answer to SSH" in said
        assert "`az vm start --ids " in said
        assert "then `fathom cloud up azure-zones` looks again" in said
        assert person.study_kinds() == []
        person.az("vm", "start", "--ids", off)
        said = person("up", "azure-zones", "--yes")
        assert "looking whether they run" in said
        assert "5 things of 3 kinds are there" in said
    assert "looking whether they run" not in person(*person.run_words())
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_up_accepts_hosts_still_running_after_expiry(person):
    """As one that was started by hand."""
    person.up()
    person.end_has_passed()
    said = person("up", "azure-zones", "--for", "4h", "--yes")
    assert "looking whether they run" in said
    assert "looking" not in person("up", "azure-zones", "--for", "5h", "--yes")
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_run_checks_hosts_after_expiry(person):
    """Nobody had called `up` since, which alone noted it: the study began, and its error told of SSH."""
    person.up()
    person.end_has_passed()
    person.az("vm", "deallocate", "--ids", SERVER)
    said = ended(person.popen(*person.run_words(), "--yes", program=(QUICK,)), 1)
    assert "server-zone-1 (10.60.1.20) does not answer to SSH: its hosts were ended at " in said
    assert "`az vm start --ids " in said
    # Started without a new end it would run on, and cost.
    assert "then `fathom cloud up azure-zones --for 4h` looks again" in said
    assert person.study_kinds() == []
    person.az("vm", "start", "--ids", SERVER)
    assert "looking whether they run" in person(*person.run_words(), "--yes")
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.parametrize("says", [None, ()], ids=["now", "of before"])
def test_only_current_cloud_data_marks_host_stopped(tmp_path, monkeypatch, says):
    place = LabPlace(tmp_path)
    place.note("cloud.begun", lab="a-lab")
    place.note("hosts.ended", at="2026-11-25T12:00:00+00:00")
    monkeypatch.setattr("fathometer.cloud.keys.silent", lambda *_: [])
    there = [Resource("m.a", "aws_instance", AWS)]
    if says is None:
        with pytest.raises(FathometerError, match=r"m\.a does not run"):
            must_run(Work(place, "a-lab", yes=True), None, None, there)
    else:
        must_run(Work(place, "a-lab", yes=True), None, None, there, says=says)
        assert place.has("hosts.answered")


AWS = {"id": "i-1", "arn": "arn:aws:ec2:eu-west-2:111111111111:instance/i-1", "instance_state": "stopped"}
GOOGLE = {"name": "client", "zone": "europe-west2-a", "project": "mine", "current_status": "TERMINATED"}


@pytest.mark.parametrize(
    ("kind", "values", "command"),
    [
        ("aws_instance", AWS, "aws ec2 start-instances --region eu-west-2 --instance-ids i-1"),
        (
            "google_compute_instance",
            GOOGLE,
            "gcloud compute instances start --zone=europe-west2-a --project=mine client",
        ),
    ],
)
def test_what_the_cloud_says_of_hosts_is_enough(tmp_path, kind, values, command):
    """It said so when the plan was made; what the state had then may be older."""
    place = LabPlace(tmp_path)
    place.note("cloud.begun", lab="a-lab")
    place.note("hosts.ended", at="2026-11-25T12:00:00+00:00")
    resource = {"address": "m.a", "type": kind, "mode": "managed", "values": values}
    before = read_plan({"prior_state": {"values": {"root_module": {"resources": [resource]}}}}).before
    with pytest.raises(
        FathometerError, match="not run: its hosts were ended at 2026-11-25 12:00 UTC"
    ) as error:
        must_run(Work(place, "a-lab", yes=True), None, None, before)
    assert f"`{command}` starts them" in error.value.remedy


def test_start_commands_group_hosts_by_region():
    hosts = [
        Resource("a", "aws_instance", {"id": f"i-{n}", "arn": f"arn:aws:ec2:{region}:1:instance/i-{n}"})
        for n, region in enumerate(["eu-west-2", "us-east-1", "eu-west-2"])
    ]
    assert start_commands(hosts) == [
        "aws ec2 start-instances --region eu-west-2 --instance-ids i-0 i-2",
        "aws ec2 start-instances --region us-east-1 --instance-ids i-1",
    ]
    # A thing that nobody knows how to start, or whose name is not known, has none.
    assert start_commands([Resource("a", "own_host", {}), Resource("a", "aws_instance", {})]) == []
