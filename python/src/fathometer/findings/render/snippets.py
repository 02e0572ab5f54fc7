"""Settings as files have them: what to copy, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fathometer.findings.finding import Recipe, Setting

_MS: Final = 1_000_000
_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Snippet:
    """What to write for one library."""

    name: str
    """The library's, for people."""
    where: str
    text: str
    """Lines to copy; empty: its defaults do, and `where` says which."""


@dataclass(frozen=True, slots=True)
class _Form:
    name: str
    where: str
    write: Callable[[tuple[Setting, ...]], str]


def spelled(s: Setting) -> str:
    """A value, as a file has it."""
    if isinstance(s.value, str):
        return s.value
    match s.unit:
        case "s":
            return str(s.value // _S)
        case "ms":
            return str(s.value // _MS)
        case "go" | "duration":
            return _duration(s.value)
        case "switch":
            return str(bool(s.value)).lower()
        case _:
            return str(s.value)


def _duration(ns: int) -> str:
    """`1h30m`, `1m50s`, `3500ms`: as Go, Spring and we read it."""
    if ns % _S:
        return f"{ns // _MS}ms"
    minutes, seconds = divmod(ns // _S, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if n]
    return "".join(parts) or "0s"


def _spring_duration(s: Setting) -> str:
    """Spring takes one number and one unit."""
    if s.unit != "duration" or isinstance(s.value, str):
        return spelled(s)
    return f"{s.value // _MS}ms" if s.value % _S else f"{s.value // _S}s"


def _lines(between: str, prefix: str = "") -> Callable[[tuple[Setting, ...]], str]:
    return lambda settings: "\n".join(f"{prefix}{s.name}{between}{spelled(s)}" for s in settings)


def _row(between: str) -> Callable[[tuple[Setting, ...]], str]:
    return lambda settings: between.join(f"{s.name}={spelled(s)}" for s in settings)


def _object(settings: tuple[Setting, ...]) -> str:
    return "{ " + ", ".join(f'"{s.name}": {spelled(s)}' for s in settings) + " }"


def _socket(settings: tuple[Setting, ...]) -> str:
    def level(s: Setting) -> str:
        return "SOL_SOCKET" if s.name.startswith("SO_") else "IPPROTO_TCP"

    return "\n".join(f"setsockopt({level(s)}, {s.name}, {spelled(s)})" for s in settings)


def _spring(prefix: str) -> Callable[[tuple[Setting, ...]], str]:
    return lambda settings: "\n".join(f"{prefix}.{s.name}={_spring_duration(s)}" for s in settings)


def _policy(settings: tuple[Setting, ...]) -> str:
    """TOML: a table for what stands before the dot."""
    lines: list[str] = []
    for s in settings:
        table, name = s.name.split(".")
        if f"[{table}]" not in lines:
            lines.append(f"[{table}]")
        plain = s.unit in {"count", "switch"}
        lines.append(f"{name} = {spelled(s)}" if plain else f'{name} = "{spelled(s)}"')
    return "\n".join(lines)


_FORMS: Final = {
    "sysctl": _Form(
        "Linux, all sockets that ask for keepalives",
        "a file in /etc/sysctl.d, then sysctl --system",
        _lines(" = "),
    ),
    "socket": _Form("one socket on Linux", "in code, before or after connect()", _socket),
    "hikari": _Form(
        "HikariCP", "its .properties; Spring: spring.datasource.hikari. before each name", _lines("=")
    ),
    "pgx": _Form("pgxpool", "the connection string; in a URL after ?, with & between", _row(" ")),
    "sqlalchemy": _Form(
        "SQLAlchemy",
        "an .ini file; in code create_engine(…) takes the name behind the dot",
        _lines(" = ", "sqlalchemy."),
    ),
    "node-postgres": _Form("node-postgres", "the object that new Pool(…) takes", _object),
    "npgsql": _Form("Npgsql", "the connection string", _row(";")),
    "mysql2": _Form("mysql2", "the object that createPool(…) takes", _object),
    "libpq": _Form(
        "libpq (psycopg, also under SQLAlchemy)", "the connection string; in a URL after ?", _row(" ")
    ),
    "policy": _Form("fathom probe --as-client", "the policy file, to try it", _policy),
    "resilience4j-retry": _Form(
        "Resilience4j", "Spring's application.properties", _spring("resilience4j.retry.configs.default")
    ),
    "resilience4j-breaker": _Form(
        "Resilience4j",
        "Spring's application.properties",
        _spring("resilience4j.circuitbreaker.configs.default"),
    ),
}


def snippet(recipe: Recipe) -> Snippet:
    """One library's."""
    form = _FORMS[recipe.library]
    if not recipe.settings:
        return Snippet(
            form.name, f"nothing to change: the default of {recipe.default_by} is short enough", ""
        )
    return Snippet(form.name, form.where, form.write(recipe.settings))
