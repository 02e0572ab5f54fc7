"""Applications under policies in a study: what is refused, what is planned, and runs of them on this machine,
in a fabric and over SSH.
"""

import json
import re
from pathlib import Path

import pytest

from fathometer.dataset import open_recording, open_recordings
from fathometer.errors import FathometerError
from fathometer.findings.policies import applications, compared
from fathometer.study.journal import read_journal
from fathometer.study.outline import outline_of, title_of
from fathometer.study.plan import QUICK_NS, estimate_ns, plan, quick
from fathometer.study.policy_file import places
from fathometer.study.read import POLICY_TABLES, notes, parse, read_study
from fathometer.study.run import run_study
from support.programs import ROOT, fathom, free_port, need_fabrics

S = 1_000_000_000
HEAD = """\
format = 1
name = "two"

[[host]]
name = "here"
local = true

[[scenario]]
label = "a"
from = "here"
to = "here"
port = 17007
"""
ONE = """
[[policy]]
name = "plain"
file = "plain.toml"
for = "2s"
rate = 20
"""
TWO = ONE + ONE.replace("plain", "again")
AGAIN = "[request]\nidempotent = true\n[retry]\nat_most = 2\n"


@pytest.fixture
def beside(tmp_path):
    """A directory with the policies that the studies here name."""
    (tmp_path / "plain.toml").write_text("")
    (tmp_path / "again.toml").write_text(AGAIN)
    return tmp_path


def told(text, directory):
    return [(p.line, p.column, p.what, p.remedy) for p in parse(text, directory)[1]]


def test_a_study_of_policies_alone_has_no_problem(beside):
    study, problems = parse(HEAD + TWO, beside)
    assert problems == []
    # Twenty rounds, as two are compared, and a note where there are fewer.
    assert (study.rounds, study.compares, notes(study)) == (20, True, [])
    assert len(notes(parse("repetitions = 3\n" + HEAD + TWO, beside)[0])) == 1


# Line and column are counted by hand in HEAD + TWO, with the change made.
@pytest.mark.parametrize(
    ("old", "new", "line", "column", "what", "remedy"),
    [
        ('file = "again.toml"', 'file = "gone.toml"', 22, 1, "gone.toml: No such file", "check the path"),
        ('file = "again.toml"', 'file = "."', 22, 1, "no regular file", "docs/policies.md"),
        ('file = "again.toml"', 'fil = "again.toml"', 22, 1, "policy.fil", "did you mean `file`"),
        ('name = "again"', 'name = "plain"', 21, 1, 'two policies are called "plain"', "rename one"),
        ('name = "again"', 'name = "a/b"', 21, 1, "a/b", "letters, digits"),
        ('name = "again"', "", 20, 1, "policy.name", "add `name"),
    ],
)
def test_mistake_has_position_and_remedy(beside, old, new, line, column, what, remedy):
    assert TWO.count(old) == 1
    found = told(HEAD + TWO.replace(old, new), beside)
    assert any(f[:2] == (line, column) and what in f[2] and remedy in f[3] for f in found), found


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('for = "2s"', "", 14, "policy.for"),
        ('for = "2s"', 'for = "2"', 17, "no duration"),
        ("rate = 20", "rate = 0", 18, "`policy.rate` cannot be 0"),
        ("rate = 20", "rate = 60000", 18, "60,000/s in all, above 50,000/s"),
        ("rate = 20", "rate = 20\nsize = 64", 19, "`policy.size` is not known"),
    ],
)
def test_wrong_keys_of_a_policy(beside, old, new, line, what):
    (found,) = told(HEAD + ONE.replace(old, new), beside)
    assert found[0] == line
    assert what in found[2]


def test_applications_side_by_side_are_counted_together(beside):
    text = HEAD + TWO.replace("rate = 20", "rate = 30000")
    assert told(text, beside) == []
    found = told('order = "side-by-side"\n' + text, beside)
    assert [(f[0], f[2].rpartition(" asks ")[2]) for f in found] == [
        (19, "60,000/s in all, above 50,000/s"),
        (25, "60,000/s in all, above 50,000/s"),
    ]


