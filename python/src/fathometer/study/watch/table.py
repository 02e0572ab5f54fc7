"""A board on a terminal of any width and height. Nothing is written here: what comes out is given to rich."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fathometer.clean import cleaned
from fathometer.study.live.board import Board, BoardRow
from fathometer.study.live.happenings import Happening
from fathometer.study.watch.words import about, clock, latest, progress, rtt

WIDE: Final = 112
"""Columns from which each row tells what happened last; below it only the lines beneath do."""
MIDDLE: Final = 76
"""Columns from which a run's progress is a bar."""
_AROUND: Final = 7
"""Lines that are neither rows nor happenings: heading, columns' names, blank ones, bar, words."""
_STYLES: Final = {
    "running": "cyan",
    "stalled": "bold red",
    "failed": "red",
    "finished": "green",
    "waiting": "dim",
    "interrupted": "yellow",
    "gone": "yellow",
    "plain": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
}


def picture(
    board: Board,
    now_ns: int,
    width: int,
    height: int | None,
    words: str = "",
    *,
    happenings: int = 6,
) -> RenderableType:
    """The board in so many columns and lines; without a height as many as it takes.

    Args:
        board: what is shown.
        now_ns: the time, ns since the Unix epoch.
        width: columns.
        height: lines.
        words: the last line.
        happenings: how many are told beneath the table, at most and where there is room.
    """
    heading = Text.assemble(
        (cleaned(board.study), "bold"),
        "  ",
        (board.state, _STYLES[board.state]),
        no_wrap=True,
        overflow="ellipsis",
    )
    rows, left_out = _fitting(board.rows, None if height is None else height - _AROUND - 2)
    if height is not None:
        room = height - _AROUND - len(rows) - bool(left_out) - 1  # One is blank.
        happenings = max(0, min(happenings, room))
    lines = board.happenings[-happenings:] if happenings else ()
    parts: list[RenderableType] = [heading, Text(), _table(rows, width)]
    if left_out:
        parts.append(Text(left_out, style="dim", no_wrap=True, overflow="ellipsis"))
    parts += [Text(), *(_line(h) for h in lines)]
    parts += [Text()] if lines else []
    bar = Table.grid(expand=True)
    bar.add_row(ProgressBar(total=1.0, completed=board.share))
    parts.append(bar)
    parts.append(Text(progress(board, now_ns), no_wrap=True, overflow="ellipsis"))
    if words:
        parts.append(Text(cleaned(words), style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _fitting(rows: Sequence[BoardRow], most: int | None) -> tuple[Sequence[BoardRow], str]:
    """The rows that there is room for, those first on which something goes on; and what the others are."""
    if most is None or len(rows) <= most:
        return rows, ""
    order = {"stalled": 0, "running": 1, "failed": 2, "waiting": 3, "interrupted": 3, "finished": 4}
    ranked = sorted(range(len(rows)), key=lambda i: (order[rows[i].state], i))
    kept = set(ranked[: max(1, most - 1)])
    others = Counter(row.state for i, row in enumerate(rows) if i not in kept)
    states = ", ".join(f"{n} {state}" for state, n in others.most_common())
    return [row for i, row in enumerate(rows) if i in kept], f"and {states}"


def _table(rows: Sequence[BoardRow], width: int) -> Table:
    wide, middle = width >= WIDE, width >= MIDDLE
    table = Table(box=None, expand=True, padding=(0, 2 if middle else 1, 0, 0), pad_edge=False)
    table.header_style = "dim"
    table.add_column("scenario", no_wrap=True, overflow="ellipsis", ratio=2, min_width=8)
    table.add_column("runs", justify="right", no_wrap=True)
    if middle:
        table.add_column("this run", no_wrap=True, width=8)
    for name in ("RTT now", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True, min_width=7)
    if wide:
        table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=8)
    if wide:
        table.add_column("last event", no_wrap=True, overflow="ellipsis", ratio=3)
    for row in rows:
        cells: list[RenderableType] = [Text(cleaned(row.title)), Text(_runs(row))]
        if middle:
            cells.append(Text() if row.within is None else ProgressBar(1.0, row.within, width=8))
        cells += [Text(rtt(ns)) for ns in (row.last_ns, row.p50_ns, row.p99_ns)]
        if wide:
            cells.append(Text(f"{row.count:,}"))
        cells.append(Text(row.state, style=_STYLES[row.state]))
        if wide:
            news, weight = latest(row)
            cells.append(Text(cleaned(news), style=_STYLES[weight]))
        table.add_row(*cells)
    return table


def _runs(row: BoardRow) -> str:
    return f"{row.done}/{row.of}" if row.of is not None else str(row.done)


def _line(h: Happening) -> Text:
    words = about(h)
    return Text.assemble(
        (f"{clock(h.at_ns)}  ", "dim"),
        cleaned(f"{words}: ") if words else "",
        (cleaned(h.text), _STYLES[h.weight]),
        no_wrap=True,
        overflow="ellipsis",
    )
