"""The labs of `infra/azure`, by the real Terraform against the stand-in provider: what they would make, and
who could reach it. Of a real cloud this says nothing; docs/cloud.md says what it cannot see.
"""

import json
from ipaddress import ip_network

import pytest
from typer.testing import CliRunner

from fathometer.study.command import study_app
from fathometer.study.read import read_study
from support.programs import ROOT
from support.terraform import AZURE, GIVEN, ROOTS, STAND_IN, Lab, program, run

PRIVATE = ip_network("10.0.0.0/8")
JUMPS = [False, True]


@pytest.fixture(scope="module", params=ROOTS)
def lab(request, tmp_path_factory):
    return Lab(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=JUMPS, ids=["private", "jump"])
def planned(request, lab):
    resources, plan = lab.plan(public_jump=request.param)
    return request.param, resources, plan


def of(resources, *kinds):
    return [r for r in resources.values() if r.kind in {f"azurerm_{kind}" for kind in kinds}]


def test_files_are_formatted():
    done = run(program(), "fmt", "-check", "-recursive", "-diff", AZURE, cwd=AZURE, check=False)
    assert done.returncode == 0, done.stdout


def test_a_root_is_valid(lab):
    lab("validate")


def test_a_roots_own_tests_pass_and_make_nothing(lab):
    text = (lab.cwd / "tests/lab.tftest.hcl").read_text()
    # Who runs them with a real provider pays for nothing.
    assert text.count("command = plan") == text.count('run "') > 0
    told = lab("test").stdout
    assert f"Success! {text.count('run ')} passed, 0 failed." in told


def test_every_root_pins_the_provider_to_one_release_line(planned):
    _, _, plan = planned
    # As it writes `~> 5`: any 5, and no 6.
    assert plan["configuration"]["provider_config"]["azurerm"]["version_constraint"] == "~> 5.0"


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


def test_every_subnet_with_hosts_is_guarded_and_lets_nothing_else_in(planned):
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


def test_only_the_jump_host_has_a_public_address_and_only_if_asked(planned):
    jump, resources, _ = planned
    hosts = [
        p
        for p in of(resources, "public_ip")
        if p.address.startswith(("module.jump", "module.host", "module.client", "module.server"))
    ]
    # A NAT gateway leads to public addresses alone: its lab's server has one.
    to_nat = ["module.server.azurerm_public_ip.this[0]"] if of(resources, "nat_gateway") else []
    assert [p.address for p in hosts] == [
        *(["module.jump[0].azurerm_public_ip.this[0]"] if jump else []),
        *to_nat,
    ]
    others = {p.address.split(".azurerm")[0] for p in of(resources, "public_ip")} - {"module.jump[0]"}
    # Azure makes none of these without one.
    theirs = {"module.vpn_gateway[0]", "module.firewall[0]", "module.nat"}
    assert others - {p.split(".azurerm")[0] for p in to_nat} <= theirs
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


def test_whatever_costs_bears_the_labs_tag_and_its_end(planned):
    _, resources, _ = planned
    bears = [r for r in resources.values() if "tags" in r.after]
    assert len(bears) > 5
    for resource in bears:
        assert resource["tags"]["fathom-expires"] == GIVEN["expires"], resource.address
        assert resource["tags"]["fathom-lab"].startswith("fathom-"), resource.address


def test_skus_are_of_today(planned):
    _, resources, _ = planned
    assert {r["sku"] for r in of(resources, "lb", "public_ip")} <= {"Standard"}
    assert {r["allocation_method"] for r in of(resources, "public_ip")} <= {"Static"}
    assert {r["sku_tier"] for r in of(resources, "firewall")} <= {"Standard", "Premium"}
    assert all(r["sku"].endswith("AZ") for r in of(resources, "virtual_network_gateway"))


def test_nobody_logs_in_by_a_password_and_no_secret_is_kept(planned):
    _, resources, plan = planned
    for host in of(resources, "linux_virtual_machine"):
        assert host["disable_password_authentication"] is True
        assert [k["public_key"] for k in host["admin_ssh_key"]] == [GIVEN["ssh_public_key"]]
    for change in plan["resource_changes"]:
        secret = {name for name, is_ in (change["change"]["after_sensitive"] or {}).items() if is_ is True}
        assert not {n for n in secret if change["change"]["after"].get(n)}, change["address"]


