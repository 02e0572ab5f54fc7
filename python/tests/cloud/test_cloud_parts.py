"""The parts of `fathom cloud` that need no tool: labs, plans, prices, settings, the journal, the look-up."""

import json
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fathometer.cloud import left, sshkeys
from fathometer.cloud.journal import LabDirectory, Record
from fathometer.cloud.labs import copy, find, roots
from fathometer.cloud.left import Found, Where, commands_for, look, place_of
from fathometer.cloud.planned import Price, Resource, estimate, hourly, read_plan, read_state, table
from fathometer.cloud.settings import Given, proposed
from fathometer.cloud.tool import advice, environment_for, errors_in, plain_errors, secrets_of, without
from fathometer.cloud.work import summary
from fathometer.errors import ExitCode, FathometerError
from fathometer.study.outputs import read_lab
from support.lab_of_namespaces import stand_in_for_ssh
from support.programs import ROOT, make_key

INFRA = ROOT / "infra"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
KNOWN = frozenset({"ssh_from", "public_jump", "expires", "zones", "size", "account"})
PLANNED = Record("planned", "aws-zones", "aws", "zones", None, "/bin/tofu", Where("aws"))
LAB = {
    "format": 1,
    "lab": "own",
    "jump": {"address": "192.0.2.1", "user": "u"},
    "hosts": [{"name": "a", "address": "10.0.0.1", "user": "u"}],
    "scenarios": [{"label": "path", "from": "a", "to": "a"}],
}


def test_every_repository_lab_is_packaged():
    """A new cloud needs a link: ln -s ../../../../../infra/CLOUD python/src/fathometer/cloud/infra/CLOUD"""
    there = {f"{p.parts[-3]}-{p.parts[-2]}" for p in INFRA.glob("*/*/main.tf") if p.parts[-3] != "modules"}
    assert {root.name for root in roots(None)} == there
    assert {"azure-zones", "aws-zones", "gcp-zones"} <= there
    assert all(root.question.endswith("?") for root in roots(None))


def test_own_lab_is_found_in_infra_directory(tmp_path):
    for path, text in {
        "own/pair/main.tf": 'variable "region" {}\nvariable "zones" {\n}\n# variable "no" {}\n',
        "own/modules/host/main.tf": "",
        "modules/host/main.tf": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    root = find(tmp_path, "own-pair")
    assert (root.cloud, root.variables, root.question) == ("own", {"region", "zones"}, "")
    assert (root.infra, find(None, "azure-zones").infra) == (str(tmp_path), None)
    with pytest.raises(FathometerError, match="use one of: own-pair"):
        find(tmp_path, "azure-zones")
    with pytest.raises(FathometerError, match="--infra"):
        roots(tmp_path / "own")


def test_copied_lab_is_private_without_state(tmp_path):
    copy(find(None, "azure-zones"), tmp_path / "azure")
    assert (tmp_path / "azure/zones/common.tf").read_text() == (INFRA / "azure/common.tf").read_text()
    assert not (tmp_path / "azure/zones/common.tf").is_symlink()
    for name in ("terraform.tfstate", "terraform.tfvars", ".terraform.lock.hcl"):
        (tmp_path / "azure/zones" / name).touch()
    copy(find(tmp_path, "azure-zones"), tmp_path / "again")
    assert not [p for p in (tmp_path / "again").rglob("*") if "tfstate" in p.name or "tfvars" in p.name]
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "again").rglob("*.tf")} == {0o600}


def test_every_lab_resource_has_known_price():
    texts = [path.read_text() for path in INFRA.glob("*/**/*.tf")]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("resource ")]
    kinds = {line.split('"')[1] for line in lines}
    sizes = {
        "aws_instance": {"instance_type": "m7i.large"},
        "azurerm_linux_virtual_machine": {"size": "Standard_D2s_v5"},
        "azurerm_firewall": {"sku_tier": "Standard"},
        "google_compute_instance": {"machine_type": "n2-standard-2"},
    }
    assert len(kinds) > 20
    assert estimate(Resource(k, k, sizes.get(k, {})) for k in sorted(kinds)).unknown == ()


