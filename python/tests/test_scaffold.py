"""What must hold of the package as a whole."""

import importlib.metadata

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


def test_an_error_is_one_line_on_standard_error_and_an_exit_code(monkeypatch, capsys):
    def refuse():
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
    def broken():
        raise BrokenPipeError

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr("sys.stderr", open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
