"""Queries of a real PostgreSQL in the report: the JSON has what `fathom recording summary` says of them, and
the page what the JSON has.
"""

import json
import subprocess

import pytest

from fathometer.findings.words import within
from support.command_line import run
from support.postgres import ask
from support.programs import LIMIT, fathom
from support.rate import assert_rate
from support.report_schema import keeps_to_schema

ASKED = {
    "asleep": ["--count", "21", "--query", "SELECT pg_sleep(0.02)"],
    "pieces": ["--count", "6", "--rows", "500", "--fetch-size", "10"],
    "working": ["--count", "4", "--rows", "50", "--think", "1ms"],
    "wrong": ["--query", "SELECT 1 / 0"],
}


@pytest.fixture(scope="module")
def asked(database, tmp_path_factory):
    """The recordings, what the live runs said, and the report."""
    root = tmp_path_factory.mktemp("databases")
    live = {}
    for name, arguments in ASKED.items():
        ran = ask(database, *arguments, "--record", root / "kept" / name)
        assert ran.returncode == (name == "wrong"), ran.stderr
        live[name] = json.loads(ran.stdout)
    page, text, file = root / "report.html", root / "report.md", root / "report.json"
    ran = run("report", root / "kept", "--json-file", file, "--markdown", text, "-o", page)
    assert ran.returncode == 0, ran.stderr
    value = json.loads(file.read_text())
    keeps_to_schema(value)
    return root / "kept", live, value, page.read_text(), text.read_text()


def of(value, kept, name):
    identity = json.loads((kept / name / "recording.json").read_text())["id"]
    (row,) = [row for row in value["databases"] if row["recordings"] == [identity]]
    return row


@pytest.mark.parametrize("name", ASKED)
def test_report_matches_run_and_summary(asked, name):
    kept, live, value, _, _ = asked
    summary = subprocess.run(
        [fathom(), "recording", "summary", "--json", kept / name],
        capture_output=True,
        check=True,
        timeout=LIMIT,
    )
    told, row = json.loads(summary.stdout)["queries"], of(value, kept, name)
    assert told == live[name]
    same = ("queries", "failed", "failures", "cancelled", "retransmits", "sent_again")
    assert {n: row[n] for n in same} == {n: told[n] for n in same}
    verdict = {"party": row["party"], "confidence": row["confidence"] or "none"}
    assert verdict == told["verdict"]
    assert row["counted"] == told["wall_ns"]["count"]
    if row["mean_ns"] is None:
        assert told["mean_ns"] is None
        return
    assert row["mean_ns"]["wall"] == pytest.approx(told["mean_ns"]["wall"], abs=1)
    for party in ("server", "path", "client"):
        for end in ("low", "high"):
            assert row["mean_ns"][party][end] == pytest.approx(told["mean_ns"][party][end], abs=1)


def findings_of(value):
    return {f["recording"]: f for f in value["findings"] if f["kind"].startswith("quer")}


def test_query_findings_match_their_rows(asked):
    kept, _, value, _, _ = asked
    for name in ASKED:
        row = of(value, kept, name)
        finding = findings_of(value)[row["recordings"][0]]
        if name == "wrong":
            assert finding["statement"].endswith("1 of 1 query failed")
            assert finding["evidence"] == ["SQLSTATE 22012: 1 query"]
        elif finding["kind"] == "query time":
            assert finding["confidence"] == row["confidence"]
            bounds = row["mean_ns"][row["party"]]
            assert f"{within(bounds['low'], bounds['high'])} were the {row['party']}" in finding["statement"]
        else:
            # On a busy host no party may be sure.
            assert finding["kind"] in {"query time open", "query time likely"}


@pytest.mark.acceptance
def test_half_a_second_asleep_is_the_server(database, tmp_path):
    runs = iter(range(3))

    def measured():
        # Longer than a lost answer takes to come again.
        kept = tmp_path / str(next(runs)) / "asleep"
        ran = ask(database, "--count", "4", "--query", "SELECT pg_sleep(0.5)", "--record", kept)
        assert ran.returncode == 0, ran.stderr
        value = json.loads(run("report", kept, "--json").stdout)
        (finding,) = findings_of(value).values()
        assert (finding["kind"], finding["confidence"]) == ("query time", "high")
        assert "were the server" in finding["statement"]

    assert_rate(2, 3, measured)


def asked_in(row):
    """As Markdown has it."""
    return f"({row['asked']})".replace("_", "\\_")


def test_page_has_row_and_chart_per_query(asked):
    kept, _, value, page, text = asked
    section = text.split("## Databases\n")[1].split("\n## ")[0]
    for name in ASKED:
        row = of(value, kept, name)
        (line,) = [line for line in section.splitlines() if asked_in(row) in line]
        if row["mean_ns"]:
            for party in ("server", "path", "client"):
                bounds = row["mean_ns"][party]
                assert f"| {within(bounds['low'], bounds['high'], ' … ')} |" in line
    html = page.split('<section id="databases">')[1].split("</section>")[0]
    assert html.count("<svg") >= 1
    assert "Whose time a query takes" in html