def test_estimate_names_oldest_date_and_unknown_prices():
    new, old = Resource("a", "aws_eip", {}), Resource("b", "aws_lb", {})
    dates = [estimate(things).date for things in ([new], [old], [new, old], [])]
    assert dates == ["2026-11-25", "2026-11-23", "2026-11-23", "2026-11-23"]
    host = Resource("a", "azurerm_linux_virtual_machine", {"size": "Standard_M128"})
    found = estimate([host, host, Resource("b", "azurerm_lb", {}), Resource("c", "own_thing", {})])
    assert str(found) == (
        "at least 0.03 $ an hour, without things of unknown price: azurerm_linux_virtual_machine"
        " Standard_M128, own_thing (estimate, list prices of 2026-11-23)"
    )
    assert str(Price(0.0, 0.0, "2026-11-23", ("own_thing",))).startswith("an unknown price")
    assert (hourly(0.19, 0.5), hourly(0.551, 0.549)) == ("0.19 to 0.50 $ an hour", "0.55 $ an hour")


def change(address, *actions, mode="managed"):
    after = {"tags": {"fathom-lab": "x-zones"}, "region": "us-east-1"}
    return {"address": address, "mode": mode, "type": "t", "change": {"actions": actions, "after": after}}


def test_plan_is_read():
    changes = [change("new", "create"), change("kept", "no-op"), change("other", "update")]
    changes += [change("gone", "delete"), change("anew", "delete", "create")]
    plan = read_plan({"resource_changes": [*changes, change("data", "read", mode="data")]})
    parts = [[r.address for r in part] for part in (plan.made, plan.changed, plan.removed, plan.after)]
    assert parts == [["new", "anew"], ["other"], ["gone", "anew"], ["new", "kept", "other", "anew"]]
    assert not plan.is_free
    assert read_plan({"resource_changes": [change("kept", "no-op")]}).is_empty
    outputs = read_plan({"output_changes": {"fathometer": {"actions": ["update"]}}})
    assert (outputs.is_free, outputs.is_empty) == (True, False)


def test_state_is_read_with_its_modules():
    deep = {"resources": [{"address": "m.n.b", "mode": "managed", "type": "t"}]}
    resources = [
        {"address": address, "mode": mode, "type": "t"} for address, mode in (("a", "managed"), ("d", "data"))
    ]
    module = {"resources": resources, "child_modules": [{"child_modules": [deep]}]}
    there = read_state({"values": {"root_module": module}})
    assert [r.address for r in there] == ["a", "m.n.b"]
    assert table(there) == "      2  t"
    assert read_state({}) == ()


def given(**more):
    return Given(**{"ssh_from": "198.51.100.7/32", **more})


def test_settings_merge_over_record():
    first = proposed(
        PLANNED, KNOWN, given(variables={"zones": '["a"]', "size": "m7i.large"}), NOW, lambda: "1"
    )
    assert first.values == {
        "ssh_from": "198.51.100.7/32",
        "expires": "2026-11-25T16:00:00Z",
        "zones": ["a"],
        "size": "m7i.large",
        "account": "1",
    }
    # What is planned again ends later, and may be of another login.
    later = proposed(first, KNOWN, Given(variables={"size": "null"}), NOW + timedelta(hours=1), lambda: "2")
    assert later.values["expires"] == "2026-11-25T17:00:00Z"
    assert later.values["account"] == "2"
    assert "size" not in later.values
    made = replace(first, state="made")
    same = proposed(made, KNOWN, Given(jump=True), NOW + timedelta(hours=1), lambda: "2")
    assert same.values == {**first.values, "public_jump": True}
    prolonged = proposed(made, KNOWN, Given(hours="6h"), NOW, lambda: None)
    assert prolonged.values == {**first.values, "expires": "2026-11-25T18:00:00Z"}
    with pytest.raises(FathometerError, match='"size" has a value in this lab'):
        proposed(made, KNOWN, Given(variables={"size": "null"}), NOW, lambda: None)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"ssh_from": None}, "--from is required: the network that may connect by SSH"),
        ({"hours": "25h"}, 'its hosts cannot run for "25h"; use a duration from 30m to 24h'),
        ({"hours": "29m"}, "from 30m to 24h"),
        ({"hours": "soon"}, "from 30m to 24h"),
        ({"variables": {"expires": "2030-01-01T00:00:00Z"}}, '"expires" is not set by --var; use --for'),
        ({"variables": {"ssh_from": "10.9.0.0/16"}}, '"ssh_from" is not set by --var; use --from'),
        ({"variables": {"zone": "1"}}, 'no variable "zone"; use one of: account, expires'),
        ({"variables": {"size": "NaN"}}, '"size" cannot be NaN'),
        ({"variables": {"size": "1e999"}}, '"size" cannot be 1e999'),
        ({"variables": {"zones": "[1,Infinity]"}}, "JSON has no such number"),
    ],
)
def test_wrong_settings_are_refused(wrong, says):
    with pytest.raises(FathometerError) as error:
        proposed(PLANNED, KNOWN, given(**wrong), NOW, lambda: None)
    assert says in str(error.value)
    assert error.value.exit_code == ExitCode.USAGE


