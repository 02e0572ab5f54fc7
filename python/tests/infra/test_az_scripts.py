"""The labs by `az` alone: what the scripts ask, of an `az` that answers and writes it down."""

import os
import re
import subprocess

import pytest

from fathometer.study.read import read_study
from support.programs import ROOT, make_key

SCRIPTS = ROOT / "infra/azure/az"
LABS = {"two-hosts": 2, "accelerated-networking": 4, "proximity-group": 4}
# It is called some two hundred times: one in Python took longer than all that the scripts do.
AZ = """#!/bin/sh
{ printf '%s\\0' "$@"; echo; } >> "$CALLS"
kind="$1 $2"
if [ "$kind" = "$REFUSED" ]; then
  echo "ERROR: $SAYS" >&2
  exit 1
fi
while [ $# -gt 0 ]; do
  case $1 in
    --query) query=$2 ;;
    --name) name=$2 ;;
    --subscription) subscription=$2 ;;
  esac
  shift
done
if [ "$kind" = "group exists" ] && [ "$subscription" != "${HERE-sub-1}" ]; then
  case " $ELSEWHERE " in *" $subscription "*) echo true ;; *) echo false ;; esac
  exit
fi
case $kind,$query in
  "account show",*) echo "${subscription-${HERE-sub-1}}" ;;
  "account list",*) printf '%s\\n' ${SUBSCRIPTIONS-sub-1} ;;
  "group delete",*) : > "$CALLS.gone" ;;
  "group exists",*) if [ -e "$CALLS.gone" ]; then echo false; else echo "${THERE-false}"; fi ;;
  *,ipAddress) echo "${ADDRESS-198.51.100.${#name}}" ;;
  *,'tags."fathom-lab"') echo "${TAG-$name}" ;;
  *,'ipConfigurations[0].privateIPAddress') echo 10.80.1.11 ;;
  *,?*) echo ;;
esac
"""


def calls_in(text):
    """What `az` wrote down: a line a call, each of its words ended by NUL."""
    return [call.split("\0")[:-1] for call in re.split(r"(?<=\0)\n", text)[:-1]]


