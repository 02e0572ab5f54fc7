"""Azure's labs: what they would make, and who could reach it."""

import base64
import json
import os
import re
import subprocess
from ipaddress import ip_network

import pytest

from support.terraform import GIVEN, Lab, lab_of, of_root, roots, texts

pytestmark = pytest.mark.acceptance

PRIVATE = ip_network("10.0.0.0/8")
JUMPS = [False, True]


@pytest.fixture(scope="module", params=[of_root("azure", root) for root in roots("azure")])
def lab(request):
    return lab_of("azure", request.param)


@pytest.fixture(scope="module", params=JUMPS, ids=["private", "jump"])
def planned(request, lab):
    resources, plan = lab.planned(public_jump=request.param)
    return request.param, resources, plan


def of(resources, *kinds):
    return [r for r in resources.values() if r.kind in {f"azurerm_{kind}" for kind in kinds}]


def test_nothing_is_open_to_the_world(planned):
    jump, resources, _ = planned
    rules = of(resources, "network_security_rule")
    ports = set()
    for rule in rules:
        if rule["access"] == "Deny" or rule["direction"] != "Inbound":
            continue
        sources = rule["source_address_prefixes"] or [rule["source_address_prefix"]]
        if "azurerm_nat_gateway" in {r.kind for r in resources.values()} and sources[-1] is None:
            # The NAT gateway's own address, /32, which is known when it is there.
            assert rule["destination_port_range"] == "7007"
            sources = sources[:-1]
        assert rule["destination_port_range"] in {"22", "7007"}, rule.address
        ports.add(rule["destination_port_range"])
        for source in sources:
            if source == "AzureLoadBalancer":
                assert rule["destination_port_range"] == "7007"
            elif rule["destination_port_range"] == "22" and source == GIVEN["ssh_from"]:
                # Only the jump host is let in from there, where there is one.
                assert not jump or "-jump" in rule["network_security_group_name"], rule.address
            else:
                assert ip_network(source).subnet_of(PRIVATE), rule.address
    assert ports == {"22", "7007"}


def test_every_subnet_with_hosts_denies_other_inbound(planned):
    _, resources, _ = planned
    groups = {g["name"] for g in of(resources, "network_security_group")}
    denied = [
        r
        for r in of(resources, "network_security_rule")
        if r["access"] == "Deny" and r["direction"] == "Inbound"
    ]
    # The last number that is left to users: nothing of Azure's own rules is asked.
    assert {(r["priority"], r["protocol"], r["source_address_prefix"]) for r in denied} == {(4096, "*", "*")}
    assert {r["network_security_group_name"] for r in denied} == groups
    # Azure's gateways and firewalls refuse a group on their subnets.
    theirs = {"GatewaySubnet", "AzureFirewallSubnet"}
    open_ = [s for s in of(resources, "subnet") if s["name"] not in theirs]
    assert len(open_) == len(of(resources, "subnet_network_security_group_association")) == len(groups) > 0


def test_no_subnet_has_a_way_out_by_default(planned):
    _, resources, _ = planned
    subnets = of(resources, "subnet")
    assert subnets
    assert {s["default_outbound_access_enabled"] for s in subnets} == {False}


def test_public_addresses_exist_only_where_needed(planned):
    jump, resources, _ = planned
    module = lambda r: r.address.rsplit(".azurerm_", 1)[0]  # noqa: E731
    hosts = {module(h) for h in of(resources, "linux_virtual_machine")}
    # A NAT gateway leads to public addresses alone: its lab's server has one.
    wanted = {"module.jump[0]"} if jump else set()
    wanted |= {"module.server"} if of(resources, "nat_gateway") else set()
    assert {module(p) for p in of(resources, "public_ip")} & hosts == wanted
    # Azure makes none of these without one.
    theirs = {module(r) for r in of(resources, "firewall", "virtual_network_gateway", "nat_gateway")}
    assert {module(p) for p in of(resources, "public_ip")} - hosts == theirs
    for balancer in of(resources, "lb"):
        assert not any(f["public_ip_address_id"] for f in balancer["frontend_ip_configuration"])


