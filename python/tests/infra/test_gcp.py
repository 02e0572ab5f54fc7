"""The labs of Google Cloud: what they would make, and who could reach it."""

import os
import subprocess
from ipaddress import ip_network

import pytest

from support.programs import ROOT
from support.terraform import GIVEN, lab_of, of_root, roots

PRIVATE = ip_network("10.0.0.0/8")
# Google's own, whence it asks whether what is behind a balancer answers.
HEALTH = {"35.191.0.0/16", "130.211.0.0/22"}
END = ROOT / "infra/gcp/modules/host/end.sh"


@pytest.fixture(scope="module", params=[of_root("gcp", root) for root in roots("gcp")])
def lab(request):
    return lab_of("gcp", request.param)


@pytest.fixture(scope="module", params=[False, True], ids=["private", "jump"])
def planned(request, lab):
    resources, _ = lab.planned(public_jump=request.param)
    return request.param, resources


def of(resources, *kinds):
    return [r for r in resources.values() if r.kind in {f"google_compute_{kind}" for kind in kinds}]


@pytest.mark.acceptance
def test_nothing_is_open_to_the_world(planned):
    jump, resources = planned
    ports = set()
    for rule in of(resources, "firewall"):
        assert rule["direction"] == "INGRESS"
        (allow,) = rule["allow"]
        (port,) = allow["ports"]
        ports.add((allow["protocol"], port))
        (target,) = rule["target_tags"]
        for source in rule["source_ranges"]:
            if source == GIVEN["ssh_from"]:
                # Only the jump host is let in from there, where there is one.
                assert (port, target) == ("22", "jump" if jump else "hosts"), rule.address
            elif source in HEALTH:
                assert (allow["protocol"], port) == ("tcp", "7007")
                assert of(resources, "forwarding_rule")
            else:
                assert ip_network(source).subnet_of(PRIVATE), rule.address
    assert ports == {("tcp", "22"), ("tcp", "7007"), ("udp", "7007")}


@pytest.mark.acceptance
def test_only_requested_jump_host_reaches_internet(planned):
    jump, resources = planned
    addresses = ["module.jump[0].google_compute_address.this[0]"] if jump else []
    assert [a.address for a in of(resources, "address")] == addresses
    public = [h.address for h in of(resources, "instance") if h["network_interface"][0]["access_config"]]
    assert public == (["module.jump[0].google_compute_instance.this"] if jump else [])
    assert {n["delete_default_routes_on_create"] for n in of(resources, "network")} == {True}
    assert {n["auto_create_subnetworks"] for n in of(resources, "network")} == {False}
    assert {s["private_ip_google_access"] for s in of(resources, "subnetwork")} == {False}
    assert [r["tags"] for r in of(resources, "route")] == ([["jump"]] if jump else [])
    tags = {h.address.startswith("module.jump"): h["tags"] for h in of(resources, "instance")}
    assert tags == ({True: ["jump"], False: ["hosts"]} if jump else {False: ["hosts"]})
    assert {f["load_balancing_scheme"] for f in of(resources, "forwarding_rule")} <= {"INTERNAL"}


@pytest.mark.acceptance
def test_every_host_has_an_end(planned):
    _, resources = planned
    hosts = of(resources, "instance")
    assert len(hosts) >= 2
    for host in hosts:
        (scheduling,) = host["scheduling"]
        assert scheduling["instance_termination_action"] == "STOP"
        assert scheduling["max_run_duration"][0]["seconds"] == 24 * 60 * 60
        assert scheduling["automatic_restart"] is False
        assert host["metadata"]["fathom-expires"] == GIVEN["expires"]
        assert host["metadata"]["startup-script"] == END.read_text()


@pytest.mark.acceptance
def test_hosts_are_current_types_with_key_login(planned):
    _, resources = planned
    for host in of(resources, "instance"):
        jump = host.address.startswith("module.jump")
        assert host["machine_type"] == ("e2-micro" if jump else "n2-standard-2")
        assert host["network_interface"][0]["nic_type"] == "GVNIC"
        metadata = host["metadata"]
        assert metadata["ssh-keys"] == f"fathom:{GIVEN['ssh_public_key']}"
        assert (metadata["block-project-ssh-keys"], metadata["enable-oslogin"]) == ("true", "FALSE")
        # Nobody on a host can ask Google for anything in the project's name.
        assert not host["service_account"]


@pytest.mark.acceptance
@pytest.mark.parametrize("lab", [of_root("gcp", "zones")], indirect=True)
def test_a_networks_mtu_is_a_variable(lab):
    resources, _ = lab.plan(mtu=8896)
    assert [n["mtu"] for n in of(resources, "network")] == [8896]
    (refused,) = lab.refused(mtu=9000)
    assert "Whole bytes from 1300 to 8896" in refused


@pytest.mark.parametrize(
    ("answers", "asks"),
    [
        # It has come.
        (["2020-01-01T00:00:00Z"], 1),
        # It is awaited, put off while it is, awaited again, and has come.
        (
            [
                "2099-01-01T00:00:00Z",
                "2099-01-02T00:00:00Z",
                "2099-01-02T00:00:00Z",
                "x",
                "2020-01-01T00:00:00Z",
            ],
            5,
        ),
        # The service does not answer, and then it does.
        (["", "2020-01-01T00:00:00Z"], 2),
    ],
)
def test_a_host_switches_itself_off_at_its_end(tmp_path, answers, asks):
    answer = 'a=$(sed -n "$(wc -l < asked)p" answers); [ -n "$a" ] && echo "$a"'
    programs = {
        "curl": f'echo "$@" >> asked; {answer}',
        "systemctl": 'echo "$@" >> done',
        "sleep": ":",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "answers").write_text("\n".join(answers) + "\n")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", END], cwd=tmp_path, env=env, check=False, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "done").read_text() == "poweroff\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == asks
    assert all("Metadata-Flavor: Google" in line and "169.254.169.254" in line for line in asked)
