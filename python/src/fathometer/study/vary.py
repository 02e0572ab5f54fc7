"""A study's factors: ``[[vary]]`` names them and their levels. A host or scenario that names factors in
braces is there once for each combination of their levels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from fathometer.study.positions import Position, Where
from fathometer.study.shape import Name, StudyTable

TAG: Final = "vary"
"""Of a scenario that was made of levels: its label as it was written, by which its alternatives are found."""
MOST: Final = 1_000
"""Hosts, or scenarios, that may come of one table."""
_IN_BRACES: Final = re.compile(r"\{([A-Za-z0-9][A-Za-z0-9_.-]*)\}")
_TABLES: Final = ("host", "scenario")

_LONGEST: Final = 32
_LEVEL: Final = r"^[A-Za-z0-9_.-]+$"
_LARGEST: Final = (1 << 63) - 1
"""Of TOML's whole numbers."""


def _level(value: object) -> object:
    """Says what is wrong with a level once, where pydantic says it of each kind that one may be."""
    if isinstance(value, str):
        if re.fullmatch(_LEVEL, value) and len(value) <= _LONGEST:
            return value
        remedy = f"use letters, digits, dots, dashes and underscores, {_LONGEST} at most"
    elif isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= _LARGEST:
            return value
        remedy = f"a whole number is from 0 to {_LARGEST}; what is none is written as a text"
    else:
        remedy = "a level is a text or a whole number"
    raise ValueError(f"a level cannot be {json.dumps(value, default=str)}; {remedy}")


Level = Annotated[
    Annotated[str, Field(pattern=_LEVEL, max_length=_LONGEST)] | Annotated[int, Field(ge=0)],
    BeforeValidator(_level),
]
Mistake = tuple[Where, str, str]
"""Where, what is wrong, and the remedy."""


class Vary(StudyTable):
    """A factor, and its levels."""

    factor: Name
    levels: Annotated[tuple[Level, ...], Field(max_length=64)]
    """As they stand in names and tags."""

    @model_validator(mode="after")
    def _differ(self) -> Self:
        words = [str(level) for level in self.levels]
        if len(words) < 2:
            only = f", {words[0]} alone" if words else ""
            what = f'factor "{self.factor}" has no two levels{only}'
            raise ValueError(f"{what}; give it another, or take it away")
        if len(set(words)) != len(words):
            raise ValueError(f'factor "{self.factor}" has a level twice; name each once')
        return self


_FACTORS: Final = TypeAdapter(tuple[Vary, ...])


@dataclass(frozen=True, slots=True)
class Expanded:
    """A study's tables, one for each combination, and where each was written."""

    tables: dict[str, Any]
    mistakes: tuple[Mistake, ...]
    written: Mapping[Where, int]
    """By table and its number now, the number of the table that it was made of."""

    def positions(self, known: Mapping[Where, Position]) -> dict[Where, Position]:
        """Positions by the numbers that tables have now."""
        if not self.written:
            return dict(known)
        now = {where: at for where, at in known.items() if where[0] not in _TABLES or len(where) < 2}
        for (name, number), old in self.written.items():
            mine = (name, old)
            now |= {(name, number, *w[2:]): at for w, at in known.items() if w[:2] == mine}
        return now


def expanded(tables: dict[str, Any]) -> Expanded:
    """The tables of a study with its factors in place; without factors as they are.

    A factor's table that has not its shape is left to the model, which says so.
    """
    given = tables.get("vary")
    if not given:
        return Expanded(tables, (), {})
    try:
        factors = {f.factor: f.levels for f in _FACTORS.validate_json(json.dumps(given, default=str))}
    except ValidationError:
        return Expanded(tables, (), {})
    mistakes: list[Mistake] = list(_twice([str(v["factor"]) for v in given]))
    made: dict[str, Any] = dict(tables)
    written: dict[Where, int] = {}
    used: set[str] = set()
    for name in _TABLES:
        every = tables.get(name)
        if not isinstance(every, list):
            continue
        made[name] = []
        for number, table in enumerate(every):
            mine = list(dict.fromkeys(_named(table)))
            if unknown := [f for f in mine if f not in factors]:
                remedy = f"known are {', '.join(factors)}"
                mistakes.append(((name, number), f'there is no factor "{unknown[0]}"', remedy))
                continue
            if name == "scenario":
                used.update(mine)
            # Counted, not made: six factors of 30 levels would fill any memory.
            number_made = prod(len(factors[f]) for f in mine)
            if number_made > MOST:
                what = f"{number_made:,} combinations are more than {MOST:,}"
                mistakes.append(((name, number), what, "name fewer factors in it, or fewer levels"))
                continue
            for levels in _combinations(mine, factors):
                written[name, len(made[name])] = number
                made[name].append(_made(name, table, levels))
    for number, factor in enumerate(factors):
        # One that is misspelt would be told twice.
        if factor not in used and not mistakes:
            what = f'no scenario names the factor "{factor}"'
            mistakes.append((("vary", number, "factor"), what, f"write {{{factor}}} in one, or take it away"))
    return Expanded(made, tuple(mistakes), written)


def _combinations(
    names: Sequence[str], factors: Mapping[str, Sequence[str | int]]
) -> Iterator[dict[str, Any]]:
    for levels in product(*(factors[name] for name in names)):
        yield dict(zip(names, levels, strict=True))


def _named(value: object) -> Iterator[str]:
    """The factors that stand in braces, in the order in which they do."""
    if isinstance(value, str):
        yield from _IN_BRACES.findall(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


def _made(name: str, table: object, levels: Mapping[str, Any]) -> object:
    if not levels or not isinstance(table, dict):
        return table
    if name != "scenario" or not isinstance(table.get("label"), str):
        return _filled(table, levels)
    # Levels alone ("on") would not say of what.
    missing = [f for f in levels if f not in _IN_BRACES.findall(table["label"])]
    label = "-".join([table["label"], *(f"{f}-{{{f}}}" for f in missing)])
    tags = table.get("tags", {})
    if not isinstance(tags, dict):
        return _filled(table, levels)
    own = {f: str(level) for f, level in levels.items()} | {TAG: label}
    made = _filled({k: v for k, v in table.items() if k not in {"label", "tags"}}, levels)
    return {**made, "label": _text(label, levels), "tags": {**_filled(tags, levels), **own}}


def _filled(value: Any, levels: Mapping[str, Any]) -> Any:  # noqa: ANN401 - what TOML has
    if isinstance(value, str):
        whole = _IN_BRACES.fullmatch(value)
        # A number that stands alone stays one: `port = "{port}"`.
        level = levels.get(whole[1]) if whole else None
        return level if isinstance(level, int) else _text(value, levels)
    if isinstance(value, dict):
        return {k: _filled(v, levels) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, levels) for v in value]
    return value


def _text(text: str, levels: Mapping[str, Any]) -> str:
    return _IN_BRACES.sub(lambda m: str(levels[m[1]]), text)


def _twice(names: Sequence[str]) -> Iterator[Mistake]:
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("vary", number, "factor"), f'two factors are called "{name}"', "rename one"