def test_every_host_has_an_end(planned):
    _, resources, _ = planned
    hosts = of(resources, "linux_virtual_machine")
    ends = {
        e.address.rsplit(".azurerm", 1)[0]: e for e in of(resources, "dev_test_global_vm_shutdown_schedule")
    }
    assert len(hosts) >= 2
    for host in hosts:
        assert host["tags"]["fathom-expires"] == GIVEN["expires"]
        end = ends[host.address.rsplit(".azurerm", 1)[0]]
        assert (end["enabled"], end["daily_recurrence_time"], end["timezone"]) == (True, "1930", "UTC")


def test_skus_are_of_today(planned):
    _, resources, _ = planned
    assert {r["sku"] for r in of(resources, "lb", "public_ip")} <= {"Standard"}
    assert {r["allocation_method"] for r in of(resources, "public_ip")} <= {"Static"}
    assert {r["sku_tier"] for r in of(resources, "firewall")} <= {"Standard", "Premium"}
    assert all(r["sku"].endswith("AZ") for r in of(resources, "virtual_network_gateway"))


def test_password_login_is_disabled(planned):
    _, resources, _ = planned
    for host in of(resources, "linux_virtual_machine"):
        assert host["disable_password_authentication"] is True
        assert [k["public_key"] for k in host["admin_ssh_key"]] == [GIVEN["ssh_public_key"]]


def test_a_name_of_azurerm_4_is_refused(tmp_path):
    balancer = Lab("balancer", tmp_path)
    rule = balancer.cwd.parent / "modules/balancer/main.tf"
    text = rule.read_text()
    assert "tcp_reset_enabled " in text
    rule.write_text(text.replace("tcp_reset_enabled ", "enable_tcp_reset "))
    done = balancer("validate", check=False)
    assert done.returncode == 1
    assert "enable_tcp_reset" in done.stderr


