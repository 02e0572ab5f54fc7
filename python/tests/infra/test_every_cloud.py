"""The labs of `infra/`, by the real OpenTofu (or Terraform) against the stand-in for their cloud's provider:
what is true of every cloud. Of a real cloud this says nothing; docs/cloud.md says what it cannot see.
"""

import json
import re

import pytest
from typer.testing import CliRunner

from fathometer.cloud.planned import estimate, hourly, read_plan
from fathometer.study import plan as planning
from fathometer.study.command import study_app
from fathometer.study.read import read_study
from support.programs import ROOT
from support.terraform import GIVEN, INFRA, PROVIDERS, STAND_IN, lab_of, of_root, program, roots, run, texts

LABS = [(cloud, root) for cloud in PROVIDERS for root in roots(cloud)]
# As the tools write `~> 5`: any 5, and no 6.
LINES = {"azure": "~> 5.0", "aws": "~> 6.0", "gcp": "~> 8.0"}

LONGER = "2030-01-02T23:30:00Z"
# How either end stands in a plan: with colons, with dashes, with neither.
ENDS = re.compile(r"(?<!\d)(19|23)[:-]?30(?!\d)")
# What is said to a wrong value of a variable.
REFUSED = {
    "ssh_from": "Give a network of IPv4",
    "expires": "Write it in UTC",
    "ssh_public_key": "text of a public key",
    "name": "lower-case letters",
    "zones": "Name one zone or more",
    "port": "Give a port",
    "user": "small letters, digits",
}


@pytest.fixture(scope="module", params=[of_root(*lab, lab) for lab in LABS])
def lab(request):
    return lab_of(*request.param)


@pytest.fixture(scope="module")
def planned(lab):
    return lab.planned(public_jump=True)


@pytest.fixture(scope="module", params=[of_root(cloud, "zones", cloud) for cloud in PROVIDERS])
def zones(request):
    """Of each cloud the one that is planned with what is refused."""
    return lab_of(request.param, "zones")


