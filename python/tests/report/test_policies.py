"""Applications under policies in a report: held against what the Rust half counts and ranks by itself, of the
same runs.
"""

import json
import re
import shutil
import subprocess
from functools import cache
from types import SimpleNamespace

import pytest

from fathometer.findings.policies import FIGURES, Compared, PolicyComparison
from fathometer.findings.policy_words import reasons, verdict
from fathometer.stats.repeated import Mean
from support.command_line import run
from support.programs import fathom
from support.recordings import START, lognormal_ns, write
from support.report_schema import keeps_to_schema

SCENARIO = """
format = 1
name = "troubles"
seed = 1

[[host]]
name = "app"
address = "10.90.1.4"

[[host]]
name = "db"
address = "10.90.2.4"

[[path]]
label = "way"
from = "app"
to = "db"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[[event]]
at = "1m"
kind = "live-migration"
host = "db"
brownout = "10s"
brownout-added = "1ms"
freeze = "4s"
redirect = "20s"
redirect-added = "2ms"
then = "silent"

[[event]]
at = "150s"
kind = "link-cut"
path = "way"
duration = "30s"

[simulate]
for = "5m"

[[simulate.restart]]
host = "db"
at = "4m"
for = "20s"
"""
POLICIES = {
    "patient": "",
    "again": "[request]\nidempotent = true\ntry_timeout = '1s'\n[retry]\nat_most = 3\n",
    "breaking": "[request]\ntry_timeout = '1s'\ndeadline = '3s'\n"
    "[breaker]\nwindow = '10s'\nleast = 3\nopen = '5s'\ntrials = 1\n[fallback]\nlast_answer = '1m'\n",
}
AGAIN = POLICIES["again"]
WEIGHS = ("failed", "latency", "load")
RUNS = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Recordings of three policies in four runs, and what the simulation itself says of them, by weigh."""
    root = tmp_path_factory.mktemp("policies")
    (root / "s.toml").write_text(SCENARIO)
    files = []
    for name, text in POLICIES.items():
        (root / f"{name}.toml").write_text(text)
        files += ["--as-client", root / f"{name}.toml"]

    @cache
    def told(weigh):
        where = ["--record", root / "recordings"] if weigh == "failed" else []
        command = [fathom(), "fabric", "simulate", root / "s.toml", *files, "--rate", "2"]
        command += ["--repeat", str(RUNS), "--weigh", weigh, "--json", *where]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(ended.stdout.splitlines()[0])

    told("failed")
    return SimpleNamespace(root=root, recordings=root / "recordings", told=told, reports={})


def reported(made, *options):
    """The JSON as text and the Markdown; made once of the same options."""
    if options not in made.reports:
        file = made.root / "report.json"
        ended = run("report", made.recordings, "--json-file", file, "--markdown", "-", *options)
        assert ended.returncode == 0, ended.stderr
        made.reports[options] = file.read_text(), ended.stdout
    return made.reports[options]


def report(made, *options):
    return json.loads(reported(made, *options)[0])


def test_the_schema_describes_all_of_it(made):
    keeps_to_schema(report(made))


def test_rows_reproduce_client_end_totals(made):
    """Counts, percentiles and connections, by the rows and events alone: all that its end says but what the
    file system called it.
    """
    applications = {a["recording"]: a for a in report(made)["applications"]}
    seen = 0
    for directory in made.recordings.glob("run-*/*/way"):
        manifest = json.loads((directory / "recording.json").read_text())
        lines = (directory / "events.jsonl").read_text().splitlines()
        told = next(e["result"] for e in map(json.loads, lines) if e["kind"] == "client.ended")
        mine = applications[manifest["id"]]
        for name in set(told) - {"format", "kind", "target", "recording", "in_flight"}:
            assert mine[name] == told[name], (directory, name)
        ends = ("answered", "failed", "ambiguous", "shed", "fallback", "not_known")
        assert mine["due"] == sum(mine[name] for name in ends)
        seen += 1
    assert seen == RUNS * len(POLICIES)


@pytest.mark.parametrize("weigh", WEIGHS)
def test_policies_are_ranked_as_the_simulation_ranks_them(made, weigh):
    theirs = made.told(weigh)
    (mine,) = report(made, "--weigh", weigh)["policies"]
    assert (mine["path"], mine["runs"], mine["weigh"], mine["paired"]) == ("way", RUNS, weigh, True)
    ranks = [{p["name"]: p["rank"] for p in of["policies"]} for of in (mine, theirs)]
    assert ranks[0] == ranks[1]
    by_name = {p["name"]: p for p in mine["policies"]}
    for p in theirs["policies"]:
        figures = {name for name, value in p.items() if isinstance(value, dict)}
        assert {"unserved", "unservable", "waited_p99_ns", "notice_p50_ns"} <= figures
        for name in figures:
            got = by_name[p["name"]][name]
            if got is None:
                assert p[name]["mean"] is None, (p["name"], name)
                continue
            for part in ("mean", "low", "high"):
                assert got[part] == pytest.approx(p[name][part], rel=1e-6, abs=1e-9), (p["name"], name)


def test_unservable_share_is_reported(made):
    """The cut of 30 s and the restart of 20 s leave something that no policy can serve."""
    (mine,) = report(made)["policies"]
    assert all(p["unservable"]["mean"] > 0.02 for p in mine["policies"])
    assert all(
        p["unserved"]["mean"] >= p["unservable"]["mean"]
        for p in mine["policies"]
        if p["fallback"]["mean"] == 0
    )


def test_overlapping_events_match_the_simulation(tmp_path):
    """Cuts one way and the other, pauses of both ends and restarts of both, also beyond the end."""
    cut = "[[event]]\nkind = 'link-cut'\npath = 'way'\n"
    pause = "[[event]]\nkind = 'host-pause'\n"
    events = (
        cut + "at = '10s'\nduration = '10s'\ndirection = 'backward'\n",
        cut + "at = '19s'\nduration = '6s'\ndirection = 'forward'\n",
        pause + "at = '100s'\nduration = '10s'\nhost = 'db'\n",
        pause + "at = '105s'\nduration = '15s'\nhost = 'app'\n",
        pause + "at = '295s'\nduration = '8s'\nhost = 'db'\n",
        "[[simulate.restart]]\nhost = 'db'\nat = '15s'\nfor = '10s'\n",
        "[[simulate.restart]]\nhost = 'app'\nat = '200s'\nfor = '100s'\n",
    )
    (tmp_path / "s.toml").write_text(SCENARIO + "".join(events))
    (tmp_path / "p.toml").write_text("[request]\ndeadline = '5s'\n")
    command = [fathom(), "fabric", "simulate", tmp_path / "s.toml", "--as-client", tmp_path / "p.toml"]
    command += ["--rate", "2", "--json", "--record", tmp_path / "r"]
    (theirs,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["policies"]
    (mine,) = json.loads(run("report", tmp_path / "r", "--json").stdout)["applications"]
    assert mine["unservable"] == round(theirs["unservable"]["mean"] * theirs["due"]) > 60
    assert mine["answered"] <= mine["due"] - mine["unservable"]


def test_unservable_is_unknown_without_truth(made, tmp_path):
    for directory in made.recordings.glob("run-*/again/way"):
        shutil.copytree(directory, tmp_path / directory.parent.parent.name)
    ended = run("report", tmp_path, "--json")
    assert [a["unservable"] for a in json.loads(ended.stdout)["applications"]] == [None] * RUNS


def test_policy_report_has_no_path_sections(made, tmp_path):
    """Tries are no samples of a path: they have no level that moves, no p50 that is a path's, and no advice
    but what their own rate asks for.
    """
    value = report(made)
    for name in (
        "scenarios",
        "comparisons",
        "changes",
        "ends",
        "findings",
        "incidents",
        "consistency",
    ):
        assert value[name] == [], name
    assert {a["topic"] for a in value["advice"]} <= {"breaker"}
    page, text = tmp_path / "r.html", tmp_path / "r.md"
    assert run("report", made.recordings / "run-1", "-o", page, "--markdown", text).returncode == 0
    for words in (re.sub(r"<[^>]*>", " ", page.read_text()), text.read_text()):
        assert "Policies compared" in words
        assert "What became of requests" in words
        for nonsense in ("Round trips", "Figures", "Consistency", "What happened", "Nothing happened"):
            assert nonsense not in words, nonsense


def test_report_names_the_best_policy_and_why(made):
    _, words = reported(made)
    best = next(p for p in made.told("failed")["policies"] if p["rank"] == 1)["name"]
    assert f"{best} did best by requests that were not served" in words
    assert "over 4 repetitions" in words
    assert "with 95 % confidence" in words
    assert "nobody could have served" in words.lower()
    assert "up to 3 more tries, after waits that grow from 100 ms to 2 s" in words
    assert "a circuit breaker: where 50.0 % of at least 3 tries within 10 s failed" in words


def test_single_run_gets_a_statement_without_ranking(made):
    (directory,) = list(made.recordings.glob("run-1/patient/way"))
    value = json.loads(run("report", directory, "--json").stdout)
    (one,) = value["applications"]
    assert value["policies"] == []
    served = one["answered"] + one["fallback"]
    assert one["statement"].startswith(f"way, patient: {served:,} of {one['due']:,} requests")
    assert "nothing is tried again" in one["settings"]


def test_samples_and_applications_stay_separate(made, tmp_path):
    """A recording of a path that lies beside is reported as if it were alone."""
    write(tmp_path / "samples", lognormal_ns(1, 400))
    alone = json.loads(run("report", tmp_path / "samples", "--json").stdout)
    both = json.loads(run("report", tmp_path / "samples", made.recordings / "run-1", "--json").stdout)
    assert both["scenarios"] == alone["scenarios"]
    assert both["findings"] == alone["findings"]
    assert len(both["applications"]) == len(POLICIES)


def test_round_trips_of_tries_are_not_compared(made):
    ended = run("compare", *made.recordings.glob("run-1/*/way"))
    assert ended.returncode == 1
    assert "compare policies with `fathom report`" in ended.stderr


def test_changes_refuses_client_recordings(made):
    (directory,) = made.recordings.glob("run-1/patient/way")
    for options in ((), ("--follow",)):
        ended = run("changes", directory, *options)
        assert ended.returncode == 1
        assert "says what became of its requests" in ended.stderr


def test_rollup_names_the_applications_left_out(made, tmp_path):
    alone = run("rollup", made.recordings / "run-1", "--output", tmp_path / "none")
    assert alone.returncode == 1
    assert "`fathom report` reads them as they are" in alone.stderr
    write(tmp_path / "samples", lognormal_ns(1, 400))
    both = run("rollup", tmp_path / "samples", made.recordings / "run-1", "--output", tmp_path / "some")
    assert both.returncode == 0
    assert f"{len(POLICIES)} recordings of applications under policies left out" in both.stderr


def test_an_unknown_weight_is_wrong_usage(made):
    ended = run("report", made.recordings, "--weigh", "speed")
    assert ended.returncode == 2
    assert "--weigh 'speed' is none of failed, latency, load" in ended.stderr


def test_uncertain_policy_ties_with_best_despite_rank():
    """A later rank is that of another policy, which is told apart from the best; this one is not."""
    none = dict.fromkeys(FIGURES)
    places = [("a", 1, None), ("b", 2, Mean(1.0, 0.5, 1.5, 5)), ("c", 2, Mean(2.0, -1.0, 5.0, 5))]
    comparison = PolicyComparison(
        "way",
        "load",
        "load",
        True,
        tuple(Compared(name, {}, rank, more, 5, 9, none) for name, rank, more in places),
    )
    assert verdict(comparison).endswith("; not told apart from it: c")
    worse, unsure = reasons(comparison)
    assert worse.startswith("b: it makes more")
    assert unsure.startswith("c: not told apart from a, though from one between them")


def comparison_of(runs, behind, left_out=0, unserved=0.5):
    none = dict.fromkeys(FIGURES) | {
        "unserved": Mean(unserved, None, None, 1),
        "unservable": Mean(0, 0, 0, 2),
    }
    every = tuple(
        Compared(name, {}, 1, more, number, 9, none)
        for name, more, number in zip("ab", (None, behind), runs, strict=True)
    )
    return PolicyComparison("way", "failed", "unserved", True, every, left_out)


def test_equal_policies_have_no_best():
    same = comparison_of((1, 1), Mean(0, None, None, 1))
    want = (
        "way: no difference between the policies by requests that were not served (50.0 %), over 1 repetition"
    )
    assert verdict(same) == want
    none_lost = comparison_of((3, 3), Mean(0, 0, 0, 3), unserved=0.0)
    assert not any("another policy might have served" in reason for reason in reasons(none_lost))


def test_missing_repetitions_are_named():
    words = verdict(comparison_of((2, 6), Mean(0.1, -0.1, 0.3, 2), left_out=4))
    assert "2 to 6 repetitions" in words
    assert words.endswith("left out: 4 recordings without the end of every request")


def test_truncated_events_exclude_the_run(made, tmp_path):
    """A copy that broke off at a line's end looked whole, and its policy better for what it had lost."""
    for name in ("run-1", "run-2"):
        shutil.copytree(made.recordings / name, tmp_path / "r" / name)
    events = tmp_path / "r" / "run-2" / "patient" / "way" / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join(lines[: len(lines) // 2]))
    file = tmp_path / "r.json"
    ended = run("report", tmp_path / "r", "--json-file", file, "--markdown", "-")
    (mine,) = json.loads(file.read_text())["policies"]
    assert {p["name"]: p["runs"] for p in mine["policies"]} == {n: 2 - (n == "patient") for n in POLICIES}
    assert (mine["left_out"], mine["paired"]) == (1, False)
    assert "part of it cannot be read" in ended.stdout


def test_short_runs_rank_by_longest_wait(made, tmp_path):
    (tmp_path / "s.toml").write_text(SCENARIO)
    command = [fathom(), "fabric", "simulate", tmp_path / "s.toml", "--rate", "2", "--for", "20s", "--json"]
    for name in POLICIES:
        command += ["--as-client", made.root / f"{name}.toml"]
    ended = subprocess.run([*command, "--record", tmp_path / "short"], capture_output=True, check=True)
    assert all(p["waited_p99_ns"]["mean"] is None for p in json.loads(ended.stdout)["policies"])
    told = json.loads(run("report", tmp_path / "short", "--weigh", "latency", "--json").stdout)
    (mine,) = told["policies"]
    assert all(p["waited_p99_ns"] is None and p["waited_max_ns"] for p in mine["policies"])
    assert "as not every run has enough requests for a p99" in mine["statement"]


HOSTILE = {
    "policy of numbers": [{"policy": 7}, []],
    "rules of words": [{"policy": {"requests": "x", "retry": [], "pool": {"max": "many"}, "breaker": 1}}, []],
    "times beyond all": [{"policy": {"requests": {"deadline_ns": 1 << 62}}}, []],
    "no interval": [{"interval_ns": 0}, []],
    "a number beyond all": [{}, [{"request": 1 << 62, "waited_ns": 1}]],
    "a wait beyond all": [{}, [{"request": 3, "waited_ns": (1 << 63) - 1}]],
    "a number beyond 64 bits": [{}, [{"request": 1 << 70, "waited_ns": 1 << 70}]],
}


@pytest.mark.parametrize("probe", HOSTILE)
def test_hostile_recording_gives_report_or_error(tmp_path, probe):
    given, ends = HOSTILE[probe]
    events = [
        {"at_ns": START + n, "kind": "request.ended", "outcome": "failed", "tries": 1, **end}
        for n, end in enumerate(ends)
    ]
    made = {"mode": "tcp-client", "size": 64, "interval_ns": 1_000_000_000, **given}
    tags = {"from": "a", "to": "b", "via": None, "tags": {"policy": "<b>x</b>", "fabric-places": "a,b"}}
    manifest = {"probe": made, "path": tags}
    for name in "ab":
        write(tmp_path / name, lognormal_ns(1, 50), events=events, manifest=manifest, label=name)
    (tmp_path / "truth.jsonl").write_text(
        '{"kind":"truth.started","at":"2020-01-01T00:00:00Z"}\n[]\n{"event.\n'
    )
    ended = run("report", tmp_path, "-o", tmp_path / "r.html", "--json-file", tmp_path / "r.json")
    assert "Traceback" not in ended.stderr
    assert ended.returncode in {0, 1}
    if ended.returncode == 0:
        assert "<b>x</b>" not in (tmp_path / "r.html").read_text()
        keeps_to_schema(json.loads((tmp_path / "r.json").read_text()))
    else:
        told = ended.stderr.splitlines()
        assert 1 <= len(told) <= 3
        assert all(str(tmp_path) in line or "none of" in line for line in told), told


def test_of_one_repetition_no_policy_is_called_best(made, tmp_path):
    """The strip named one, and the sentence beneath it said that one repetition cannot tell."""
    file = tmp_path / "r.json"
    words = run("report", made.recordings / "run-1", "--json-file", file, "--markdown", "-").stdout
    (mine,) = json.loads(file.read_text())["policies"]
    assert mine["runs"] == 1
    assert "a single repetition cannot tell" in mine["statement"]
    (tile,) = [line for line in words.splitlines() if line.startswith("- Best polic")]
    assert "not told apart" in tile
    assert "1 repetition" in tile
    assert "did best" not in words
    rows = words.partition("## Policies compared")[2].splitlines()
    ranks = [row.split("|")[2].strip() for row in rows if row.startswith("|") and "way" in row]
    assert ranks[: len(POLICIES)] == ["–"] * len(POLICIES)


def recorded(root, name, number, rate, policy):
    """A recording of a policy in one run of the scenario."""
    directory = root / f"{name}-{number}"
    directory.mkdir(parents=True)
    (directory / "s.toml").write_text(SCENARIO)
    file = directory / f"{name}.toml"
    file.write_text(policy)
    command = [fathom(), "fabric", "simulate", directory / "s.toml", "--as-client", file, "--rate", str(rate)]
    command += ["--seed", str(number), "--record", directory / "r"]
    subprocess.run(command, capture_output=True, check=True)


def test_changed_policy_file_is_two_policies(tmp_path):
    for number, policy in ((1, ""), (2, ""), (3, AGAIN), (4, AGAIN)):
        recorded(tmp_path, "moved", number, 2, policy)
    (mine,) = json.loads(run("report", tmp_path, "--json").stdout)["policies"]
    assert {p["name"]: p["runs"] for p in mine["policies"]} == {"moved": 2, "moved (2)": 2}
    assert mine["changed"] == {"moved": ["moved", "moved (2)"]}
    assert (
        "moved names 2 policies that differ, and they are not pooled: moved and moved (2)"
        in mine["statement"]
    )


def test_different_rates_compare_per_request(tmp_path):
    """One at four times the rate of the other loses four times as many requests, and no more of them."""
    for number in (1, 2):
        recorded(tmp_path, "slow", number, 1, "")
        recorded(tmp_path, "fast", number, 4, "")
        recorded(tmp_path, "same", number, 1, AGAIN)
    value = json.loads(run("report", tmp_path, "--json").stdout)
    (mine,) = value["policies"]
    by_name = {p["name"]: p for p in mine["policies"]}
    assert {n: p["interval_ns"] for n, p in by_name.items()} == {
        "slow": 1_000_000_000,
        "same": 1_000_000_000,
        "fast": 250_000_000,
    }
    assert "different rates of requests" in mine["statement"]
    assert "fast 4 a second" in mine["statement"]
    shares = [by_name[name]["unserved"]["mean"] for name in ("slow", "fast")]
    assert shares[0] == pytest.approx(shares[1], rel=0.25)
    # Of connections one run makes as many as it has requests for: they are not held together.
    assert not any("of connections it makes" in reason for reason in mine["reasons"])


def test_one_policy_at_two_rates_is_two(tmp_path):
    recorded(tmp_path, "one", 1, 1, "")
    recorded(tmp_path, "one", 2, 4, "")
    (mine,) = json.loads(run("report", tmp_path, "--json").stdout)["policies"]
    assert {p["name"] for p in mine["policies"]} == {"one at 1/s", "one at 4/s"}
    assert mine["changed"] == {}