@pytest.mark.parametrize("lab", [of_root("azure", "hub-and-spoke")], indirect=True)
def test_firewall_accepts_documented_rule_counts(lab, tmp_path):
    """A single `range()` of HCL ends at 1,024: it is put together of pieces, of which 1,001 rules have two.
    A plan of 10,000 takes ten seconds, so of more the pieces alone are looked at.
    """
    for number in (1, 1001):
        resources, _ = lab.plan(ways=["firewall"], zones=["1"], firewall_rules_before=number)
        (group,) = of(resources, "firewall_policy_rule_collection_group")
        rules = group["network_rule_collection"][0]["rule"]
        assert [r["name"] for r in rules] == [f"before-{n}" for n in range(number)]
        assert len({(r["source_addresses"][0], r["destination_ports"][0]) for r in rules}) == number
    pieces = re.search(
        r"^locals \{.*?^\}$", texts("azure/modules/firewall"), re.MULTILINE | re.DOTALL
    ).group()
    (tmp_path / "main.tf").write_text(f'variable "rules_before" {{ type = number }}\n{pieces}\n')
    for number in (0, 999, 1000, 2001, 10000):
        done = subprocess.run(
            [lab.tool, "console", f"-var=rules_before={number}"],
            input="jsonencode(local.rules_before)",
            cwd=tmp_path,
            env={**os.environ, **lab.env},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(json.loads(done.stdout)) == [*range(number)]
    for number in (-1, 10001, 1.5):
        (error,) = lab.refused(ways=["firewall"], zones=["1"], firewall_rules_before=number)
        assert "A whole number from 0 to 10000" in error


@pytest.mark.parametrize("lab", [of_root("azure", "hub-and-spoke")], indirect=True)
def test_the_firewalls_rules_and_features_are_variables(lab):
    resources, _ = lab.plan(
        ways=["firewall"],
        zones=["1"],
        firewall_rules_before=300,
        firewall_tier="Premium",
        firewall_intrusion_detection="Deny",
    )
    (policy,) = of(resources, "firewall_policy")
    assert policy["intrusion_detection"][0]["mode"] == "Deny"
    (group,) = of(resources, "firewall_policy_rule_collection_group")
    before, test = group["network_rule_collection"]
    assert len(before["rule"]) == len({json.dumps(r) for r in before["rule"]}) == 300
    assert before["priority"] < test["priority"]
    assert len(of(resources, "linux_virtual_machine")) == 2
    assert of(resources, "virtual_network_gateway") == []


@pytest.mark.parametrize("lab", [of_root("azure", "hub-and-spoke")], indirect=True)
@pytest.mark.parametrize("way", ["same-network", "peering", "vpn", "firewall"])
def test_a_way_can_be_had_alone(lab, way):
    told = lab.told(ways=[way], zones=["2"])
    assert [s["label"] for s in told["scenarios"]] == [f"{way}-zone-2"]
    assert {h["name"] for h in told["hosts"]} == {"client", f"{way}-zone-2"}


@pytest.mark.parametrize("lab", [of_root("azure", "placement")], indirect=True)
def test_every_factor_combination_gets_host_pair(lab):
    both = [False, True]
    resources, plan = lab.plan(
        factors={"accelerated_networking": both, "proximity_group": both, "availability_set": both}
    )
    told = plan["output_changes"]["fathometer"]["after"]
    names = ("accelerated-networking", "proximity-group", "availability-set", "mtu")
    had = [tuple(s["tags"][name] for name in names) for s in told["scenarios"]]
    words = ["false", "true"]
    assert sorted(had) == [(a, g, s, "1500") for a in words for g in words for s in words]
    # What the tags say is what the hosts have.
    fast = {r["name"]: r["accelerated_networking_enabled"] for r in of(resources, "network_interface")}
    groups = {r["name"] for r in of(resources, "proximity_placement_group")}
    sets = {r["name"] for r in of(resources, "availability_set")}
    for scenario in told["scenarios"]:
        tags, row = scenario["tags"], f"fathom-{scenario['label']}"
        assert {fast[scenario[end]] for end in ("from", "to")} == {tags["accelerated-networking"] == "true"}
        assert (row in groups, row in sets) == (
            tags["proximity-group"] == "true",
            tags["availability-set"] == "true",
        )


@pytest.mark.parametrize("lab", [of_root("azure", "placement")], indirect=True)
def test_hosts_get_their_mtu(lab):
    resources, _ = lab.plan(factors={"mtu": [1500, 4000, 9000]})
    said = {}
    for host in of(resources, "linux_virtual_machine"):
        text = host["user_data"] and base64.b64decode(host["user_data"]).decode()
        said[host["name"]] = text
    assert said == {
        f"an-on-group-off-set-off-mtu-{mtu}-{end}": None
        if mtu == 1500
        else f"#cloud-config\nruncmd: [[ip, link, set, dev, eth0, mtu, '{mtu}']]\n"
        for mtu in (1500, 4000, 9000)
        for end in ("client", "server")
    }
    (refused, *_) = lab.refused(factors={"mtu": [9001]})
    assert "Whole bytes from 1280 to 9000" in refused


@pytest.mark.parametrize("lab", [of_root("azure", "placement")], indirect=True)
def test_unknown_factor_is_refused(lab):
    """It was dropped unseen, and a lab of one row was made."""
    (refused,) = lab.refused(factors={"accelerated_networks": [False, True]})
    assert "The lab knows the factors accelerated_networking, proximity_group" in refused
    (refused,) = lab.refused(factors={"availability_set": ["sometimes"], "mtu": [1500]})
    assert "Give each factor its levels, each once" in refused
    row = {"accelerated_networking": True, "proximity_group": False, "availability_set": False}
    (refused,) = lab.refused(rows={"a": {**row, "mtus": 4000}})
    assert "may have mtu, and nothing else" in refused
    resources, _ = lab.plan(rows={"a": {**row, "mtu": 4000}, "b": row})
    names = {"a-client", "a-server", "b-client", "b-server"}
    assert {h["name"] for h in of(resources, "linux_virtual_machine")} == names


@pytest.mark.parametrize("lab", [of_root("azure", "nat")], indirect=True)
def test_only_client_subnet_uses_nat_gateway(lab):
    resources, _ = lab.plan(idle_timeout_minutes=30)
    (gateway,) = of(resources, "nat_gateway")
    assert gateway["idle_timeout_in_minutes"] == 30
    (way,) = [r for r in resources.values() if r.kind == "azurerm_subnet_nat_gateway_association"]
    assert way.address.endswith('["inside"]')
    told = lab.outputs["fathometer"]["value"]
    direct, by_nat = told["scenarios"]
    assert direct["address"] is None
    assert by_nat["address"] not in {None, *(h["address"] for h in told["hosts"])}
    # Azure says so of a user at the first host.
    refused = " ".join(lab.refused(idle_timeout_minutes=3, user="root"))
    assert "Whole minutes from 4 to 120" in refused
    assert "Azure takes no user of that name" in refused
