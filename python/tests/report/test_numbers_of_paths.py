"""Limits, interruptions and policies by path: the JSON has the numbers of the recordings, and the page those
of the JSON.
"""

import json
import subprocess
from itertools import dropwhile, takewhile

import pytest

from fathometer.findings.words import duration, share
from support.command_line import run
from support.programs import fathom
from support.report_schema import keeps_to_schema
from support.rounds import MS, path
from support.searches import SECOND, runs, unanswered

SCENARIO = """
format = 1
name = "two ways"
seed = 1

[[host]]
name = "app"
address = "10.90.1.4"

[[host]]
name = "db"
address = "10.90.2.4"

[[host]]
name = "other"
address = "10.90.3.4"

[[path]]
label = "calm"
from = "app"
to = "db"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[[path]]
label = "cut"
from = "app"
to = "other"
rtt = { min = "700us", mean = "1ms", p95 = "1.4ms" }

[[event]]
at = "2m"
kind = "link-cut"
path = "cut"
duration = "30s"

[simulate]
for = "5m"
"""
POLICIES = {
    "patient": "[request]\ntry_timeout = '40s'\ndeadline = '40s'\n[pool]\nwait = '40s'\n",
    "hasty": "[request]\ntry_timeout = '1s'\ndeadline = '1s'\n",
}


def report(directory, tmp_path):
    """The JSON, which keeps to its schema, and the Markdown."""
    file = tmp_path / "report.json"
    ran = run("report", directory, "--json-file", file, "--markdown", "-")
    assert ran.returncode == 0, ran.stderr
    value = json.loads(file.read_text())
    keeps_to_schema(value)
    return value, ran.stdout


def table(text, title):
    """A section's rows, as head -> cell."""
    lines = iter(text.split(f"## {title}\n")[1].splitlines())
    lines = takewhile(is_row, dropwhile(lambda line: not is_row(line), lines))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def is_row(line):
    """Whether it belongs to a table."""
    return line.startswith("|")


def test_limits_match_searches_in_json_and_page(tmp_path):
    runs(tmp_path / "r" / "short", (1, 2), (1.5, 2.5))
    runs(tmp_path / "r" / "long", (5, 6))
    runs(tmp_path / "r" / "none", (9, None))
    value, text = report(tmp_path / "r", tmp_path)
    short, long, none = value["limits"]
    assert [x["path"] for x in value["limits"]] == ["short", "long", "none"]
    assert short["survived"] == {"length_ns": SECOND, "hits": 6, "of": 6}
    assert short["died"] == {"length_ns": round(2.5 * SECOND), "hits": 6, "of": 6}
    assert (short["limit"], short["runs"], short["how"], short["sure"]) == ("idle", 2, {"silent": 6}, True)
    assert (none["died"], none["how"]) == (None, {})
    assert [sorted(x["differs_from"]) for x in (short, long, none)] == [
        ["long", "none"],
        ["none", "short"],
        ["long", "short"],
    ]
    for mine, row in zip(value["limits"], table(text, "Limits"), strict=True):
        ends = {"survived, or carried": mine["survived"], "died of, or too much": mine["died"]}
        for head, end in ends.items():
            shown = "–" if end is None else duration(end["length_ns"])
            assert row[head].startswith(shown)
            assert end is None or f"{end['hits']} of {end['of']}" in row[head]
        assert mine["path"] in row["path"]
        assert all(name in row["differs from"] for name in mine["differs_from"])


def test_acknowledged_but_unanswered_is_no_limit(tmp_path):
    unanswered(tmp_path / "r" / "ignored", 3.5, 4)
    runs(tmp_path / "r" / "short", (1, 2))
    value, text = report(tmp_path / "r", tmp_path)
    short, ignored = value["limits"]
    assert (ignored["path"], ignored["died"], ignored["unanswered_ns"]) == ("ignored", None, 4 * SECOND)
    assert (ignored["how"], ignored["by"], ignored["sure"]) == ({"not_answered": 3}, [], False)
    assert "unanswered_ns" not in short
    _, row = table(text, "Limits")
    assert "not answered after 4.00 s" in row["limit"]
    assert row["how"] == "acknowledged, not answered"
    assert not [a for a in value["advice"] if "ignored" in a["paths"]]


def test_interruptions_match_runs_in_json_and_page(tmp_path):
    path(tmp_path / "r", "stalls", [50, 51, 52])
    path(tmp_path / "r", "ends", [9000, 9100, 20], died=(1, 2))
    value, text = report(tmp_path / "r", tmp_path)
    by_name = {x["path"]: x for x in value["interruptions"]}
    assert set(by_name) == {"stalls", "ends"}
    assert by_name["stalls"]["longest_wait_ns"]["mean"] == 51 * MS
    assert by_name["ends"]["longest_wait_ns"]["mean"] == pytest.approx((9000 + 9100 + 20) / 3 * MS)
    assert (by_name["ends"]["ended"], by_name["ends"]["connections"]) == (2, 3)
    assert by_name["ends"]["verdicts"] == {"flow_forgotten": 2}
    for mine, row in zip(value["interruptions"], table(text, "Interruptions"), strict=True):
        assert row["path"].startswith(mine["path"])
        assert row["rank"] == str(mine["rank"])
        assert row["longest wait of a run"].startswith(duration(mine["longest_wait_ns"]["mean"]))
        shown = f"{mine['ended']:,}" if mine["ended"] else "none"
        assert row["connections that ended"] == f"{shown} of {mine['connections']:,}"
        assert all(f"({n})" in row["why they ended"] for n in mine["verdicts"].values())


def test_unserved_by_policy_matches_simulation(tmp_path):
    (tmp_path / "s.toml").write_text(SCENARIO)
    command = [fathom(), "fabric", "simulate", tmp_path / "s.toml", "--rate", "2", "--repeat", "3"]
    for name, policy in POLICIES.items():
        (tmp_path / f"{name}.toml").write_text(policy)
        command += ["--as-client", tmp_path / f"{name}.toml"]
    ran = subprocess.run([*command, "--json", "--record", tmp_path / "r"], capture_output=True, check=True)
    theirs = [json.loads(line) for line in ran.stdout.splitlines()]
    want = {(c["path"], p["name"]): p["unserved"]["mean"] for c in theirs for p in c["policies"]}
    value, text = report(tmp_path / "r", tmp_path)
    mine = {(x["path"], p["name"]): p for x in value["policy_paths"] for p in x["policies"]}
    assert set(mine) == set(want)
    for key, p in mine.items():
        assert p["unserved_share"]["mean"] == pytest.approx(want[key]), key
    assert {key for key, p in mine.items() if p["best"]} == {("cut", "patient")}
    rows = {row["path"]: row for row in table(text, "Requests not served, by path and policy")}
    for (way, name), p in mine.items():
        mean = p["unserved_share"]["mean"]
        assert rows[way][name].startswith(share(mean) if mean else "0")
        assert ("best" in rows[way][name]) == p["best"]


def test_inapplicable_sections_are_empty_in_json(tmp_path):
    path(tmp_path / "r", "alone", [50])
    value, _ = report(tmp_path / "r", tmp_path)
    assert [value[name] for name in ("limits", "interruptions", "policy_paths")] == [[], [], []]
