"""Help and usage of the commands that `fathom` hands on."""

import re
import runpy
import shlex
import signal
import subprocess
import sys

import pytest
from typer.main import get_command

from fathometer.cli import app
from fathometer.counts import count
from fathometer.help_text import laid_out
from support.command_line import run
from support.programs import ROOT

COMMANDS = (
    "report",
    "compare",
    "rollup",
    "changes",
    "check",
    "import",
    "demo",
    "study",
    "study check",
    "cloud",
    "cloud up",
)
MAIN = "from fathometer.cli import main; main()"
HELD = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT}}); {MAIN}"


def said(program, *args):
    return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_h_ishelp_of(command):
    short, long = (run(*command.split(), flag) for flag in ("-h", "--help"))
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "Usage: " in short.stdout


def test_usage_names_the_program_that_was_started():
    """`fathom` holds Ctrl-C back while it hands over."""
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert "Usage: fathom report " in said(HELD, "report", "--help").stdout
    assert "Usage: fathom report " not in said(MAIN, "report", "--help").stdout


def _every_command(command, path=()):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from _every_command(below, (*path, name))


EVERY_COMMAND = [*_every_command(get_command(app))]


@pytest.fixture
def help_of(capsys, monkeypatch):
    def lines(path, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert app([*path, "--help"], standalone_mode=False) == 0
        return capsys.readouterr().out.splitlines()

    return lines


def _examples(lines):
    """The commands below `Example`, each as a shell would read it."""
    headings = [n for n, line in enumerate(lines) if re.fullmatch(r" +Examples?:", line)]
    if not headings:
        return []
    commands, goes_on = [], False
    for line in lines[headings[0] + 2 :]:
        if not line:
            break
        command = re.split(r"  +", line.strip())[0] if not line.startswith(" " * 20) else ""
        if goes_on:
            commands[-1] += f" {command}"
        elif command:
            commands.append(command)
        goes_on = line.endswith(" \\")
    return [shlex.split(command.replace(" \\", "")) for command in commands]


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
def test_help_fits_80_columns_with_copyable_examples(path, help_of):
    """Examples broke in the middle of a command, and arguments were called `{DIR...}... <list[str]>`."""
    lines = help_of(path, 80)
    wide = [line for line in lines if len(line) > 80]
    assert not wide, wide
    text = "\n".join(lines)
    assert not re.search(r"<(?:str|path|int|list)|\{", text), text
    assert not [line for line in lines if re.match(r" +[a-z]+ +.*\.\.\.$", line)], text
    # Beside a name there is room for words.
    beside = [match.end() for match in (re.match(r"  \S.*?\S  +(?=\S)", line) for line in lines) if match]
    assert max(beside, default=0) <= 40, text
    # The same commands, whatever the width.
    examples = _examples(lines)
    assert examples == _examples(help_of(path, 110)), text
    assert examples or not path or path in {("study",), ("cloud",)}, text
    for words in examples:
        assert {"fathom", "ssh"} & set(words), words
        if words[0] == "fathom":
            assert tuple(words[1 : 1 + len(path)]) == path, words


def test_help_width_grows_with_terminal_then_stops(help_of):
    widest = {columns: max(map(len, help_of(("report",), columns))) for columns in (80, 110, 300)}
    assert widest[80] <= 80 < widest[110] <= 110
    assert widest[300] == widest[110]


def test_an_example_breaks_where_a_shell_goes_on():
    commands = "    fathom one --two 'three four' --five | jq .six\n    fathom seven    words about all of it"
    assert laid_out(f"Examples:\n\n{commands}", 40) == (
        "  Examples:\n"
        "\n"
        "    fathom one --two 'three four' \\\n"
        "        --five | jq .six\n"
        "    fathom seven    words about all of\n"
        "                    it"
    )


def test_scenarios_are_no_scenarioes():
    assert [count(9, one) for one in ("scenario", "echo", "ratio", "loss")] == [
        "9 scenarios",
        "9 echoes",
        "9 ratios",
        "9 losses",
    ]


def _command_at(path):
    command = get_command(app)
    for name in path:
        command = command.commands[name]
    return command


VALUED = [
    (path, option.opts[0])
    for path in EVERY_COMMAND
    for option in _command_at(path).params
    if option.param_type_name == "option" and not option.is_flag
]


@pytest.mark.parametrize(("path", "option"), VALUED, ids=[" ".join((*p, o)) for p, o in VALUED])
def test_option_is_no_value_of_another(path, option, tmp_path):
    """`report --markdown -o page.html` wrote a file named `-o`."""
    done = run(*path, option, "-o", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{option} takes a value, and -o looks like an option" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_flags_mean_the_same_in_every_command():
    """`--json` took a file in one command only, and consumed the next word."""
    options = [option for path in EVERY_COMMAND for option in _command_at(path).params]
    flags = {name for option in options if getattr(option, "is_flag", False) for name in option.opts}
    valued = {name for option in options if not getattr(option, "is_flag", True) for name in option.opts}
    assert not flags & valued


def test_rust_half_knows_every_option():
    """The manual pages had `[ARGUMENTS]`, and completions nothing."""
    script = runpy.run_path(str(ROOT / "scripts" / "python-options.py"))
    assert script["FILE"].read_text() == script["text"](), "run scripts/python-options.py"