def test_made_then_a_study_then_nothing_is_left(lab, tmp_path):
    outputs = lab.up(public_jump=True)
    # The same again changes nothing.
    again = lab("plan", "-detailed-exitcode", "-input=false", *lab.given(public_jump=True), check=False)
    assert again.returncode == 0, again.stdout
    study = tmp_path / "lab.toml"
    done = CliRunner().invoke(study_app, ["from-outputs", "-", "-o", str(study)], input=json.dumps(outputs))
    assert done.exit_code == 0, done.output
    made = read_study(study)
    told = outputs["fathometer"]["value"]
    assert [h.name for h in made.host] == [h["name"] for h in told["hosts"]]
    assert [s.label for s in made.scenario] == [s["label"] for s in told["scenarios"]]
    assert {h.ssh.jump for h in made.host} == {f"azureuser@{told['jump']['address']}"}
    # A host that no path uses would cost for nothing.
    assert {name for s in made.scenario for name in (s.source, s.to)} == {h.name for h in made.host}
    assert lab.down(public_jump=True) == []


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("ssh_from", "0.0.0.0/0", "Give a network of IPv4"),
        ("ssh_from", "128.0.0.0/1", "Give a network of IPv4"),
        ("ssh_from", "198.51.100.7", "Give a network of IPv4"),
        ("expires", "tomorrow", "Write it in UTC"),
        ("expires", "2030-01-02T19:30:00+05:00", "Write it in UTC"),
        ("ssh_public_key", "-----BEGIN OPENSSH PRIVATE KEY-----", "text of a public key"),
        ("name", "Fathom", "lower-case letters"),
        ("zones", [], "Name one zone or more"),
        ("zones", ["1", "1"], "Name one zone or more"),
    ],
)
def test_what_opens_too_much_or_cannot_be_is_refused(tmp_path, variable, value, says):
    zones = Lab("zones", tmp_path)
    done = zones("plan", "-input=false", *zones.given(**{variable: value}), check=False)
    assert done.returncode == 1
    assert says in " ".join(done.stderr.split())


def test_ssh_has_no_default(tmp_path):
    zones = Lab("zones", tmp_path)
    done = zones("plan", "-input=false", f"-var=expires={GIVEN['expires']}", check=False)
    assert 'variable "ssh_from" is not set' in done.stderr
    assert 'variable "ssh_public_key" is not set' in done.stderr


def test_an_expired_lab_can_be_removed(tmp_path):
    zones = Lab("zones", tmp_path)
    zones.up(expires="2020-01-01T00:00:00Z")
    assert zones.down(expires="2020-01-01T00:00:00Z") == []


def test_a_name_of_azurerm_4_is_refused(tmp_path):
    balancer = Lab("balancer", tmp_path)
    rule = balancer.cwd.parent / "modules/balancer/main.tf"
    text = rule.read_text()
    assert "tcp_reset_enabled " in text
    rule.write_text(text.replace("tcp_reset_enabled ", "enable_tcp_reset "))
    done = balancer("validate", check=False)
    assert done.returncode == 1
    assert "enable_tcp_reset" in done.stderr


def test_the_firewalls_rules_and_features_are_variables(tmp_path):
    hub = Lab("hub-and-spoke", tmp_path)
    resources, _ = hub.plan(
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


@pytest.mark.parametrize("way", ["same-network", "peering", "vpn", "firewall"])
def test_a_way_can_be_had_alone(tmp_path, way):
    told = Lab("hub-and-spoke", tmp_path).up(ways=[way], zones=["2"])["fathometer"]["value"]
    assert [s["label"] for s in told["scenarios"]] == [f"{way}-zone-2"]
    assert {h["name"] for h in told["hosts"]} == {"client", f"{way}-zone-2"}


def test_zones_are_compared_each_with_each_and_the_far_host_can_be_left_out(tmp_path):
    zones = Lab("zones", tmp_path)
    told = zones.up(other_region="", zones=["3", "1", "2"])["fathometer"]["value"]
    labels = [s["label"] for s in told["scenarios"]]
    assert labels == ["same-host", "same-zone", "cross-zone-3-1", "cross-zone-3-2", "cross-zone-1-2"]
    assert {h["name"] for h in told["hosts"]} == {"client", "server-zone-1", "server-zone-2", "server-zone-3"}


def test_only_the_subnet_of_the_client_goes_out_by_the_nat_gateway(tmp_path):
    nat = Lab("nat", tmp_path)
    resources, _ = nat.plan(idle_timeout_minutes=30)
    (gateway,) = of(resources, "nat_gateway")
    assert gateway["idle_timeout_in_minutes"] == 30
    (way,) = [r for r in resources.values() if r.kind == "azurerm_subnet_nat_gateway_association"]
    assert way.address.endswith('["inside"]')
    told = nat.up()["fathometer"]["value"]
    direct, by_nat = told["scenarios"]
    assert direct["address"] is None
    assert by_nat["address"] not in {None, *(h["address"] for h in told["hosts"])}
    refused = nat("plan", "-input=false", *nat.given(idle_timeout_minutes=3), check=False)
    assert "Whole minutes from 4 to 120" in " ".join(refused.stderr.split())


def test_schemas_are_of_what_the_labs_use():
    schemas = json.loads((STAND_IN / "schemas.json").read_text())
    texts = "".join(p.read_text() for p in AZURE.rglob("*.tf"))
    assert sorted(schemas["resource_schemas"]) == sorted(
        {line.split('"')[1] for line in texts.splitlines() if line.startswith('resource "')}
    )
    assert schemas["module"].startswith("github.com/hashicorp/terraform-provider-azurerm@v")


def test_every_root_stands_in_the_docs():
    text = (ROOT / "docs/cloud.md").read_text()
    assert [root for root in ROOTS if f"`{root}`" not in text] == []
