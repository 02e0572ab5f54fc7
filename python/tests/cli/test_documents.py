"""README begins with what a stranger needs; docs/articles.md names files that are there, and true figures."""

import json
import re
import subprocess

import pytest

from support.programs import ROOT, fathom


def test_readme_starts_with_install_then_network_question():
    headings = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[:2] == ["## Install", "## Is it the network?"]


def test_each_article_has_its_study_and_its_figures():
    page = (ROOT / "docs" / "articles.md").read_text()
    # What comes last is of all of them: what `fathom check` says.
    articles = page.split("\n## ")[1:-1]
    assert len(articles) == 5
    for article in articles:
        title = article.split("\n")[0]
        studies = re.findall(r"studies/[a-z-]+\.toml", article)
        assert studies, f"{title}: no study"
        assert re.search(r"^\|.*\| published", article, re.MULTILINE), f"{title}: no published figure"
        for name in [*studies, *re.findall(r"scenarios/[a-z-]+\.toml", article)]:
            assert (ROOT / name).is_file(), f"{title}: {name} is not there"


@pytest.mark.acceptance
def test_articles_eleven_hour_figures_match_simulation():
    page = (ROOT / "docs" / "articles.md").read_text()
    command = [fathom(), "fabric", "simulate", ROOT / "scenarios" / "azure-eleven-hours.toml", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        summary = json.loads(line)
        name = summary["label"].replace("-", " ")
        rtt = summary["rtt_ns"]
        row = re.search(rf"\| {name}: samples, mean \|.*\| ([\d,]+), ([\d,]+) µs \|\n", page)
        assert row, f"the page says nothing of {name}"
        told = [int(number.replace(",", "")) for number in row.groups()]
        assert told == [summary["samples"], round(rtt["mean"] / 1000)], name