def test_journal_keeps_the_last_record(tmp_path):
    place = LabDirectory(tmp_path)
    assert place.read() is None
    where = Where("aws", "1", ("eu-west-2",), ("fathom-zones",))
    made = replace(PLANNED, state="made", where=where, values={"zones": ["a"]}, key="/k", whole=True)
    for record in (PLANNED, made):
        place.write(record)
        assert place.read() == record
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"kind": "remo')
    assert place.read() == made
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    (tmp_path / "journal.jsonl").write_text(lines[0].replace('"lab": "aws-zones"', '"lab": 7') + "\n")
    with pytest.raises(FathometerError, match=r"has a wrong lab; .*destroy`, and then its directory"):
        place.read()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "planned, nothing was made; `fathom cloud down aws-zones` takes it out of this list"),
        ({"state": "removed"}, "removed, but more of it may be left; `fathom cloud down aws-zones` looks"),
        ({"state": "made", "price": "1 $"}, "made, but not all of it, 1 $"),
        (
            {"state": "made", "whole": True, "price": "1 $", "values": {"expires": "2026-11-25T14:30:00Z"}},
            "made, 1 $; its hosts end at 2026-11-25 14:30 UTC, in 2h 30m; whatever else it consists of goes",
        ),
        (
            {"state": "made", "whole": True, "price": "1 $", "values": {"expires": "2026-11-25T11:00:00Z"}},
            "made, 1 $; its hosts ended at 2026-11-25 11:00 UTC; whatever else it consists of goes on",
        ),
    ],
)
def test_list_line_tells_state_and_end(monkeypatch, more, line):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    usual = Path("/state/fathom/cloud/aws-zones")
    assert summary(usual, replace(PLANNED, **more), NOW).startswith(f"aws-zones  {line}")
    assert summary(Path("/srv/lab"), replace(PLANNED, **more), NOW).endswith("; /srv/lab")


def test_place_is_read_from_plan():
    plan = read_plan({"resource_changes": [change("a", "create")]})
    document = {"variables": {n: {"value": v} for n, v in {"region": "eu-west-2", "account": "7"}.items()}}
    aws = place_of("aws", document, plan, "1")
    assert aws == Where("aws", "7", ("eu-west-2", "us-east-1"), ("x-zones",))
    assert place_of("azure", document, plan, "s-1") == Where("azure", "s-1", (), ("x-zones",))
    assert place_of("gcp", {"variables": {"project": {"value": "p"}}}, plan, None).owner == "p"
    # It is looked for under each name and in each region that it had.
    moved = aws.joined(Where("aws", "7", ("eu-west-1",), ("y-zones",)))
    assert moved.regions == ("eu-west-2", "us-east-1", "eu-west-1")
    assert moved.tags == ("x-zones", "y-zones")


def test_leftovers_are_queried_with_provider_cli():
    (group, _) = commands_for(Where("azure", "s-1", (), ("x-zones",)))
    tag = ["--tag", "fathom-lab=x-zones"]
    query = ["--query", "[].id", "-o", "tsv", "--subscription", "s-1"]
    assert group == ["az", "group", "list", *tag, *query]
    aws = commands_for(Where("aws", "1", ("eu-west-2", "us-east-1"), ("x", "y")))
    assert [c[-1] for c in aws] == ["eu-west-2", "us-east-1"] * 2
    assert "--project=p" in commands_for(Where("gcp", "p", (), ("x",)))[0]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (Where("azure", None, (), ("x",)), "the subscription of the lab is unknown; set ARM_SUBSCRIPTION_ID"),
        (Where("aws", "1", (), ("x",)), "how to list what has its tag is unknown here"),
        (Where("own", None, (), ("x",)), "look in the cloud's portal for the tag fathom-lab"),
        (Where("gcp", "p", (), ("x",)), "`gcloud` is not installed; look yourself: `gcloud compute"),
        (Where("aws", "1", ("eu-west-2",), ("x",)), "in the account 1, and the login's account is unknown"),
    ],
)
def test_no_answer_is_an_error(tmp_path, monkeypatch, where, says):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FathometerError) as error:
        look(where)
    assert says in str(error.value)


