"""What `fathom cloud` is made of, without any tool."""

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathometer.cloud.diagnostics import errors, variables
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import copy, find, roots
from fathometer.cloud.make import (
    _is_approved,
    _must_end_later,
    _must_have_room,
    _must_have_time_left,
    know_hosts,
)
from fathometer.cloud.measure import run
from fathometer.cloud.planned import ENDS, HOSTS, Plan, Resource, read_plan, read_state
from fathometer.cloud.prices import Price, estimate, hourly
from fathometer.cloud.remove import down
from fathometer.cloud.settings import Given, Proposal, end_of
from fathometer.cloud.tool import Tool, not_passed_on
from fathometer.cloud.withheld import secrets_of
from fathometer.cloud.work import Work, remaining
from fathometer.errors import FathometerError
from fathometer.study.lock import locked
from fathometer.study.model import SshHost
from fathometer.study.outputs import read_lab
from fathometer.study.ssh.connection import options
from support.programs import ROOT, tool

INFRA = ROOT / "infra"
LAB = {
    "format": 1,
    "lab": "own",
    "jump": None,
    "hosts": [{"name": name, "address": f"10.0.0.{n}", "user": "u"} for n, name in enumerate("ab", 1)],
    "scenarios": [{"label": "path", "from": "a", "to": "b", "tags": {}}],
}


def test_every_repository_lab_is_packaged():
    """A new cloud wants a link: ln -s ../../../../../infra/CLOUD python/src/fathometer/cloud/infra/CLOUD"""
    there = {f"{p.parts[-3]}-{p.parts[-2]}" for p in INFRA.glob("*/*/main.tf") if p.parts[-3] != "modules"}
    assert {root.name for root in roots(None)} == there
    assert {"azure-zones", "aws-zones", "gcp-zones"} <= there
    assert all(root.question.endswith("?") for root in roots(None))


def test_lab_is_found_by_name_in_infra_directory(tmp_path):
    (tmp_path / "own/pair").mkdir(parents=True)
    (tmp_path / "own/modules/host").mkdir(parents=True)
    (tmp_path / "own/modules/host/main.tf").write_text("")
    (tmp_path / "own/pair/main.tf").write_text(
        'variable "region" {}\nvariable "zones" {\n}\n# variable "no" {}\n'
    )
    root = find(tmp_path, "own-pair")
    assert (root.cloud, root.variables, root.question) == ("own", {"region", "zones"}, "")
    with pytest.raises(FathometerError, match="use one of: own-pair"):
        find(tmp_path, "azure-zones")
    with pytest.raises(FathometerError, match="--infra"):
        roots(tmp_path / "own")


def test_copied_lab_is_writable_without_state(tmp_path):
    root = find(None, "azure-zones")
    copy(root, tmp_path / "azure")
    assert (tmp_path / "azure/zones/common.tf").read_text() == (INFRA / "azure/common.tf").read_text()
    assert not (tmp_path / "azure/zones/common.tf").is_symlink()
    for name in ("terraform.tfstate", "terraform.tfvars", ".terraform.lock.hcl"):
        (tmp_path / "azure/zones" / name).write_text("")
    copy(find(tmp_path, "azure-zones"), tmp_path / "again")
    assert not [p for p in (tmp_path / "again").rglob("*") if "tfstate" in p.name or "tfvars" in p.name]
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "again").rglob("*.tf")} == {0o600}


def test_every_lab_resource_has_known_price():
    texts = [p.read_text() for p in INFRA.glob("*/**/*.tf")]
    kinds = {
        line.split('"')[1] for text in texts for line in text.splitlines() if line.startswith("resource ")
    }
    sizes = {
        "aws_instance": {"instance_type": "m7i.large"},
        "azurerm_linux_virtual_machine": {"size": "Standard_D2s_v5"},
        "azurerm_firewall": {"sku_tier": "Standard"},
        "google_compute_instance": {"machine_type": "n2-standard-2"},
    }
    assert len(kinds) > 20
    assert estimate(Resource(k, k, sizes.get(k, {})) for k in sorted(kinds)).unknown == ()


def test_estimate_date_is_oldest_price_date():
    new, old = Resource("a", "aws_eip", {}), Resource("b", "aws_lb", {})
    dates = [estimate(things).date for things in ([new], [old], [new, old], [])]
    assert dates == ["2026-11-25", "2026-11-23", "2026-11-23", "2026-11-23"]


