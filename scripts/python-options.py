#!/usr/bin/env python3
"""Writes the commands and options of the Python half into crates/fathom/src/cli/python_half.json.

`fathom man` and `fathom completions` know them from there: they run where no Python is. A test of the Python half
(tests/cli/test_help.py) says when the file is old; then run, with the interpreter of .venv: scripts/python-options.py
"""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from typer.main import get_command

from fathometer.cli import app
from fathometer.help_text import laid_out

FILE = Path(__file__).parents[1] / "crates/fathom/src/cli/python_half.json"
COLUMNS = 80
"""As the help of the Rust half is laid out."""


def command_of(name: str, command: Any) -> dict[str, Any]:
    """A command as JSON, with those below it."""
    below = [command_of(*item) for item in getattr(command, "commands", {}).items()]
    arguments = [
        {
            "name": str(p.metavar or p.name),
            "required": p.required,
            "many": p.nargs == -1,
            "help": p.help or "",
        }
        for p in command.params
        if p.param_type_name == "argument"
    ]
    return {
        "name": name,
        "about": " ".join((command.help or "").split()),
        "notes": dedent(laid_out(command.epilog, COLUMNS)) if command.epilog else "",
        "arguments": arguments,
        "options": [o for p in command.params if p.param_type_name == "option" for o in options_of(p)],
        "commands": below,
    }


def options_of(option: Any) -> list[dict[str, Any]]:
    """An option as JSON; one that can be switched on and off is two."""
    value = None if option.is_flag else str(option.metavar or option.type.name.upper())
    rows = []
    for names in (option.opts, option.secondary_opts):
        long = [name.removeprefix("--") for name in names if name.startswith("--")]
        short = [name.removeprefix("-") for name in names if not name.startswith("--")]
        if names:
            row = {"long": long[0], "short": short[0] if short else None, "value": value}
            rows.append({**row, "many": option.multiple, "help": option.help or ""})
    return rows


def text() -> str:
    """The file."""
    commands = [command_of(*item) for item in get_command(app).commands.items()]
    return json.dumps(commands, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