@pytest.mark.parametrize(
    ("policy", "where", "what"),
    [
        ("[retry]\nat_most = = 2\n", ":2:11", "Invalid value"),
        ("[retries]\nat_most = 2\n", "", "has no `retries`"),
        ("x" * (5 << 20), "", "is larger than 4 MiB"),
    ],
)
def test_what_is_wrong_with_a_policys_file(beside, policy, where, what):
    (beside / "plain.toml").write_text(policy)
    (found,) = told(HEAD + ONE, beside)
    assert found[:2] == (16, 1)
    assert f"plain.toml{where}" in found[2]
    assert what in found[2]


def test_policy_tables_match_documentation():
    """A table that `fathom` knows and `study check` does not would keep a study from being run."""
    page = (ROOT / "docs" / "policies.md").read_text()
    shown = page.split("\n## The file\n")[1].split("\n## The rules\n")[0]
    assert re.findall(r"^    \[(\w+)\]", shown, re.MULTILINE) == list(POLICY_TABLES)


def test_a_study_that_measures_nothing(beside):
    ((line, column, what, remedy),) = told(HEAD, beside)
    assert (line, column) == (1, 1)
    assert "it measures nothing" in what
    assert "[[policy]]" in remedy


def test_the_plan_counts_applications_too(beside):
    probe = "\n[[probe]]\nname = 'p'\ncount = 10\nevery = '100ms'\n"
    study, problems = parse("repetitions = 3\n" + HEAD + TWO + probe, beside)
    assert problems == []
    runs = plan(study)
    assert {str(r.directory.parent) for r in runs} == {
        "label=a/probe=p",
        "label=a/policy=plain",
        "label=a/policy=again",
    }
    assert len(runs) == 9
    # Two seconds each and half a second around it; a probe's is one second.
    assert estimate_ns(study, runs) == 3 * (2 * 2_500_000_000 + 1_500_000_000)
    side = study.model_copy(update={"order": "side-by-side"})
    assert estimate_ns(side, runs) == 3 * 2_500_000_000
    paths = outline_of(study, runs)["paths"]
    assert {(title_of(p["directory"]), p["runs"]) for p in paths} == {
        ("a  p", 3),
        ("a  plain", 3),
        ("a  again", 3),
    }
    short = plan(quick(study))
    assert len(short) == 6
    assert all(r.estimate_ns <= 2 * QUICK_NS for r in short)


def write(directory, text, port):
    file = directory / "study.toml"
    file.write_text(text.replace("17007", str(port)))
    return file