def test_what_has_no_price_is_named():
    host = Resource("a", "azurerm_linux_virtual_machine", {"size": "Standard_M128"})
    found = estimate([host, host, Resource("b", "azurerm_lb", {}), Resource("c", "own_thing", {})])
    assert found.unknown == ("azurerm_linux_virtual_machine Standard_M128", "own_thing")
    # The sum of what is known is no price of all: it stood first, and its gap behind it (a stranger).
    assert str(found) == (
        "at least 0.03 $ an hour, without 3 things whose price is not known here:"
        " azurerm_linux_virtual_machine Standard_M128, own_thing (estimate, list prices of 2026-11-23)"
    )


def test_tf_var_environment_does_not_reach_tool(tmp_path, monkeypatch):
    """It would make a public address that the journal does not know, and another shell would remove it."""
    place = LabPlace(tmp_path)
    place.note("cloud.begun", cloud="azure", root="nat", id="1", tool="tofu", lab="azure-nat")
    place.root.mkdir(parents=True)
    monkeypatch.setenv("TF_VAR_public_jump", "true\n")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "/mirror")
    passed = Tool(place, str, "env").output("-0").decode().split("\0")
    assert "TF_CLI_CONFIG_FILE=/mirror" in passed
    assert not [one for one in passed if one.startswith("TF_VAR_")]
    assert not_passed_on() == ["TF_VAR_public_jump"]


def test_a_range_of_prices():
    assert hourly(0.19, 0.5) == "0.19 to 0.50 $ an hour"
    assert hourly(0.551, 0.549) == "0.55 $ an hour"


def change(address, *actions, mode="managed"):
    return {
        "address": address,
        "mode": mode,
        "type": "t",
        "change": {"actions": list(actions), "after": {"tags": {"fathom-lab": "x-zones"}}},
    }


def test_a_plan_is_read():
    changes = [change("new", "create"), change("kept", "no-op"), change("other", "update")]
    changes += [
        change("gone", "delete"),
        change("anew", "delete", "create"),
        change("data", "read", mode="data"),
    ]
    plan = read_plan({"resource_changes": changes})
    assert [r.address for r in plan.made] == ["new", "anew"]
    assert [r.address for r in plan.changed] == ["other"]
    assert [r.address for r in plan.removed] == ["gone", "anew"]
    assert [r.address for r in plan.after] == ["new", "kept", "other", "anew"]
    assert plan.tag == "x-zones"
    assert not plan.is_within(["new", "anew"])
    crashed = read_plan({"resource_changes": [change("new", "create"), change("kept", "no-op")]})
    assert crashed.is_within(["new", "kept"])
    assert not crashed.is_within(["kept"])
    assert read_plan({}).is_empty


def test_a_state_is_read_with_its_modules():
    deep = {"resources": [{"address": "m.n.b", "mode": "managed", "type": "t"}]}
    module = {
        "resources": [
            {"address": "a", "mode": "managed", "type": "t"},
            {"address": "d", "mode": "data", "type": "t"},
        ],
        "child_modules": [{"child_modules": [deep]}],
    }
    assert [r.address for r in read_state({"values": {"root_module": module}})] == ["a", "m.n.b"]
    assert read_state({}) == ()


def test_secrets_are_named_by_their_variables():
    names = {
        "ARM_CLIENT_SECRET": 's3"cret',
        "AWS_SECRET_ACCESS_KEY": "longer-s3cret",
        "HOME": "/home/somebody",
    }
    found = dict(secrets_of({**names, "SHORT_TOKEN": "ab"}))
    assert found == {
        's3"cret': "ARM_CLIENT_SECRET",
        "longer-s3cret": "AWS_SECRET_ACCESS_KEY",
    }
    assert next(name for _, name in secrets_of(names)) == "AWS_SECRET_ACCESS_KEY"


