"""A study file as anybody may have written it: it is a study, or every mistake is one line with its place.

A few seconds in `make test`; FATHOM_FUZZ_SECONDS goes on for so long (`make fuzz-python`).
"""

import os
from pathlib import Path

import pytest

from fathometer.study.read import notes, parse
from support.damage_text import each_of, told_well

READY = sorted((Path(__file__).parents[3] / "studies").glob("*.toml"))


def read_or_told(data):
    """What is refused names a line and a column of the text."""
    text = data.decode(errors="replace")
    study, problems = parse(text)
    lines = text.split("\n")
    for problem in problems:
        assert 1 <= problem.line <= len(lines), problem
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem
        assert told_well(f"{problem.what}; {problem.remedy}"), problem
    assert (study is None) <= bool(problems)
    if study is not None:
        notes(study)


def test_changed_study_is_read_or_refused():
    assert READY
    each_of([path.read_bytes() for path in READY], read_or_told, examples=150)


@pytest.mark.parametrize(
    ("key", "value"),
    [("every", "9" * 400 + "h"), ("for", "293y0d"), ("for", "106752d"), ("load", "9" * 400 + "Gbit")],
)
def test_excessive_value_is_refused(key, value):
    text = READY[0].read_text() + f'\n[[probe]]\nname = "long"\n{key} = "{value}"\n'
    _, problems = parse(text)
    assert any(value in problem.what for problem in problems), problems


@pytest.mark.parametrize(
    "value",
    [
        "9" * 5_000,
        "0x" + "f" * 5_000,
        "-" + "9" * 400,
        "nan",
        "-inf",
        "1e999999",
        "[" * 300,
        "{a = " * 300,
        "2025-03-19T22:49:12Z",
        r'"\u001b[31m"',
        '"' + "x" * 100_000 + '"',
        "[" + "1, " * 20_000 + "1]",
    ],
    ids=lambda value: value[:8],
)
@pytest.mark.parametrize("key", ["format", "name", "repetitions", "limits", "unheard-of", "host"])
def test_no_value_is_a_traceback(key, value):
    read_or_told(f"{key} = {value}\n".encode())


def test_invalid_scenario_is_reported_where_named(tmp_path):
    study = (
        "format = 1\nname = 'x'\n[[host]]\nname = 'a'\nfabric = { scenario = 'net.toml', host = 'y' }\n"
        "[[scenario]]\nlabel = 's'\nfrom = 'a'\nto = 'a'\n[[probe]]\nevery = '1s'\ncount = 10\n"
    )
    path = tmp_path / "net.toml"

    def told():
        study_, problems = parse(study, tmp_path)
        assert study_ is not None
        ((line, what),) = ((p.line, p.what) for p in problems)
        assert line == 5
        return what

    for text, says in (
        ("a = " + "9" * 5_000, "net.toml:1:5 is no TOML"),
        ("a = " + "[" * 5_000, "is no TOML"),
        ("a = [\n", "is no TOML"),
        ("a = 1\n" * 1_000_000, "larger than 4 MiB"),
    ):
        path.write_text(text)
        assert says in told()
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in told()
    path.unlink()
    assert "net.toml" in told()
    os.mkfifo(path)
    assert "is no regular file" in told()
