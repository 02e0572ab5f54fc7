"""The labs of AWS: what they would make, and who could reach it."""

import json
from ipaddress import ip_network

import pytest

from support.terraform import GIVEN, lab_of, of_root, roots

pytestmark = pytest.mark.acceptance

PRIVATE = ip_network("10.0.0.0/8")
# Of today: no type of a generation that is no longer sold, none that has credits but the jump host's.
TYPES = {"m7i.large"}


@pytest.fixture(scope="module", params=[of_root("aws", root) for root in roots("aws")])
def lab(request):
    return lab_of("aws", request.param)


@pytest.fixture(scope="module", params=[False, True], ids=["private", "jump"])
def planned(request, lab):
    resources, plan = lab.planned(public_jump=request.param)
    return request.param, resources, plan


def of(resources, *kinds):
    return [r for r in resources.values() if r.kind in {f"aws_{kind}" for kind in kinds}]


def port(rule):
    return rule["ip_protocol"], rule["from_port"], rule["to_port"]


def test_provider_refuses_other_account(planned):
    """To it all of the lab seems gone, and `destroy` would forget what goes on costing."""
    _, _, plan = planned
    provider = plan["configuration"]["provider_config"]["aws"]
    assert {*provider["expressions"]["allowed_account_ids"]["references"]} == {"var.account"}


def test_nothing_is_open_to_the_world(planned):
    jump, resources, _ = planned
    rules = of(resources, "vpc_security_group_ingress_rule")
    # ICMP 3/4 is "fragmentation needed".
    allowed = {("tcp", 22, 22), ("tcp", 7007, 7007), ("udp", 7007, 7007), ("icmp", 3, 4)}
    assert {port(rule) for rule in rules} == allowed
    for rule in rules:
        assert rule["cidr_ipv6"] is None
        if rule["cidr_ipv4"] == GIVEN["ssh_from"]:
            # Only the jump host is let in from there, where there is one.
            assert port(rule) == ("tcp", 22, 22)
            assert not jump or '["jump-' in rule.address, rule.address
        else:
            assert ip_network(rule["cidr_ipv4"]).subnet_of(PRIVATE), rule.address


def test_nothing_is_sent_but_to_the_lab(planned):
    _, resources, _ = planned
    rules = of(resources, "vpc_security_group_egress_rule")
    assert rules
    assert all(ip_network(rule["cidr_ipv4"]).subnet_of(PRIVATE) for rule in rules)


def test_reachable_resources_use_lab_security_groups(planned):
    _, resources, plan = planned
    # A group's rules are its own resources: none stand in it, where no test would see them.
    for group in of(resources, "security_group"):
        assert (group["ingress"], group["egress"]) == (None, None)
    assert {r["ingress"] for r in of(resources, "default_security_group")} == {None}
    assert len(of(resources, "default_security_group")) == len(of(resources, "vpc"))

    def groups(module):
        for resource in module["resources"]:
            if resource["type"] in {"aws_instance", "aws_lb"}:
                yield (
                    resource["expressions"].get("vpc_security_group_ids")
                    or resource["expressions"]["security_groups"]
                )
        for call in module.get("module_calls", {}).values():
            yield from groups(call["module"])

    named = list(groups(plan["configuration"]["root_module"]))
    assert len(named) >= 2
    assert all(group == {"references": ["var.groups"]} for group in named)


def test_only_requested_jump_host_reaches_internet(planned):
    jump, resources, _ = planned
    assert [e.address for e in of(resources, "eip")] == (["module.jump[0].aws_eip.this[0]"] if jump else [])
    gateways = of(resources, "internet_gateway")
    assert len(gateways) == (1 if jump else 0)
    assert not of(resources, "nat_gateway", "egress_only_internet_gateway")
    out = [r for r in of(resources, "route") if r["destination_cidr_block"] == "0.0.0.0/0"]
    assert [r.address for r in out] == (["module.network.aws_route.jump[0]"] if jump else [])
    assert {s["map_public_ip_on_launch"] for s in of(resources, "subnet")} == {False}
    assert not any(host["associate_public_ip_address"] for host in of(resources, "instance"))
    assert all(balancer["internal"] for balancer in of(resources, "lb"))


def test_every_host_has_an_end_of_the_platforms(planned):
    _, resources, _ = planned
    hosts = of(resources, "instance")
    ends = {e.address.split(".aws_")[0]: e for e in of(resources, "scheduler_schedule")}
    assert len(hosts) == len(ends) >= 2
    for host in hosts:
        end = ends[host.address.split(".aws_")[0]]
        assert end["region"] == host["region"]
        assert (end["schedule_expression"], end["schedule_expression_timezone"]) == (
            "at(2030-01-02T19:30:00)",
            "UTC",
        )
        assert end["target"][0]["arn"].endswith(":ec2:stopInstances")


def test_expiry_role_may_stop_only_lab_hosts(planned):
    _, resources, _ = planned
    (role,), (policy,) = of(resources, "iam_role"), of(resources, "iam_role_policy")
    (trusted,) = json.loads(role["assume_role_policy"])["Statement"]
    assert trusted["Principal"] == {"Service": "scheduler.amazonaws.com"}
    (may,) = json.loads(policy["policy"])["Statement"]
    assert may["Action"] == "ec2:StopInstances"
    (tag,) = {host["tags"]["fathom-lab"] for host in of(resources, "instance")}
    assert may["Condition"] == {"StringEquals": {"aws:ResourceTag/fathom-lab": tag}}


def test_hosts_are_current_types_with_key_login(planned):
    _, resources, _ = planned
    for host in of(resources, "instance"):
        jump = host.address.startswith("module.jump")
        assert host["instance_type"] in ({"t3.micro"} if jump else TYPES)
        assert host["metadata_options"][0]["http_tokens"] == "required"
        assert host["key_name"]
        assert not host["get_password_data"]
        (disk,) = host["root_block_device"]
        assert (disk["volume_type"], disk["encrypted"], disk["delete_on_termination"]) == ("gp3", True, True)
    assert {k["public_key"] for k in of(resources, "key_pair")} == {GIVEN["ssh_public_key"]}
    assert {b["load_balancer_type"] for b in of(resources, "lb")} <= {"network"}


@pytest.mark.parametrize("lab", [of_root("aws", "balancer")], indirect=True)
def test_a_network_balancers_idle_limit_is_a_variable(lab):
    resources, _ = lab.plan(idle_timeout_seconds=60)
    assert {r["tcp_idle_timeout_seconds"] for r in of(resources, "lb_listener")} == {60}
    # Both nodes are where the client is, so that the zone of the host behind alone differs.
    nodes = {n["private_ipv4_address"] for b in of(resources, "lb") for n in b["subnet_mapping"]}
    assert nodes == {"10.92.1.100", "10.92.1.101"}
    (refused,) = lab.refused(idle_timeout_seconds=59)
    assert "Whole seconds from 60 to 6000" in refused