def test_secrets_are_found_in_any_case_and_proxies():
    assert secrets_of({"TF_VAR_admin_password": "longer-s3cret"}) == [
        ("longer-s3cret", "TF_VAR_admin_password")
    ]
    found = dict(secrets_of({"https_proxy": "http://somebody:p%40ssword@proxy:3128"}))
    assert set(found) == {"somebody:p%40ssword", "somebody:p@ssword", "p%40ssword", "p@ssword"}
    assert set(found.values()) == {"https_proxy"}
    assert secrets_of({"HTTP_PROXY": "u:p@proxy:3128"}) == [("u:p@", "HTTP_PROXY")]
    assert secrets_of({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8,.lan"}) == []


def test_approval_covers_remaining_plan_without_price_increase(tmp_path):
    place = LabPlace(tmp_path)
    plan = read_plan({"resource_changes": [change("new", "create")]})
    price = lambda high, *unknown: Price(0.1, high, "2026-11-23", unknown)  # noqa: E731
    assert not _is_approved(place, plan, price(0.5))
    place.note("approved", addresses=["new", "kept"], tag="x", low=0.1, high=0.5, unknown=["own_thing"])
    for kind in ("apply.started", "apply.failed"):
        place.note(kind)
        assert _is_approved(place, plan, price(0.1 + 0.2 + 0.2, "own_thing"))
    assert not _is_approved(place, plan, price(5.0))
    # What has no price adds nothing to it.
    assert not _is_approved(place, plan, price(0.1, "azurerm_linux_virtual_machine Standard_M128"))
    assert not _is_approved(place, read_plan({"resource_changes": [change("more", "create")]}), price(0.5))
    place.note("apply.done")
    assert not _is_approved(LabPlace(tmp_path), plan, price(0.5))


def test_expired_lab_is_not_resumed(tmp_path):
    """On AWS a schedule in the past ends nobody, and whoever is made then runs on."""
    work = Work(LabPlace(tmp_path), "own-lab", yes=True)
    work.place.note("settings", expires="2020-01-01T00:00:00Z")
    before, at = (datetime(2019, 12, 31, 23, 59, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC))
    # What was agreed to, and not begun, ends nobody.
    _must_have_time_left(work, Given(), at)
    work.place.note("apply.started")
    _must_have_time_left(work, Given(), before)
    _must_have_time_left(work, Given(hours="4h"), at)
    with pytest.raises(FathometerError, match=r"ended at 2020-01-01 00:00 UTC; `fathom cloud down own-lab"):
        _must_have_time_left(work, Given(), at)


@pytest.mark.parametrize(("minutes", "refused"), [(9, True), (10, False)])
@pytest.mark.parametrize("kind", ["azurerm_linux_virtual_machine", *sorted(ENDS)])
def test_host_needs_ten_minutes_before_expiry(tmp_path, minutes, refused, kind):
    """A lab for a second was made, and its hosts ran until its time of day came again. So does a host whose
    end is set to a time that has passed.
    """
    work = Work(LabPlace(tmp_path), "azure-zones", yes=True)
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    ends = now + timedelta(minutes=minutes)
    proposal = Proposal({"expires": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}, None, None)
    one, network = Resource("a", kind, {}), Resource("b", "azurerm_subnet", {})
    _must_end_later(work, Plan((network,), (network,), (one,), (network,)), proposal, now)
    for plan in (Plan((one,), (), (), (one,)), Plan((), (one,), (), (one,))):
        if refused:
            with pytest.raises(FathometerError, match=r"may not be done by then.*with --for 4h"):
                _must_end_later(work, plan, proposal, now)
        else:
            _must_end_later(work, plan, proposal, now)


def test_every_expiry_resource_kind_is_known():
    for file in INFRA.glob("*/modules/host/main.tf"):
        blocks = re.findall(r'^resource "(\w+)" (.*?)^}', file.read_text(), re.DOTALL | re.MULTILINE)
        kinds = {kind for kind, text in blocks if "var.host.expires" in text}
        assert kinds, file
        assert kinds <= HOSTS | ENDS


def test_replacement_tool_must_read_existing_state(tmp_path):
    """OpenTofu made plans with a state of Terraform's, and ended at showing it."""
    programs = {}
    for name in ("OpenTofu", "Terraform"):
        programs[name] = tmp_path / name
        programs[name].write_text(
            f'#!/bin/sh\n[ $# = 1 ] && echo {name} v1.12.6 || echo \'{{"terraform_version": "1.12.6"}}\'\n'
        )
        programs[name].chmod(0o755)
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.note("cloud.begun", cloud="azure", root="zones", id="1", lab="azure-zones", tool="/gone/terraform")
    place.root.mkdir(parents=True)
    provider = 'provider[\\"registry.terraform.io/hashicorp/azurerm\\"]'
    place.state_file.write_text(f'{{"resources": [{{"provider": "{provider}"}}]}}')

    def named(name):
        work = Work(LabPlace(place.directory), "azure-zones", yes=True, tool=programs[name])
        with work.held():
            return LabPlace(place.directory).program

    with pytest.raises(
        FathometerError, match=r"is OpenTofu, which does not show a state of Terraform's; name a Ter"
    ):
        named("OpenTofu")
    assert LabPlace(place.directory).program == "/gone/terraform"
    assert named("Terraform") == str(programs["Terraform"])
    place.state_file.write_text(place.state_file.read_text().replace("terraform.io", "opentofu.org"))
    assert named("OpenTofu") == str(programs["OpenTofu"])


def test_low_disk_space_prevents_making_lab(tmp_path, monkeypatch):
    """The tool writes its state in place: on a full disk it was torn, and so was what it set aside."""
    _must_have_room(LabPlace(tmp_path))
    monkeypatch.setattr("fathometer.cloud.make.shutil.disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(FathometerError, match=r"has room for 5 MiB.*make room for 32 MiB"):
        _must_have_room(LabPlace(tmp_path))


def test_voided_host_keys_are_fetched_again(tmp_path, monkeypatch):
    """At the same addresses: `--var size=...` replaces hosts, and `run` then found other keys than known."""
    lab = read_lab(json.dumps(LAB).encode(), "a lab")
    work = Work(LabPlace(tmp_path), "own-lab", yes=True)
    fetched = []

    def fetch(_lab, _key, into, _say):
        fetched.append(into)
        into.touch()

    monkeypatch.setattr("fathometer.cloud.keys.fetch", fetch)
    for expected in (1, 1):
        know_hosts(work, lab)
        assert len(fetched) == expected
    work.place.note("keys.void")
    know_hosts(Work(LabPlace(tmp_path), "own-lab", yes=True), lab)
    assert len(fetched) == 2


@pytest.mark.parametrize("where", [".", "recordings", "..", "../link/recordings"])
def test_recordings_are_not_put_where_down_removes_them(tmp_path, where):
    place = LabPlace(tmp_path / "state/lab")
    place.make()
    place.note("apply.done")
    (tmp_path / "state/link").symlink_to("lab")
    work = Work(place, "own-lab", yes=True)
    with pytest.raises(FathometerError, match=r"would be lost.*--output DIR"):
        run(work, place.directory / where, None, None, (), quick=False, report=False)
    assert not place.overlaps(tmp_path / "recordings")
    assert not place.overlaps(tmp_path / "state/lab-2")


def test_unfinished_removal_respects_lock_and_foreign_files(tmp_path):
    gone = tmp_path / ".lab.removed"
    gone.mkdir()
    work = Work(LabPlace(tmp_path / "lab"), "own-lab", yes=True)
    work.place.make()
    with locked(work.place.directory), pytest.raises(FathometerError, match="is being run already"):
        down(work, by_state=False)
    thesis = work.place.directory / "thesis.txt"
    thesis.touch()
    with pytest.raises(FathometerError, match=r"holds thesis\.txt"):
        down(work, by_state=False)
    assert gone.is_dir()
    thesis.unlink()
    down(work, by_state=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("summary", "code", "names"),
    [
        ("Invalid value for variable", ' "ssh_from": "0.0.0.0/0",', ["ssh_from"]),
        ("Invalid value for input variable", ' "zones": [\n  "1"\n ],', ["zones"]),
        # Another that the lab's own default made wrong, and one that nobody gave.
        ("Invalid value for variable", 'variable "size" {', ["size"]),
        ("No value for required variable", 'variable "project" {', ["project"]),
        ("Invalid function argument", '    name = "a"', []),
        ("Invalid value for variable", None, []),
    ],
)
def test_the_variable_that_a_tool_refuses_is_known(summary, code, names):
    """As Terraform 1.11 writes it; its words name the rule and not the variable."""
    said = {"severity": "error", "summary": summary, "detail": "Name one.", "snippet": {"code": code}}
    assert variables({"type": "diagnostic", "diagnostic": said}) == names
    assert variables({"type": "diagnostic", "diagnostic": {**said, "snippet": None}}) == []
    assert variables({"type": "diagnostic", "diagnostic": {**said, "severity": "warning"}}) == []


@pytest.mark.parametrize(
    ("summary", "detail", "words"),
    [
        # As Terraform 1.11 writes them.
        (
            "Invalid value for variable",
            "Name one zone or more.\n\nThis was checked by the validation rule at main.tf:30,3-13.",
            "zones: Name one zone or more",
        ),
        (
            "Invalid value for input variable",
            "The given value is not suitable for var.zones declared at main.tf:25,1-17: list required.",
            "zones: list required",
        ),
        (
            "No value for required variable",
            'The root module input variable "zones" is not set, and has no default value. Use a -var',
            "zones: it has no value, and no usual one",
        ),
        ("Invalid function argument", "It is null.", "Invalid function argument: It is null."),
    ],
)
def test_tool_errors_become_short_variable_messages(summary, detail, words):
    said = {"severity": "error", "summary": summary, "detail": detail, "snippet": {"code": '"zones": 1'}}
    assert errors({"type": "diagnostic", "diagnostic": said}) == [words]


def test_a_value_is_set_as_it_was_given():
    assert Given().option_of("ssh_from") == "--from CIDR"
    assert Given().option_of("public_jump") == "--public-jump"
    assert Given({"ssh_from": "x"}).option_of("ssh_from") == "--var ssh_from=VALUE"
    assert Given().option_of("size") == "--var size=VALUE"


def test_how_long_a_lab_is_for(tmp_path):
    now = datetime(2026, 11, 23, 12, 0, 30, tzinfo=UTC)
    assert end_of("90m", now) == "2026-11-23T13:30:30Z"
    assert (end_of("30m", now), end_of("24h", now)) == ("2026-11-23T12:30:30Z", "2026-11-24T12:00:30Z")
    for wrong in ("1s", "29m", "24h 1s", "0s", "soon"):
        with pytest.raises(
            FathometerError, match="of at least 30m, as making takes minutes, and at most 24h"
        ):
            end_of(wrong, now)
    place = LabPlace(tmp_path)
    assert remaining(place, now) is None
    place.entries.append({"kind": "settings", "expires": end_of("90m", now)})
    assert remaining(place, now) is None
    place.entries.append({"kind": "apply.started"})
    place.entries.append({"kind": "settings", "expires": end_of("9h", now)})
    # What switches hosts off is made after them: a making that failed may have left it out (a stranger).
    for kind in ("apply.failed", "apply.done"):
        said = remaining(place, now)
        assert said.startswith("its hosts were to end at 2026-11-23 13:30 UTC, but not all was made in order")
        assert "when they end, if ever, is not known" in said
        place.entries.append({"kind": kind})
    assert remaining(place, now).startswith("its hosts end at 2026-11-23 13:30 UTC, in 1h 30m; whatever else")
    later = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert remaining(place, later).startswith("its hosts were ended at 2026-11-23 13:30 UTC; whatever else")


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_directory_that_others_look_into_is_refused(tmp_path, mode):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab").chmod(mode)
    with pytest.raises(FathometerError, match="its owner alone"):
        LabPlace(tmp_path / "lab").make()


def test_a_directory_that_holds_something_else_is_refused(tmp_path):
    place = LabPlace(tmp_path / "lab")
    place.make()
    (tmp_path / "lab/thesis.txt").write_text("")
    with pytest.raises(FathometerError, match="it holds something else"):
        place.begin(find(None, "azure-zones"), "/usr/bin/tofu")
    assert json.dumps([p.name for p in (tmp_path / "lab").iterdir()]) == '["thesis.txt"]'


@pytest.mark.parametrize("name", ["plain", "a b", "50%h"])
def test_ssh_gets_exact_known_hosts_path(tmp_path, name):
    file = tmp_path / name
    argv = options(SshHost.model_validate({"address": "h", "known-hosts": str(file)}), Path("/tmp/socket"))
    # An explicit -F: nobody's own configuration has a say.
    said = subprocess.run(
        [tool("ssh"), *argv[1:], "-F", "none", "-G", "h"], capture_output=True, text=True, check=True
    )
    line = next(line for line in said.stdout.splitlines() if line.startswith("userknownhostsfile "))
    assert line.removeprefix("userknownhostsfile ").strip('"').replace("%%", "%") == str(file)