def test_answer_of_other_account_proves_nothing(monkeypatch):
    monkeypatch.setattr(left, "owner_now", lambda _: "2")
    monkeypatch.setattr(left, "_said", lambda _: (0, "", ""))
    with pytest.raises(FathometerError, match="in the account 1, and the login's account is 2"):
        look(Where("aws", "1", ("eu-west-2",), ("x",)))
    assert look(Where("aws", "2", ("eu-west-2",), ("x",))).things == ()
    assert str(Found(Where("gcp", "p"), ())).startswith("no host of it is left in the project p; networks")


def test_tool_gets_no_settings_of_the_shell():
    shell = {
        "TF_VAR_public_jump": "true\n",
        "TF_LOG": "trace",
        "TF_WORKSPACE": "x",
        "TF_CLI_CONFIG_FILE": "/m",
    }
    passed = environment_for({**shell, "HOME": "/h"}, {"ARM_SUBSCRIPTION_ID": "0"})
    own = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", "ARM_SUBSCRIPTION_ID": "0"}
    assert passed == {"TF_CLI_CONFIG_FILE": "/m", "HOME": "/h", **own}


def test_secrets_are_replaced_by_their_names():
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQ", "EFAASCBKcwggSjAgEAAoIBAQC7"]
    environment = {
        "ARM_CLIENT_SECRET": 's3"cret&more',
        "GOOGLE_CREDENTIALS": "\n".join(["-----BEGIN PRIVATE KEY-----", *lines]),
        "https_proxy": "http://somebody:p%40ssword@proxy:3128",
        "ARM_CLIENT_CERTIFICATE_PATH": "/home/somebody/certificate.pfx",
        "GIT_AUTHOR_NAME": "Some Body",
        "SSH_PUBLIC_KEY": "ssh-ed25519 AAAA",
        "SHORT_TOKEN": "ab",
        "HOME": "/home/somebody",
    }
    secrets = secrets_of(environment)
    assert {*secrets.values()} == {"ARM_CLIENT_SECRET", "GOOGLE_CREDENTIALS", "https_proxy"}
    for said, clean in (
        ('it was s3"cret&more!', "it was [ARM_CLIENT_SECRET]!"),
        (r"as JSON s3\"cret&more", "as JSON [ARM_CLIENT_SECRET]"),
        ("?q=s3%22cret%26more", "?q=[ARM_CLIENT_SECRET]"),
        (f"a line {lines[1]}", "a line [GOOGLE_CREDENTIALS]"),
        ("p@ssword and p%40ssword", "[https_proxy] and [https_proxy]"),
        ("in /home/somebody by ab", "in /home/somebody by ab"),
    ):
        assert without(said, secrets) == clean


def test_errors_of_the_tool_are_one_line():
    diagnostic = {
        "severity": "error",
        "summary": "Invalid value for variable",
        "detail": "Give a network.\n\nThis was checked by the validation rule at main.tf:3,3-13.",
        "snippet": {"code": '{"ssh_from":1}', "values": [{"traversal": "var.ssh_from"}]},
    }
    assert errors_in({"diagnostic": diagnostic}) == ["Invalid value for variable ssh_from: Give a network."]
    assert errors_in({"diagnostic": {**diagnostic, "severity": "warning"}}) == []
    framed = "\x1b[31m╷\x1b[0m\n│ Error: No login\n│ \n│ Log in.\n╵\n"
    assert plain_errors(framed) == ["No login Log in."]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("Error: creating EC2 Instance: VcpuLimitExceeded: You have requested more vCPU capacity", "quota"),
        ("InsufficientInstanceCapacity: We currently do not have sufficient m7i.large capacity", "size"),
        ("No valid credential sources found", "log in again"),
        ("googleapi: Error 403: Quota 'CPUS' exceeded. Limit: 8.0 in region europe-west2.", "quota"),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "size"),
        ("AuthorizationFailed: The client does not have authorization to perform action", "may not do that"),
        ("Error saving state: write terraform.tfstate: no space left on device", "make room"),
        ("Error acquiring the state lock: Unsupported state file", "terraform.tfstate.backup"),
        ("something new", "see what the cloud says of it"),
    ],
)
def test_errors_of_the_clouds_have_advice(words, remedy):
    assert remedy in advice(words)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