@pytest.fixture
def az(tmp_path):
    """Runs a script where `az` is ours; gives what it printed, and the calls."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/az").write_text(AZ)
    (tmp_path / "bin/az").chmod(0o755)
    make_key(tmp_path / "key")

    def script(name, *words, at=tmp_path, **more):
        calls = tmp_path / "calls"
        calls.write_text("")
        calls.with_name("calls.gone").unlink(missing_ok=True)
        env = {
            **os.environ,
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "CALLS": str(calls),
            "KEY": str(tmp_path / "key.pub"),
            **more,
        }
        done = subprocess.run(
            [SCRIPTS / f"{name}.sh", *words],
            cwd=at,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, calls_in(calls.read_text())

    return script


def option(call, name):
    return call[call.index(name) + 1] if name in call else None


@pytest.mark.parametrize("lab", LABS)
def test_lab_is_firewalled_tagged_and_expires(az, lab, tmp_path):
    done, calls = az(lab, "198.51.100.7/32")
    assert (done.returncode, done.stderr) == (0, "")
    begins = [["account", "show"], ["group", "exists"], ["account", "list"], ["group", "create"]]
    assert [c[:2] for c in calls[:4]] == begins
    # Whatever `az account set` says meanwhile.
    assert {option(c, "--subscription") for c in calls if c[0] != "account"} == {"sub-1"}
    of = lambda *kind: [c for c in calls if c[: len(kind)] == list(kind)]  # noqa: E731
    hosts = of("vm", "create")
    assert len(hosts) == LABS[lab] == len(of("vm", "auto-shutdown"))
    for call in (c for c in calls if "create" in c and "rule" not in c and "subnet" not in c):
        tags = call[call.index("--tags") + 1 : call.index("--tags") + 3]
        assert [t.split("=")[0] for t in tags] == ["fathom-lab", "fathom-expires"], call
    allowed = [c for c in of("network", "nsg", "rule", "create") if option(c, "--access") == "Allow"]
    said = {option(c, "--destination-port-ranges"): option(c, "--source-address-prefixes") for c in allowed}
    assert said == {"22": "198.51.100.7/32", "7007": "10.80.0.0/16"}
    assert any(option(c, "--access") == "Deny" and option(c, "--priority") == "4096" for c in calls)
    assert [option(c, "--default-outbound-access") for c in of("network", "vnet", "subnet", "create")] == [
        "false"
    ]
    assert {option(c, "--authentication-type") for c in hosts} == {"ssh"}
    assert {option(c, "--sku") for c in of("network", "public-ip", "create")} == {"Standard"}
    (file,) = tmp_path.glob("fathom-*.toml")
    study = read_study(file)
    assert {h.name for h in study.host} == {option(c, "--name") for c in hosts}
    assert {n for s in study.scenario for n in (s.source, s.to)} == {h.name for h in study.host}


def test_what_the_labs_are_about_differs(az):
    _, calls = az("accelerated-networking", "198.51.100.7/32")
    nics = {
        option(c, "--name"): option(c, "--accelerated-networking")
        for c in calls
        if c[1] == "nic" and "create" in c
    }
    assert nics == {"off-client": "false", "off-server": "false", "on-client": "true", "on-server": "true"}
    _, calls = az("proximity-group", "198.51.100.7/32")
    groups = {option(c, "--name"): option(c, "--ppg") for c in calls if c[:2] == ["vm", "create"]}
    assert groups == {
        "near-client": "near",
        "near-server": "near",
        "plain-client": None,
        "plain-server": None,
    }


WORLD = (
    *("", "0.0.0.0/0", "198.51.100.7", "10.0.0.0/8", "everybody", "198.51.100.256/32", "300.1.1.1/24"),
    *("198.51.100.07/32", "198.51.100.7/32 0.0.0.0/0", "1198.51.100.7/32"),
)
USERS = ("root", "admin", "Azureuser", "-x", "a b", "1st", "a" * 33, "user;reboot")
KEYS = ("ssh-ed25519 !!!! lab", "{key}{key}", "ecdsa-sha2-nistp256 AAAA lab", "ssh-rsa {short}", "")
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----"
HOURS = ("1 day", "0", "24", "x", "-1", "1.5", "HOME", "999999999999999999999")
REFUSED = [
    *(({"word": word}, "198.51.100.7/32") for word in WORLD),
    # `az` said so at the first host, when a group, a network and an address were there, and cost.
    *(({"LAB_USER": user}, f'LAB_USER: "{user}" cannot be the user') for user in USERS),
    *(({"key": key}, "with KEY") for key in KEYS),
    ({"key": PRIVATE}, "it does not begin as a public key does"),
    *(
        ({"HOURS": hours}, "HOURS: a number from 1 to 23, as hosts are deallocated at a time of day\n")
        for hours in HOURS
    ),
    # As in a directory that is read only; root may write into that, and not into this one.
    ({"at": "/proc"}, "/proc: no file can be written here, where the study goes"),
]


@pytest.mark.parametrize(("wrong", "says"), REFUSED, ids=[str(wrong)[:40] for wrong, _ in REFUSED])
def test_wrong_input_is_refused_before_az_calls(az, tmp_path, wrong, says):
    given = {"word": "198.51.100.7/32", **wrong}
    if (text := given.pop("key", None)) is not None:
        key = (tmp_path / "key.pub").read_text()
        (tmp_path / "own.pub").write_text(text.format(key=key, short=key.split()[1][:60]) + "\n")
        given["KEY"] = str(tmp_path / "own.pub")
    done, calls = az("two-hosts", given.pop("word"), **given)
    assert done.returncode == 2
    assert says in done.stderr
    assert calls == []


def test_empty_hours_are_the_default(az):
    assert az("two-hosts", "198.51.100.7/32", HOURS="")[0].returncode == 0


def test_short_rsa_key_is_refused_before_az_calls(az, tmp_path):
    for bits in ("1024", "2048"):
        words = ["ssh-keygen", "-q", "-t", "rsa", "-b", bits, "-N", "", "-f", tmp_path / bits]
        subprocess.run(words, check=True)
    done, calls = az("two-hosts", "198.51.100.7/32", KEY=str(tmp_path / "1024.pub"))
    assert (done.returncode, calls) == (2, [])
    done, _ = az("two-hosts", "198.51.100.7/32", KEY=str(tmp_path / "2048.pub"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tag", ["", "somebody-elses"])
def test_a_group_of_somebody_elses_gets_no_tag(az, tag):
    done, calls = az("two-hosts", "198.51.100.7/32", THERE="true", TAG=tag)
    assert done.returncode == 1
    assert "does not bear the tag fathom-lab=fathom-two-hosts: nothing was changed" in done.stderr
    assert "broke off" not in done.stderr
    assert [c[:2] for c in calls] == [["account", "show"], ["group", "exists"], ["group", "show"]]


def test_a_lab_that_broke_off_goes_on(az):
    done, calls = az("two-hosts", "198.51.100.7/32", THERE="true")
    assert done.returncode == 0, done.stderr
    assert [c[:2] for c in calls].count(["vm", "create"]) == 2


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("(QuotaExceeded) Total Regional Cores quota", "SIZE=Standard_D2as_v5, say, before this"),
        ("Please run 'az login' to setup account.", "az login, as somebody who may do this"),
        ("Connection reset by peer", "see what az says above; then"),
    ],
    ids=["quota", "login", "other"],
)
@pytest.mark.parametrize("refused", ["account show", "group exists", "group create", "vm create"])
def test_az_error_is_shown_with_advice(az, tmp_path, refused, says, advice):
    """Before anything was made it went on costing, and `remove.sh` got no subscription (a stranger)."""
    (tmp_path / "t").mkdir()
    done, _ = az("two-hosts", "198.51.100.7/32", REFUSED=refused, SAYS=says, TMPDIR=str(tmp_path / "t"))
    assert done.returncode == 1
    words, _, told = done.stderr.partition("broke off")
    assert f"ERROR: {says}" in words
    assert advice in told
    assert (told.count("SIZE="), told.count("az login")) == ("Quota" in says, "login" in says)
    costs = f"What there is costs until {SCRIPTS}/remove.sh fathom-two-hosts sub-1\n"
    if refused in {"account show", "group exists"}:
        assert told.startswith(" before this call made anything: ")
        assert "costs" not in told
    else:
        assert told.endswith(costs)
    assert not list((tmp_path / "t").iterdir())


def test_existing_lab_cost_is_mentioned_after_failure(az):
    done, _ = az("two-hosts", "198.51.100.7/32", THERE="true", REFUSED="group create", SAYS="(Conflict)")
    assert "What there is costs until" in done.stderr


def test_a_lab_is_removed_and_nothing_else(az):
    done, calls = az("remove", "fathom-two-hosts", THERE="true")
    assert done.returncode == 0, done.stderr
    assert [c[:2] for c in calls].count(["group", "delete"]) == 1
    assert "removed fathom-two-hosts" in done.stdout
    done, calls = az("remove", "payroll", TAG="", THERE="true")
    assert done.returncode == 1
    assert "does not bear the tag" in done.stderr
    assert ["group", "delete"] not in [c[:2] for c in calls]


@pytest.mark.parametrize(
    ("elsewhere", "says"),
    [
        ("sub-3", "the subscription sub-3 has one: {remove} fathom-two-hosts sub-3"),
        ("", "no other subscription of this login is known to have one"),
    ],
)
def test_what_was_not_removed_is_no_success(az, elsewhere, says):
    """In the wrong subscription it ended with 0, and the lab went on costing (a stranger)."""
    there = {"SUBSCRIPTIONS": "sub-1 sub-2 sub-3", "ELSEWHERE": elsewhere}
    done, calls = az("remove", "fathom-two-hosts", **there)
    assert done.returncode == 1
    assert "no resource group fathom-two-hosts in the subscription sub-1: nothing was removed" in done.stderr
    assert says.format(remove=SCRIPTS / "remove.sh") in done.stderr
    assert ["group", "delete"] not in [c[:2] for c in calls]


def test_remove_uses_named_subscription(az):
    done, calls = az("remove", "fathom-two-hosts", "sub-3", HERE="sub-3", THERE="true")
    assert done.returncode == 0, done.stderr
    (delete,) = [c for c in calls if c[:2] == ["group", "delete"]]
    assert option(delete, "--subscription") == "sub-3"
    assert "removed fathom-two-hosts in the subscription sub-3" in done.stdout


def test_lab_in_other_subscription_is_not_duplicated(az):
    """It broke off there, and is called again where `az` works in another one by now."""
    there = {"SUBSCRIPTIONS": "sub-1 sub-2", "ELSEWHERE": "sub-2"}
    done, calls = az("two-hosts", "198.51.100.7/32", **there)
    assert done.returncode == 1
    assert (
        "sub-2 has a resource group fathom-two-hosts, and sub-1, which az works in, has none" in done.stderr
    )
    assert "SUBSCRIPTION=sub-2 before this goes on with that lab" in done.stderr
    assert ["group", "create"] not in [c[:2] for c in calls]
    done, calls = az("two-hosts", "198.51.100.7/32", SUBSCRIPTION="sub-1", **there)
    assert done.returncode == 0, done.stderr
    assert ["group", "create"] in [c[:2] for c in calls]


def test_a_study_that_was_edited_stays(az, tmp_path):
    file = tmp_path / "fathom-two-hosts.toml"
    assert az("two-hosts", "198.51.100.7/32")[0].returncode == 0
    made = file.read_text()
    edited = made + "repetitions = 20\n"
    file.write_text(edited)
    # The script broke off, say: it is called again, at an hour as people write it.
    done, _ = az("two-hosts", "198.51.100.7/32", HOURS="08")
    assert done.returncode == 0, done.stderr
    assert "kept fathom-two-hosts.toml" in done.stderr
    assert (file.read_text(), (tmp_path / "fathom-two-hosts.toml.new").read_text()) == (edited, made)


def test_missing_public_address_writes_no_study(az, tmp_path):
    done, _ = az("two-hosts", "198.51.100.7/32", ADDRESS="")
    assert done.returncode == 1
    assert "az tells no public address of" in done.stderr
    # Its words are above, and not az's.
    assert "broke off at" not in done.stderr
    assert "remove.sh fathom-two-hosts sub-1" in done.stderr
    assert not list(tmp_path.glob("*.toml*"))
