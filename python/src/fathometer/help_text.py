"""How `--help` is laid out: for eighty columns and more, with examples that can be copied.

Click fills every paragraph alike, so that an example would break in the middle of a command, and it describes
the arguments by their Python types.
"""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from fathometer.errors import ExitCode, FathometerError

_Click = Any
"""A context or a formatter of Click, whose types each version of Typer keeps elsewhere."""

LAYOUT: Final = {"max_content_width": 110}
"""Of a context: a terminal's width is used up to here, as in the help of the Rust half (`max_term_width`)."""

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a shell's line: what is quoted stays together."""
_NUMBER = re.compile(r"-(?:\d+\.?\d*|\.\d+)")
"""A negative number."""


class Command(TyperCommand):
    """A command with our layout. Its epilog is paragraphs with empty lines between them; a line that is
    indented is a command, with what it does behind two spaces and more.
    """

    def parse_args(self, ctx: _Click, args: list[str]) -> list[str]:
        """Refuses an option as the value of another one; Click takes `-o` in `--markdown -o` for a file name.
        As in the Rust half, a word that begins with a dash is no value, except a number or `-` itself.
        """
        valued = {name for p in self.params if not getattr(p, "is_flag", True) for name in p.opts}
        for word, value in pairwise(args[: args.index("--")] if "--" in args else args):
            if word in valued and value.startswith("-") and value != "-" and not _NUMBER.fullmatch(value):
                raise FathometerError(
                    str(ctx.info_name),
                    f"{word} takes a value, and {value} looks like an option",
                    f"write the value behind {word}, or {word}={value} if that is the value",
                    exit_code=ExitCode.USAGE,
                )
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def collect_usage_pieces(self, ctx: _Click) -> list[str]:  # noqa: ARG002 - Click gives it
        """`[OPTIONS] DIR...`."""
        arguments = (p for p in self.params if p.param_type_name == "argument")
        return ["[OPTIONS]", *(str(p.metavar or p.name) for p in arguments)]

    def format_options(self, ctx: _Click, formatter: _Click) -> None:
        """Arguments and options, the former by the name that the usage has."""
        arguments, options = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == "argument":
                arguments.append((str(parameter.metavar or parameter.name), record[1]))
            elif record:
                options.append(record)
        for heading, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: _Click, formatter: _Click) -> None:  # noqa: ARG002 - Click gives it
        """Examples and exit codes."""
        if self.epilog:
            formatter.write(f"\n{laid_out(self.epilog, formatter.width)}\n")


class CommandGroup(TyperGroup):
    """A command with others below it, each with the whole of what it does."""

    def format_commands(self, ctx: _Click, formatter: _Click) -> None:
        """Click would cut the words off at the line's end."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in commands if command])


def laid_out(epilog: str, width: int) -> str:
    """Paragraphs filled to `width`; commands in lines of their own, continued as a shell continues them."""
    lines: list[str] = []
    prose: list[str] = []
    for line in (*epilog.strip("\n").splitlines(), ""):
        if line and not line.startswith(" "):
            prose.append(line)
            continue
        lines += textwrap.wrap(
            " ".join(prose), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        prose = []
        lines += _example(line.strip(), width) if line else [""]
    return "\n".join(lines).strip("\n")


def _example(line: str, width: int) -> list[str]:
    words = line.partition("  ")[2].strip()
    if words:
        at = len(line) - len(words)
        beside = textwrap.wrap(words, max(width - 4 - at, 20))
        return [f"    {' ' * at if n else line[:at]}{part}" for n, part in enumerate(beside)]
    first, *more = _parts(line)
    lines = [f"    {first}"]
    for part in more:
        if len(f"{lines[-1]} {part} \\") > width:
            lines[-1] += " \\"
            lines.append(f"        {part}")
        else:
            lines[-1] += f" {part}"
    return lines


def _parts(command: str) -> list[str]:
    """Between which a line may break: an option keeps its value; what is behind `|` or `&&` is one part."""
    parts: list[str] = []
    keeps = False
    for word in _WORD.findall(command):
        last = parts[-1] if parts else ""
        if last.startswith(("| ", "&& ")) or (keeps and not word.startswith(("-", "|", "&"))):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
        keeps = word.startswith("--") or word in {"|", "&&"}
    return parts