def test_key_is_named_or_usual(home):
    with pytest.raises(FathometerError, match=r"no public key .*/\.ssh/id_ed25519\.pub; name the key"):
        sshkeys.key_pair(None)
    usual, other = home / ".ssh/id_ed25519", home / "other"
    for private in (usual, other):
        make_key(private)
        public = private.with_name(f"{private.name}.pub")
        named = None if private == usual else private
        assert sshkeys.key_pair(named) == (str(private), public.read_text().strip())
    assert sshkeys.key_pair(home / "other.pub")[0] == str(other)
    public.write_text(other.read_text())
    with pytest.raises(FathometerError, match=r"other\.pub is no public key that all clouds take"):
        sshkeys.key_pair(other)


def test_key_that_opens_no_host_is_refused(home):
    for name, words in (("mine", ()), ("other", ()), ("closed", ("-N", "open"))):
        make_key(home / name, *words)
    public = {name: (home / f"{name}.pub").read_text() for name in ("mine", "other", "closed")}
    sshkeys.must_log_in(public["mine"], str(home / "mine"))
    with pytest.raises(FathometerError, match=r"nobody could log in by .*mine: .*is not its public half"):
        sshkeys.must_log_in(public["other"], str(home / "mine"))
    with pytest.raises(FathometerError, match=r"closed: .*passphrase.*; `ssh-add "):
        sshkeys.must_log_in(public["closed"], str(home / "closed"))
    with pytest.raises(FathometerError, match=r"gone: .*No such file"):
        sshkeys.must_log_in(public["mine"], str(home / "gone"))


def test_key_in_agent_logs_in(home, monkeypatch):
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", home / "agent"], stdout=subprocess.PIPE)
    try:
        agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent"))
        make_key(home / "key")
        subprocess.run(["ssh-add", "-q", home / "key"], check=True, stdin=subprocess.DEVNULL)
        (home / "key").unlink()
        sshkeys.must_log_in((home / "key.pub").read_text(), str(home / "key"))
    finally:
        agent.terminate()
        agent.communicate()


def test_waiting_for_hosts_shows_the_reason(tmp_path, monkeypatch):
    stand_in_for_ssh(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sshkeys, "PAUSE_S", 0.01)
    denied = "echo 'u@192.0.2.1: Permission denied (publickey).' >&2; exit 255"
    count = f"echo >>{tmp_path}/n; [ $(grep -c '' {tmp_path}/n) -gt 2 ]"
    (tmp_path / "ssh").write_text(f"#!/bin/sh\n{count} || {{ {denied}; }}\necho 10.0.0.1 ssh-ed25519 AAAA\n")
    said = []
    lab = read_lab(json.dumps(LAB).encode(), "the lab")
    sshkeys.fetch(lab, None, tmp_path / "known", said.append)
    why = "u@192.0.2.1: Permission denied (publickey)."
    assert said == [f"waiting for 10.0.0.1 to answer to SSH ({why})"]
    keys = (tmp_path / "known").read_text().splitlines()
    assert keys == ["192.0.2.1 ssh-ed25519 AAAA", "10.0.0.1 ssh-ed25519 AAAA"]
    (tmp_path / "ssh").write_text(f"#!/bin/sh\n{denied}\n")
    monkeypatch.setattr(sshkeys, "PATIENCE_S", 0.0)
    with pytest.raises(FathometerError, match=r"no answer to SSH from 10\.0\.0\.1 \(u@192\.0\.2\.1: Perm"):
        sshkeys.fetch(lab, None, tmp_path / "known", said.append)
