"""Tables as TOML: what `tomllib` reads, written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(tables: Mapping[str, object]) -> str:
    """Of a document: its own values first, then its tables, a blank line before each. Tables within tables
    are written inline.
    """
    own = [f"{_key(name)} = {_value(value)}" for name, value in tables.items() if not _is_table(value)]
    parts = ["\n".join(own)] if own else []
    for name, value in tables.items():
        if isinstance(value, Mapping):
            parts.append("\n".join([f"[{_key(name)}]", *_lines(value)]))
        elif isinstance(value, list) and _is_table(value):
            parts += ["\n".join([f"[[{_key(name)}]]", *_lines(table)]) for table in value]
    return "\n\n".join(parts) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        yield f"{_key(name)} = {_value(value)}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for one character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        inner = ", ".join(_lines(value))
        return f"{{ {inner} }}" if inner else "{}"
    # Whole numbers, floats (`inf` and `nan`, too), dates and times write themselves as TOML has them.
    return str(value)
