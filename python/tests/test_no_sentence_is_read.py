"""No code decides by what a sentence says: a finding has codes for that, and words are made last.

Six places read sentences, as `"too few for p" in e.doubt`; the first that was reworded broke one of them.
"""

import ast
from pathlib import Path

import pytest

import fathometer

ROOT = Path(fathometer.__file__).parent
ROOMS = ("stats", "findings", "report")
OTHERS_WORDS = "consistency"
"""Reads the tables of other people's documents."""
MAKES_WORDS = "render"
"""Asks for quantities by names of two words."""


def sentences_read(tree):
    """Lines in which a piece of a sentence is looked for, and those that compare one with a sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = [s.value for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)]
            looked_for = isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(node.left, ast.Constant)
            # A code has a few words: "no difference that matters".
            if (looked_for and " " in str(node.left.value)) or any(len(w.split()) > 4 for w in words):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            asks = node.func.attr in {"startswith", "endswith", "find", "index"}
            if asks and isinstance(first, ast.Constant) and " " in str(first.value).strip():
                yield node.lineno


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_read_codes(room):
    files = [f for f in (ROOT / room).rglob("*.py") if not {OTHERS_WORDS, MAKES_WORDS} & set(f.parts)]
    assert len(files) > 10
    found = [
        f"{f.relative_to(ROOT)}:{line}" for f in files for line in sentences_read(ast.parse(f.read_text()))
    ]
    assert found == []


def test_deciding_code_does_not_import_renderer():
    """Nothing in `findings` but its commands' words imports what renders."""
    for file in (ROOT / "findings").rglob("*.py"):
        if {OTHERS_WORDS, MAKES_WORDS} & set(file.parts):
            continue
        imports = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ImportFrom)]
        assert not [n for n in imports if n.module and "findings.render" in n.module], file


@pytest.mark.parametrize(
    "code",
    [
        'x = "too few for p" in e.doubt',
        'x = "too few" not in str(e)',
        'x = doubt == "the count cannot support it"',
        'x = text.startswith("too few")',
    ],
)
def test_it_is_seen_where_it_is_done(code):
    assert list(sentences_read(ast.parse(code))) == [1]


@pytest.mark.parametrize("code", ['x = "late" in reasons', 'x = kind == "no answers"', "x = a in b"])
def test_codes_may_be_compared(code):
    assert list(sentences_read(ast.parse(code))) == []
