"""What was only planned, refused or declined is not what a lab was made with: `down`, `run` and `list` go by
that.
"""

import json
import re
import shutil

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.whose import tags_of
from support.lab_of_tofu import Cloud
from support.terraform import served

pytestmark = pytest.mark.acceptance

LAB = "azure-nat"
GIVEN = (LAB, "--from", "198.51.100.7/32", "--public-jump")


@pytest.fixture
def nat(tmp_path):
    return Cloud(tmp_path, LAB, served("azure"))


def sizes(cloud):
    state = json.loads((cloud.place / "labs/azure/nat/terraform.tfstate").read_text())
    hosts = [r for r in state["resources"] if r["type"] == "azurerm_linux_virtual_machine"]
    return {i["attributes"]["size"] for r in hosts for i in r["instances"]}


def test_refused_plan_does_not_change_lab(nat):
    nat("up", *GIVEN, "--yes")
    for words, says in (
        ("--var ssh_from=10.0.0.0/8", "Give a network of IPv4 in CIDR notation"),
        ("--var port=22", "not kept, as it could not be planned: port"),
        ("--from 10.0.0.0/8", "not kept, as it could not be planned: --from"),
    ):
        assert says in nat("plan", LAB, *words.split(), code=1)[1]
    assert "nothing to be done" in nat("plan", LAB)[0]
    nat("plan", LAB, "--var", "idle_timeout_minutes=NaN", code=2)


def tidied(cloud, *, copy):
    """Somebody removes the files of settings from the tool's directory."""
    for file in (cloud.place / "labs/azure/nat").glob("*.tfvars.json"):
        file.unlink()
    if copy:
        (cloud.place / "settings.json").unlink()


def test_a_lab_whose_settings_are_gone_is_removed(nat):
    """`down` was a dead end while hosts cost: "expires: it has no value, and no usual one" (a stranger)."""
    nat("up", *GIVEN, "--var", "idle_timeout_minutes=9", "--yes")
    settings = nat.place / "labs/azure/nat/lab.auto.tfvars.json"
    assert tags_of(json.loads(settings.with_name("terraform.tfstate").read_text())) == {"fathom-nat"}
    kept = settings.read_text()
    tidied(nat, copy=True)
    nat.program("az", '[ "$1" = group ] || echo /subscriptions/0/left')
    out, err = nat("down", LAB, "--yes", code=1)
    assert f"{settings} is not there, without which the tool removes nothing: the cloud is asked" in err
    assert "    /subscriptions/0/left" in out
    assert "    azurerm_resource_group.lab" in out
    assert (
        "`fathom cloud up azure-nat` with the options that it was made with (values of idle_timeout_minutes,"
        " public_jump, ssh_from, ssh_public_key) writes it again" in err
    )
    out, err = nat("down", LAB, "--yes", "--by-state", code=1)
    assert "    azurerm_resource_group.lab" in out
    assert "    /subscriptions" not in out
    # By its usual settings it would be another lab.
    _, err = nat("up", *GIVEN, code=2)
    assert "made with values of idle_timeout_minutes, which nobody says" in err
    assert "everything of it is there" in nat("up", *GIVEN, "--var", "idle_timeout_minutes=9")[1]
    assert json.loads(settings.read_text()) == json.loads(kept)
    kept = settings.read_text()
    # As where its state was put back beside a journal that was begun anew.
    other = nat.home / "other"
    nat("plan", *GIVEN, "--directory", str(other))
    shutil.copy(settings.with_name("terraform.tfstate"), other / "labs/azure/nat")
    _, err = nat("down", LAB, "--directory", str(other), "--yes", "--by-state", code=1)
    assert "is not there, without which the tool removes nothing; put it back; or" in err
    # As a `down` of before left it: `up` refuses what is being removed.
    with (other / "journal.jsonl").open("a") as journal:
        journal.write('{"kind": "destroy.started"}\n')
    _, err = nat("down", LAB, "--directory", str(other), "--yes", "--by-state", code=1)
    assert f"-chdir={other}/labs/azure/nat destroy` with -var NAME=VALUE for what it was made with" in err
    shutil.rmtree(other)
    for damage in (lambda: tidied(nat, copy=False), lambda: settings.write_text('{"expi')):
        damage()
        assert "nothing to be done" in nat("plan", LAB)[0]
        assert settings.read_text() == kept
    tidied(nat, copy=False)
    nat("down", LAB, "--yes", "--by-state")
    assert not nat.place.exists()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "[1,NaN]"])
def test_what_is_no_number_is_refused_at_once(nat, value):
    _, err = nat("plan", *GIVEN, "--var", f"idle_timeout_minutes={value}", code=2)
    assert f'"idle_timeout_minutes" cannot be {value}' in err
    assert "plan.started" not in nat.kinds()


def test_planned_or_declined_settings_are_not_kept(nat):
    made = nat("up", *GIVEN, "--for", "2h", "--yes")[1]
    (end,) = set(re.findall(r"hosts end at (\S+ \S+) UTC", made))
    (before,) = {line for line in nat("list")[0].splitlines() if line.startswith(f"{LAB}  made")}
    assert end in before
    assert "to be changed" in nat("plan", LAB, "--for", "20h", "--var", "name=other")[0]
    assert "nobody wanted it" in nat("up", LAB, "--for", "23h", code=1, answer="n\n")[1]
    assert end in nat("list")[0]
    wanted = ("--var", "size=Standard_M416ms_v2")
    assert "nobody wanted it" in nat("up", LAB, *wanted, code=1, answer="n\n")[1]
    out, _ = nat("up", LAB, "--for", "6h", "--yes")
    assert "to be removed" not in out
    assert sizes(nat) == {"Standard_D2s_v5", "Standard_B2ats_v2"}
    # Nor is it looked for under a name that it never had.
    assert {e["tag"] for e in nat.entries() if e["kind"] == "where"} - {None} == {"fathom-nat"}
    nat("down", LAB, "--yes", "--by-state")


def test_up_uses_planned_settings_for_new_lab(nat):
    _, err = nat(
        "plan", *GIVEN, "--for", "2h", "--var", "size=Standard_D4s_v5", "--var", "idle_timeout_minutes=9"
    )
    assert "made now, its hosts end at" in err
    # Of nothing nothing goes on costing.
    assert "goes on costing" not in err
    # One that is refused takes nothing away of it, and is not kept.
    nat("plan", LAB, "--var", "port=22", code=1)
    assert "nobody wanted it" in nat("up", LAB, "--var", "size=Standard_D8s_v5", code=1, answer="n\n")[1]
    _, err = nat("up", LAB, "--var", "idle_timeout_minutes=null", "--yes")
    assert re.search(r"in 1h 5\dm", err)
    # What was planned before does not hold: the lab's own does.
    assert "as usual in this lab, whatever was said before: idle_timeout_minutes" in err
    assert "idle_timeout_minutes" not in LabPlace(nat.place).settings
    # It is registered, as something that may cost, until nothing of it is left.
    (entry,) = (nat.home / ".local/state/fathom/labs").iterdir()
    told = json.loads(entry.read_text())
    assert (told["directory"], told["may_exist"], told["tags"]) == (str(nat.place), True, ["fathom-nat"])
    assert sizes(nat) == {"Standard_D4s_v5", "Standard_B2ats_v2"}
    nat("down", LAB, "--yes", "--by-state")
    assert not entry.exists()
