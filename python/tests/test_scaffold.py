"""What must hold of the package as a whole."""

import ast
import collections
import importlib.metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fathometer
from fathometer import cli
from fathometer.errors import ExitCode, FathometerError


def test_the_package_bears_its_version_in_one_truth():
    assert importlib.metadata.version("fathometer") == fathometer.__version__


def test_help_and_version_go_to_standard_output():
    runner = CliRunner()
    assert runner.invoke(cli.app, ["--version"]).stdout == f"fathometer {fathometer.__version__}\n"
    assert "Usage" in runner.invoke(cli.app, ["--help"]).stdout


def test_error_is_one_line_with_exit_code(monkeypatch, capsys):
    def refuse(**_):
        raise FathometerError(
            "open recording", "/there:\nit is\nempty", "name another", exit_code=ExitCode.USAGE
        )

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "fathometer: cannot open recording: /there: it is empty; name another\n"


def test_a_reader_that_left_is_no_failure(monkeypatch):
    def broken(**_):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr("sys.stderr", open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0


def test_no_two_classes_bear_one_name():
    # Two `Samples`, two `Growth`, three `Run`: whoever read one took it for the other.
    homes = collections.defaultdict(list)
    for path in sorted(Path(fathometer.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path.name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


WORDS = {"fathometer.findings.render", "fathometer.findings.doubts", "fathometer.findings.verdicts"}


def test_nothing_that_decides_can_read_a_sentence():
    # Six places looked for words in sentences ("too few for p" in e.doubt). Sentences are made at the edge,
    # for people: what computes has codes and numbers, and nothing there imports what makes words.
    home = Path(fathometer.__file__).parent
    readers = []
    for path in sorted([*(home / "stats").rglob("*.py"), *(home / "findings").glob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                if any(name == word or name.startswith(f"{word}.") for name in names for word in WORDS):
                    readers.append(path.name)
    assert readers == []
