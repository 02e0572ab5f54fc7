"""Commands print in every locale: UTF-8, and never a traceback."""

import json

import pytest
import typer.main

from fathometer import cli
from fathometer.errors import ExitCode
from support.command_line import run, started
from support.growing import StudyDirectory
from support.recordings import START, lognormal_ns, write

NAME = "Zürich→A – 東京"
LOCALES = ("ascii", "latin-1")
"""Of LC_ALL=C and de_DE.ISO-8859-1."""


def commands(command, path=()):
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


EVERY = list(commands(typer.main.get_command(cli.app)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("locale")
    for name, median in (("a", 700), ("b", 900)):
        write(root / "r" / name, lognormal_ns(median, 400, median), label=f"{NAME} {name}")
    (root / "table.md").write_text(
        f"| path | mean | max |\n|---|---|---|\n| {NAME} | 5 ms | 3 ms |\n", encoding="utf-8"
    )
    (root / "study.toml").write_text(f'name = "{NAME}"\n["{NAME}"]\nx = 1\n', encoding="utf-8")
    (root / f"{NAME}.csv").write_text("t,rtt\n1476479820,1\n1476479821,2\n")
    study = StudyDirectory(root)
    plan = {"order": "one-by-one", "paths": [{"directory": f"label={NAME}", "runs": 2, "run_ns": 10**9}]}
    study.note(START, "study.started", study=NAME, runs=2, plan=plan)
    study.note(START + 1, "run.failed", run=f"label={NAME}/run=01", reason=NAME)
    return root


RESULTS = {
    "report": ["report", "r", "--json", "--slo", "p99<1us"],
    "report as text": ["report", "r", "--markdown", "-"],
    "report as JSON": ["report", "r", "--json"],
    "compare": ["compare", "r/a", "r/b"],
    "check": ["check", "table.md"],
    "check as JSON": ["check", "table.md", "--json"],
    "import": ["import", "csv", f"{NAME}.csv", "--time", "t", "--rtt", "rtt", "--unit", "ms"],
    "study check": ["study", "check", "study.toml"],
    "study watch": ["study", "watch", "out"],
    "rollup": ["rollup", "r", "-o", NAME],
}
ERRORS = {
    "report": ["report", f"{NAME}-nowhere"],
    "compare": ["compare", f"{NAME}-nowhere", "r"],
    "changes": ["changes", f"{NAME}-nowhere"],
    "check": ["check", f"{NAME}-nowhere"],
    "import": ["import", f"{NAME}-nowhere"],
    "rollup": ["rollup", f"{NAME}-nowhere", "-o", "x"],
    "study run": ["study", "run", f"{NAME}-nowhere", "-o", "x"],
    "study plan": ["study", "plan", f"{NAME}-nowhere"],
    "cloud run": ["cloud", "run", f"{NAME}-nowhere"],
    "demo": ["demo", f"--{NAME}-nowhere"],
}


def fit(done, name=NAME):
    assert "Traceback" not in done.stderr
    assert name in done.stdout + done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("encoding", LOCALES)
@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_in_any_locale(words, encoding):
    done = run(*words, "--help", encoding=encoding)
    assert done.returncode == 0
    assert done.stdout == run(*words, "--help").stdout
    assert done.stderr == ""


@pytest.mark.parametrize("encoding", LOCALES)
@pytest.mark.parametrize("name", RESULTS)
def test_results_in_any_locale(name, encoding, place, tmp_path):
    for each in place.iterdir():
        (tmp_path / each.name).symlink_to(each)
    done = run(*RESULTS[name], cwd=tmp_path, encoding=encoding)
    assert done.returncode in {ExitCode.DONE, ExitCode.FAILED, ExitCode.UNDECIDED}, done.stderr
    if name == "report as JSON":
        assert NAME in str(json.loads(done.stdout))
    else:
        fit(done)


@pytest.mark.parametrize("encoding", LOCALES)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_in_any_locale(name, encoding, tmp_path):
    done = run(*ERRORS[name], cwd=tmp_path, encoding=encoding)
    assert done.returncode in {1, 2}
    fit(done)


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"},
    ],
    ids=["C", "latin-1"],
)
def test_own_process_in_any_locale(locale, place, monkeypatch):
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    done = started("check", "table.md", cwd=place, encoding="utf-8")
    fit(done)
    done = started("check", "nowhere\udcff", cwd=place, encoding="utf-8")
    assert "Traceback" not in done.stderr
    assert "nowhere" in done.stderr