@pytest.mark.acceptance
def test_files_are_formatted():
    done = run(program(), "fmt", "-check", "-recursive", "-diff", INFRA, cwd=INFRA, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.acceptance
def test_a_root_is_valid(lab):
    lab("validate")


@pytest.mark.acceptance
def test_a_roots_own_tests_pass_and_make_nothing(lab):
    text = (lab.cwd / "tests/lab.tftest.hcl").read_text()
    # Who runs them with a real provider pays for nothing.
    assert text.count("command = plan") == text.count('run "') > 0
    told = lab("test").stdout
    assert f"Success! {text.count('run ')} passed, 0 failed." in told


@pytest.mark.acceptance
def test_every_root_pins_provider_release_line(lab, planned):
    _, plan = planned
    provider = plan["configuration"]["provider_config"][PROVIDERS[lab.cloud]]
    assert provider["version_constraint"] == LINES[lab.cloud]


@pytest.mark.acceptance
def test_billable_resources_carry_tag_and_expiry(planned):
    resources, _ = planned
    # What Google calls tags are names for its firewall.
    google = any(r.kind.startswith("google_") for r in resources.values())
    key = "labels" if google else "tags"
    bears = [r for r in resources.values() if key in r.after]
    assert len(bears) > 5
    for resource in bears:
        tags = resource[key]
        # Google takes small letters and digits alone.
        end = re.sub("[^0-9]", "", tags["fathom-expires"])
        assert end == re.sub("[^0-9]", "", GIVEN["expires"]), resource.address
        assert tags["fathom-lab"].startswith("fathom-"), resource.address


@pytest.mark.acceptance
def test_no_secret_is_kept(planned):
    _, plan = planned
    for change in plan["resource_changes"]:
        secret = {name for name, is_ in (change["change"]["after_sensitive"] or {}).items() if is_ is True}
        assert not {n for n in secret if change["change"]["after"].get(n)}, change["address"]


@pytest.mark.acceptance
def test_docs_state_hourly_price_of_every_lab(lab, planned):
    _, plan = planned
    price = estimate(read_plan(plan).after)
    assert price.unknown == ()
    assert told_in_docs(lab)[-2] == hourly(price.low, price.high).removesuffix(" an hour")


def told_in_docs(lab):
    """The cells of its row in the table of the labs."""
    name = lab.root if lab.cloud == "azure" else f"{lab.cloud}-{lab.root}"
    rows = [row.split("|") for row in (ROOT / "docs/cloud.md").read_text().splitlines()]
    (row,) = [row for row in rows if row[1:2] == [f" `{name}` "] and "$" in row[-2]]
    return [cell.strip() for cell in row]


def only_its_end_changes(lab):
    """The same again, but for its end, makes nothing anew."""
    lab("plan", "-input=false", "-out=longer", *lab.given(public_jump=True, expires=LONGER))
    plan = json.loads(lab("show", "-json", "longer").stdout)
    changes = [r["change"] for r in plan["resource_changes"]]
    assert {tuple(c["actions"]) for c in changes} <= {("update",), ("no-op",), ("read",)}
    assert any(c["actions"] == ["update"] for c in changes)
    endless = [[ENDS.sub("", json.dumps(change[key])) for change in changes] for key in ("before", "after")]
    assert endless[0] == endless[1]


@pytest.mark.acceptance
def test_lab_lifecycle_leaves_nothing(lab, tmp_path):
    outputs = lab.outputs
    study = tmp_path / "lab.toml"
    done = CliRunner().invoke(study_app, ["from-outputs", "-", "-o", str(study)], input=json.dumps(outputs))
    assert done.exit_code == 0, done.output
    made = read_study(study)
    told = outputs["fathometer"]["value"]
    assert [h.name for h in made.host] == [h["name"] for h in told["hosts"]]
    assert [s.label for s in made.scenario] == [s["label"] for s in told["scenarios"]]
    jump = f"{told['jump']['user']}@{told['jump']['address']}"
    assert {h.ssh.jump for h in made.host} == {jump}
    hours, minutes = divmod(-(-planning.estimate_ns(made, planning.plan(made)) // (60 * 10**9)), 60)
    takes = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    # The largest is measured side by side, and its time in turn stands below the table.
    assert lab.root == "all" or told_in_docs(lab)[-3].split(", ")[-1] == takes
    # A host that no path uses would cost for nothing.
    assert {name for s in made.scenario for name in (s.source, s.to)} == {h.name for h in made.host}
    # The whole of Azure has no part that is not a lab of its own too, and takes as long as all of them.
    if lab.root != "all":
        only_its_end_changes(lab)
    # An expired lab can be removed.
    assert lab.down(public_jump=True, expires="2020-01-01T00:00:00Z") == []


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "wrong",
    [
        {
            "ssh_from": "0.0.0.0/0",
            "expires": "tomorrow",
            "ssh_public_key": "-----BEGIN OPENSSH PRIVATE KEY-----",
            "name": "Fathom",
            "zones": [],
        },
        {
            "ssh_from": "128.0.0.0/1",
            "expires": "2030-01-02T19:30:00+05:00",
            "zones": "one of them twice",
            "port": 65536,
        },
        {"ssh_from": "198.51.100.7/032", "port": 7007.5, "user": "Root"},
    ],
    ids=["all", "others", "one"],
)
def test_unsafe_or_invalid_variables_are_refused(zones, wrong):
    # Each variable by an error of its own: what one plan refuses, it refuses of any of them alone.
    if isinstance(wrong.get("zones"), str):
        wrong = {**wrong, "zones": ["1" if zones.cloud == "azure" else "a"] * 2}
    errors = zones.refused(**wrong)
    assert len(errors) == len(wrong)
    for variable in wrong:
        (error,) = [e for e in errors if f"var.{variable} " in e]
        assert error.startswith("Invalid value for variable")
        assert REFUSED[variable] in error


@pytest.mark.acceptance
def test_what_can_name_nothing_is_refused(zones):
    """What a variable of the shell that is empty gives, and what would go into a name or an address."""
    project = {"project": ("", "the id of a project")} if zones.cloud == "gcp" else {}
    wrong = {
        "region": (" ", "Name a region"),
        "other_region": ("../x", "Name a region"),
        "size": (" ", "Name a size"),
        "zones": (["../x"], "zones"),
        "port": (22, "Port 22 is SSH's"),
        **project,
    }
    errors = zones.refused(**{name: value for name, (value, _) in wrong.items()})
    assert len(errors) == len(wrong)
    for name, (_, words) in wrong.items():
        (error,) = [e for e in errors if f"var.{name} " in e]
        assert words in error


RULES = {
    # Of a variable: what its rule takes, some of which each cloud has, and what every rule refuses.
    "region": (
        ["uksouth", "eu-west-2"],
        [" ", "uksouth ", "-", "uk--south", "../x", "uk\nsouth", "uksouth\n"],
    ),
    "size": (["Standard_D2s_v5", "m7i.large", "n2-standard-2"], ["", " ", "m7i large", "-large"]),
    "ssh_from": (
        ["198.51.100.7/32", "10.0.0.0/16"],
        [
            " ",
            "198.51.100.7/032",
            "198.51.100.07/32",
            "198.51.100.7/33",
            "0.0.0.0/0",
            "10.0.0.0/8",
            "198.51.100.7",
        ],
    ),
}


def test_every_root_refuses_what_names_nothing():
    """A plan was made with a blank as the region, and with `/032` as a network (a stranger). By the rules'
    text: a plan of each root takes a second.
    """
    variable = re.compile(r'variable "(\w*region|size|ssh_from)" \{(.*?)^\}', re.MULTILINE | re.DOTALL)
    rules = [
        (file, name, *re.findall(r'regex\(\s*"(.*?)", var', block))
        for file in INFRA.glob("*/*/*.tf")
        for name, block in variable.findall(file.read_text())
    ]
    assert len(rules) >= 3 * len(LABS)
    for file, name, pattern in rules:
        takes, refuses = RULES["region" if name.endswith("region") else name]
        # As RE2 reads it, in which no line break may follow.
        rule = re.compile(pattern.removesuffix("$") + r"\Z")
        assert any(rule.match(one) for one in takes), (file, name)
        assert not [one for one in refuses if rule.match(one)], (file, name)


@pytest.mark.acceptance
def test_zone_pairs_are_compared_without_far_host(zones):
    far, *others = ("3", "1", "2") if zones.cloud == "azure" else ("c", "a", "b")
    told = zones.told(other_region="", zones=[far, *others])
    pairs = [f"cross-zone-{far}-{one}" for one in others] + [f"cross-zone-{others[0]}-{others[1]}"]
    assert [s["label"] for s in told["scenarios"]] == ["same-host", "same-zone", *pairs]
    servers = {f"server-zone-{zone}" for zone in (far, *others)}
    assert {h["name"] for h in told["hosts"]} == {"client", *servers}


@pytest.mark.acceptance
def test_ssh_has_no_default(zones):
    done = zones("plan", "-input=false", f"-var=expires={GIVEN['expires']}", check=False)
    assert 'variable "ssh_from" is not set' in done.stderr
    assert 'variable "ssh_public_key" is not set' in done.stderr


@pytest.mark.parametrize("cloud", PROVIDERS)
def test_schemas_are_of_what_the_labs_use(cloud):
    schemas = json.loads((STAND_IN / f"schemas/{PROVIDERS[cloud]}.json").read_text())
    for kind, key in (("resource", "resource_schemas"), ("data", "data_source_schemas")):
        used = set(re.findall(rf'^{kind} "(\w+)"', texts(cloud), re.MULTILINE))
        assert set(schemas.get(key, {})) == used
    assert schemas["module"].startswith(f"github.com/hashicorp/terraform-provider-{PROVIDERS[cloud]}@v")


def test_every_root_stands_in_the_docs():
    text = (ROOT / "docs/cloud.md").read_text()
    named = {(cloud, root): root if cloud == "azure" else f"{cloud}-{root}" for cloud, root in LABS}
    assert [one for one, name in named.items() if f"`{name}`" not in text] == []