def test_policies_side_by_side_on_this_machine(beside, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    top = 'order = "side-by-side"\nrepetitions = 2\n'
    file = write(beside, top + HEAD.replace("to =", 'tags = { tier = "1" }\nto =') + TWO, free_port())
    output = beside / "out"
    assert run_study(file, output, Path(fathom()), True, lambda _: None) == 4
    recordings = open_recordings([output])
    for r in recordings:
        tags = r.manifest.path.tags
        assert (r.manifest.mode, tags["study"], tags["tier"]) == ("tcp-client", "two", "1")
        assert r.client.due == r.client.ended["answered"] == 20
        assert r.manifest.marks == ("quick",)
    entries = [e for e in read_journal(output) if e["kind"] == "run.finished"]
    assert [(e["samples"], e["answered"]) for e in entries] == [(20, 20)] * 4
    (comparison,) = compared(applications(recordings))
    assert (comparison.path, comparison.paired, comparison.runs) == ("a", True, 2)
    assert {p.name: p.settings["retry"] is None for p in comparison.policies} == {
        "plain": True,
        "again": False,
    }
    # Only an emulated path has a truth to say what could have been served.
    assert all(p.figures["unservable"] is None for p in comparison.policies)
    # A study goes on with what it was begun with: another policy is another study.
    (beside / "again.toml").write_text(AGAIN.replace("2", "3"))
    with pytest.raises(FathometerError, match="with another study file, scenario, policy"):
        run_study(file, output, Path(fathom()), True, lambda _: None)


def test_policy_error_is_the_failure_reason(beside, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    (beside / "plain.toml").write_text("[retry]\nat_most = 1\nfist = '1s'\n")
    file = write(beside, "repetitions = 1\n" + HEAD + ONE, free_port())
    with pytest.raises(FathometerError, match="1 of 1 run failed"):
        run_study(file, beside / "out", Path(fathom()), True, lambda _: None)
    (failed,) = [e for e in read_journal(beside / "out") if e["kind"] == "run.failed"]
    assert "plain.toml:3:1: " in failed["reason"]
    assert "fist" in failed["reason"]


FABRIC = """
format = 1
name = "cut"

[[host]]
name = "app"
address = "10.92.1.4"

[[host]]
name = "db-1"
address = "10.92.2.4"

[[host]]
name = "db-2"
address = "10.92.3.4"

[[middlebox]]
name = "balancer"
kind = "load-balancer"
address = "10.92.0.100"
backends = ["10.92.2.4", "10.92.3.4"]

[[path]]
label = "way"
from = "app"
to = "db-1"
source = "nobody's"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[[path]]
label = "balanced"
from = "app"
to = "db-2"
via = ["balancer"]
source = "nobody's"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[[event]]
at = "1s"
every = "6s"
times = 20
kind = "link-cut"
path = "way"
duration = "3s"
"""
EMULATED = """\
format = 1
name = "emulated"
repetitions = 1

[[host]]
name = "near"
fabric = { scenario = "cut.toml", host = "app" }

[[host]]
name = "far"
fabric = { scenario = "cut.toml", host = "db-1" }

[[host]]
name = "other"
fabric = { scenario = "cut.toml", host = "db-2" }

[[scenario]]
label = "cut"
from = "near"
to = "far"

[[scenario]]
label = "shared"
from = "near"
to = "other"

[[policy]]
name = "short"
file = "short.toml"
for = "12s"
rate = 10
"""


def test_application_places_use_fabric_names(tmp_path):
    """Names of the fabric, and not of the study. Behind a balancer of two another backend may serve."""
    (tmp_path / "cut.toml").write_text(FABRIC)
    (tmp_path / "short.toml").write_text("")
    study, problems = parse(EMULATED, tmp_path)
    assert problems == []
    found = {r.scenario.label: places(study, r, tmp_path) for r in plan(study)}
    assert found == {"cut": "way,app,db-1", "shared": "balanced,app,balancer"}


@pytest.mark.acceptance
def test_truth_counts_unservable_requests(tmp_path, monkeypatch):
    """Twelve seconds hold two cuts of 3 s. A caller waits for one second, so 10 a second for the first 2 s
    of a cut cannot be served: 20 and one of each cut that lies wholly within, whatever is served otherwise.
    """
    need_fabrics()
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    (tmp_path / "cut.toml").write_text(FABRIC)
    (tmp_path / "short.toml").write_text(
        "[request]\nidempotent = true\ndeadline = '1s'\ntry_timeout = '300ms'\n"
    )
    i = EMULATED.index('[[scenario]]\nlabel = "shared"')
    j = EMULATED.index("[[policy]]")
    file = tmp_path / "study.toml"
    file.write_text(EMULATED[:i] + EMULATED[j:])
    run_study(file, tmp_path / "out", Path(fathom()), False, lambda _: None)
    (one,) = applications(open_recordings([tmp_path / "out"]))
    truth = next((tmp_path / "out" / "truth").glob("*/truth.jsonl"))
    cuts = [e for e in map(json.loads, truth.read_text().splitlines()) if e.get("event") == "link-cut"]
    assert cuts
    # A cut that began before the first request, or lasts beyond the last, is a part of one.
    assert 20 <= one.unservable <= 3 * 21
    assert one.client.unserved >= one.unservable
    assert one.client.recovered is not None
    assert one.recording.manifest.path.tags["fabric-truth"] == truth.parent.name


@pytest.mark.acceptance
def test_ssh_policy_file_is_copied_and_removed(lab):
    (lab.file.parent / "again.toml").write_text(AGAIN)
    policy = "\n[[policy]]\nname = 'again'\nfile = 'again.toml'\nrate = 20\nfor = '1s'\n"
    lab.write([("a", "b"), ("here", "a")], probe=f"every = '5ms'\ncount = 40\n{policy}")
    lab.run()
    for label in ("a-b", "here-a"):
        recording = open_recording(lab.output / f"label={label}" / "policy=again" / "run=01")
        assert recording.client.policy["retry"]["at_most"] == 2
        assert recording.client.due == 20
    lab.assert_nothing_left()


def test_read_study_names_the_line(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(HEAD + ONE)
    with pytest.raises(FathometerError, match=r"s\.toml:16:1: policy .*plain\.toml"):
        read_study(path)
