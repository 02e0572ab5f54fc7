"""From the study file's text to a `Study`, or to everything that is wrong with it, by line and column."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.errors import FathometerError
from fathometer.study.model import COMPARISON_REPETITIONS, PlannedPath, Study
from fathometer.study.positions import Position, Where, nearest, positions
from fathometer.study.rates import Found, rates, servers
from fathometer.study.vary import expanded

MAX_BYTES = 4 << 20
"""A larger file is no study."""


POLICY_TABLES = ("request", "retry", "connection", "pool", "breaker", "recovery", "fallback")
"""What a policy's file may have (docs/policies.md)."""
MAX_TOLD = 500
"""Characters of what is told of a mistake."""
_LONG_NUMBER = re.compile(r"[0-9][0-9A-Fa-fox_]{999,}")
"""Python refuses to read or write one of more than 4,300 decimal digits, which may be 3,572 others."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the thing and the remedy, and where it stands (line and column from 1)."""

    line: int
    column: int
    what: str
    remedy: str


def read_text(path: Path) -> str:
    """The file's text; raises `FathometerError`."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise FathometerError(
                "read study", f"{path} is larger than {MAX_BYTES >> 20} MiB", "name a study file"
            )
        return raw.decode("utf-8")
    except OSError as error:
        raise FathometerError("read study", f"{path}: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise FathometerError("read study", f"{path} is not UTF-8", "TOML is; save it as such") from None


def read_study(path: Path) -> Study:
    """The study of a file; raises `FathometerError` with the first thing that is wrong."""
    study, problems = parse(read_text(path), path.parent)
    if study is None or problems:
        first = problems[0]
        more = f" ({len(problems) - 1} more: fathom study check {path})" if len(problems) > 1 else ""
        raise FathometerError(
            "read study", f"{path}:{first.line}:{first.column}: {first.what}", first.remedy + more
        )
    return study


def parse(text: str, directory: Path | None = None) -> tuple[Study | None, list[Problem]]:
    """The study of a text and what is wrong with it, in the order of the text. Fabric scenarios are looked up
    from `directory`; None: they are not looked up.
    """
    try:
        made = expanded(_toml(text))
        # By way of JSON: in pydantic's strict mode a Python list is no tuple, but a JSON array is.
        as_json = json.dumps(made.tables, default=str)
    except _NoTomlError as error:
        return None, _sorted([error.problem])
    except ValueError:
        return None, [_long_number(text)]
    written = positions(text)
    if made.mistakes:
        return None, _sorted(_at(written, where, what, remedy) for where, what, remedy in made.mistakes)
    known = made.positions(written)
    try:
        study = Study.model_validate_json(as_json)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # With factors that are none, braces stand where names should.
        errors = [e for e in errors if e["loc"][:1] == ("vary",)] or errors
        # pydantic leaves elements with mistakes out, and then finds the array too short: no second mistake.
        short = {e["loc"] for e in errors if e["type"] == "too_short" and e["input"]}
        return None, _sorted(_shape(e, known) for e in errors if e["loc"] not in short)
    problems = [_at(known, where, what, remedy) for where, what, remedy in _names(study, directory)]
    for check in (rates, servers):
        problems += [_at(known, where, what, remedy) for where, what, remedy in check(study)]
    return study, _sorted(problems)


def loaded(path: Path) -> dict[str, object]:
    """A TOML file beside a study; raises `FathometerError`."""
    try:
        return _toml(read_text(path))
    except _NoTomlError as error:
        p = error.problem
        raise FathometerError("read study", f"{path}:{p.line}:{p.column}: {p.what}", p.remedy) from None


def notes(study: Study) -> list[str]:
    """What may be meant, and should be known."""
    notes_ = []
    if study.compares and study.rounds < COMPARISON_REPETITIONS:
        notes_.append(
            f"repetitions = {study.rounds} is few for a comparison; {COMPARISON_REPETITIONS} give intervals"
        )
    sized = [h.name for h in study.host if h.ssh and h.limits]
    if sized:
        notes_.append(
            f"`limits` are passed over for {', '.join(sized)}: a host over SSH has the size of its machine"
        )
    return notes_


def _sorted(problems: Sequence[Problem] | Iterator[Problem]) -> list[Problem]:
    brief = (Problem(p.line, p.column, _brief(p.what), _brief(p.remedy)) for p in problems)
    return sorted(brief, key=lambda p: (p.line, p.column))


def _brief(text: str) -> str:
    """On one line, however long what it repeats of the file."""
    text = cleaned(text)
    return text if len(text) <= MAX_TOLD else text[: MAX_TOLD - 1] + "…"


def _at(known: dict[Where, Position], where: Where, what: str, remedy: str) -> Problem:
    line, column = nearest(known, where)
    return Problem(line, column, what, remedy)


class _NoTomlError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def _toml(text: str) -> dict[str, object]:
    """Raises `_NoTomlError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _NoTomlError(Problem(*_syntax(text, error), "mend it; see https://toml.io")) from None
    except RecursionError:
        raise _NoTomlError(
            Problem(1, 1, "it is nested too deeply", "see docs/studies.md for what a study has")
        ) from None
    except ValueError:
        raise _NoTomlError(_long_number(text)) from None


def _long_number(text: str) -> Problem:
    found = _LONG_NUMBER.search(text)
    start = found.start() if found else 0
    line_start = text.rfind("\n", 0, start) + 1
    line = text.count("\n", 0, start) + 1
    return Problem(line, start - line_start + 1, "a number has thousands of digits", "write one below 2^63")


def _syntax(text: str, error: tomllib.TOMLDecodeError) -> tuple[int, int, str]:
    words, _, place = str(error).rpartition(" (at ")
    numbers = [int(w.strip(",)")) for w in place.split() if w.strip(",)").isdigit()]
    if len(numbers) == 2:
        return numbers[0], numbers[1], words
    lines = text.split("\n")
    return len(lines), len(lines[-1]) + 1, words or str(error)  # "(at end of document)"


def _shape(error: ErrorDetails, known: dict[Where, Position]) -> Problem:
    where: Where = tuple(error["loc"])
    name = ".".join(str(w) for w in where if isinstance(w, str)) or "the file"
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing":
        return _at(known, where[:-1], f"`{name}` is missing", f"add `{where[-1]} = ...`")
    if kind == "extra_forbidden":
        keys = _keys_beside(where)
        close = difflib.get_close_matches(str(where[-1]), keys, 1)
        remedy = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(keys)}"
        return _at(known, where, f"`{name}` is not known", remedy)
    if kind == "value_error":
        what, _, remedy = str(context["error"]).partition("; ")
        named = what.startswith(("probe", "limit", "factor", "query"))
        return _at(known, where, what if where and named else f"`{name}`: {what}", remedy)
    if where == ("limits",) and kind == "model_type":
        return _at(known, where, "`limits` says how much the study may send", "write a search as [[limit]]")
    given = json.dumps(error["input"], default=str) if not isinstance(error["input"], dict | list) else name
    if kind == "literal_error":
        return _at(known, where, f"`{name}` cannot be {given}", f"write {context['expected']}")
    if kind == "string_pattern_mismatch":
        remedy = (
            "write it as in 09:00-17:00"
            if "hours" in where
            else "use letters, digits, dots, dashes and underscores"
        )
        return _at(known, where, f"`{name}` cannot be {given}", remedy)
    if kind == "too_long" and isinstance(error["input"], list):
        many = where[-1] if str(where[-1]).endswith("s") else "of them"
        remedy = f"write at most {context['max_length']} {many}"
        return _at(known, where, f"`{name}` has {count(len(error['input']), 'value')}", remedy)
    message = error["msg"]
    return _at(known, where, f"`{name}` cannot be {given}", message[:1].lower() + message[1:])


def _keys_beside(where: Where) -> list[str]:
    """The keys that may stand where an unknown one does."""
    schema = Study.model_json_schema(by_alias=True)
    part: dict[str, object] = schema
    for step in where[:-1]:
        inner = part.get("items") if isinstance(step, int) else _property(part, step)
        part = _resolved(inner, schema)
    keys = part.get("properties")
    return sorted(keys) if isinstance(keys, dict) else []


def _property(part: dict[str, object], name: str) -> object:
    properties = part.get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def _resolved(part: object, schema: dict[str, object]) -> dict[str, object]:
    if not isinstance(part, dict):
        return {}
    for choice in part.get("anyOf", ()):
        if choice.get("type") != "null":
            return _resolved(choice, schema)
    reference = part.get("$ref")
    if isinstance(reference, str):
        definitions = schema.get("$defs")
        return definitions[reference.rsplit("/", 1)[1]] if isinstance(definitions, dict) else {}
    return part


def _twice(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for number, word in enumerate(words):
        if word in seen:
            yield number, word
        seen.add(word)


def _unique(study: Study) -> Iterator[Found]:
    """Names that two have."""
    for key, names, what, remedy in (
        (("host", "name"), [h.name for h in study.host], "hosts are called", "rename one"),
        (("scenario", "label"), [s.label for s in study.scenario], "scenarios are labelled", "rename one"),
        (("probe", "name"), [p.name for p in study.probe], "probes are called", _OWN),
        (("policy", "name"), [p.name for p in study.policy], "policies are called", "rename one"),
        (("limit", "name"), [p.name for p in study.limit], "searches are called", _OWN),
        (("query", "name"), [q.name for q in study.query], "queries are called", _OWN),
    ):
        for number, word in _twice(names):
            yield (key[0], number, key[1]), f'two {what} "{word}"', remedy


_OWN = "give each a `name` of its own"


def _names(study: Study, directory: Path | None) -> Iterator[Found]:
    yield from _unique(study)
    hosts = [h.name for h in study.host]
    for number, scenario in enumerate(study.scenario):
        ends = (("from", scenario.source), ("to", scenario.to))
        unknown = [(key, name) for key, name in ends if name not in hosts]
        for key, name in unknown:
            yield (
                ("scenario", number, key),
                f'no host is called "{name}"',
                f"name one of {', '.join(hosts)}",
            )
        if not unknown:
            yield from _reach(study, number, scenario)
    for number, host in enumerate(study.host):
        if host.fabric is not None and directory is not None:
            yield from _fabric(number, host.fabric.host, directory / host.fabric.scenario)
    for number, policy in enumerate(study.policy):
        if directory is not None:
            yield from _policy(number, directory / policy.file)


def _reach(study: Study, number: int, scenario: PlannedPath) -> Iterator[Found]:
    source, to = study.host_named(scenario.source), study.host_named(scenario.to)
    ours = source.fabric.scenario if source.fabric else None
    theirs = to.fabric.scenario if to.fabric else None
    if ours != theirs:
        yield (
            ("scenario", number, "to"),
            f'"{source.name}" cannot reach "{to.name}": they are in different networks',
            "take both hosts from one fabric scenario, or neither",
        )
    elif source.ssh is not None and to.local is not None and scenario.address is None:
        yield (
            ("scenario", number, "to"),
            f'"{source.name}" cannot reach "{to.name}", which listens on loopback alone',
            "say with `address` under which address of this machine it can",
        )


def _policy(number: int, path: Path) -> Iterator[Found]:
    """What can be told without `fathom`, which tells the rest when the study runs."""
    key: Where = ("policy", number, "file")
    # A pipe would be waited for.
    if path.exists() and not path.is_file():
        yield key, f"policy {path} is no regular file", "name a policy's file (docs/policies.md)"
        return
    try:
        policy = loaded(path)
    except FathometerError as error:
        yield key, f"policy {error.object}", error.remedy
        return
    unknown = [name for name in policy if name not in POLICY_TABLES]
    if unknown:
        yield key, f"policy {path} has no `{unknown[0]}`", f"known are {', '.join(POLICY_TABLES)}"


def _fabric(number: int, name: str, path: Path) -> Iterator[Found]:
    key: Where = ("host", number, "fabric")
    # A pipe would be waited for.
    if path.exists() and not path.is_file():
        yield (*key, "scenario"), f"fabric scenario {path} is no regular file", "name a scenario"
        return
    try:
        scenario = _toml(read_text(path))
    except FathometerError as error:
        yield (*key, "scenario"), f"fabric scenario {error.object}", error.remedy
        return
    except _NoTomlError as error:
        found = error.problem
        where = f"{path}:{found.line}:{found.column}"
        yield (*key, "scenario"), f"fabric scenario {where} is no TOML: {found.what}", found.remedy
        return
    host = scenario.get("host")
    names = [str(h.get("name")) for h in host if isinstance(h, dict)] if isinstance(host, list) else []
    if name not in names:
        yield (*key, "host"), f'{path.name} has no host "{name}"', f"name one of {', '.join(names)}"
