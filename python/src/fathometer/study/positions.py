"""Where each key of a TOML text stands. `tomllib` tells positions of mistakes in the grammar alone;
tree-sitter's grammar of TOML keeps all of them. What the values are is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

Position = tuple[int, int]
"""Line and column, both from 1."""
Where = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_TOML: Final = Language(tree_sitter_toml.language())


def positions(text: str) -> dict[Where, Position]:
    """The position of every table's header, key and array element of a text that is TOML."""
    root = Parser(_TOML).parse(text.encode()).root_node
    known: dict[Where, Position] = {}
    lines = text.splitlines()
    for where, node in _document(root):
        row, column = node.start_point
        # Columns are of bytes there, and of characters here.
        before = lines[row].encode()[:column].decode() if row < len(lines) else ""
        known.setdefault(where, (row + 1, len(before) + 1))
    return known


def nearest(known: dict[Where, Position], where: Where) -> Position:
    """The position of a value, or of the innermost thing around it that has one."""
    while where:
        if where in known:
            return known[where]
        where = where[:-1]
    return (1, 1)


def _document(root: Node) -> Iterator[tuple[Where, Node]]:
    counts: dict[Where, int] = {}
    for node in _parts(root):
        if node.type == "pair":
            yield from _pair((), node)
            continue
        head, *pairs = _parts(node)
        *outer, last = _keys(head)
        table: Where = ()
        for key in outer:
            # A header below an array of tables means the last of them (TOML 1.0, "Array of Tables").
            table = (*table, key)
            table = (*table, counts[table] - 1) if table in counts else table
        table = (*table, last)
        yield table, node
        if node.type == "table_array_element":
            number = counts.get(table, 0)
            counts[table] = number + 1
            table = (*table, number)
            yield table, node
        for pair in pairs:
            yield from _pair(table, pair)


def _pair(where: Where, pair: Node) -> Iterator[tuple[Where, Node]]:
    head, value = _parts(pair)
    for key in _keys(head):
        where = (*where, key)
        yield where, pair
    yield from _value(where, value)


def _value(where: Where, value: Node) -> Iterator[tuple[Where, Node]]:
    if value.type == "array":
        for number, each in enumerate(_parts(value)):
            yield (*where, number), each
            yield from _value((*where, number), each)
    elif value.type == "inline_table":
        for pair in _parts(value):
            yield from _pair(where, pair)


def _keys(head: Node) -> list[str]:
    if head.type == "dotted_key":
        return [key for part in _parts(head) for key in _keys(part)]
    word = (head.text or b"").decode()
    return [word[1:-1] if head.type == "quoted_key" else word]


def _parts(node: Node) -> list[Node]:
    return [each for each in node.named_children if each.type != "comment"]
