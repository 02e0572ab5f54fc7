"""A board as the page is told it. The page's own language, not a promise to others: those read recordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathometer.study.live.board import Board
from fathometer.study.live.series import BinnedSeries
from fathometer.study.watch.words import about, clock, latest, progress, rtt


def told(board: Board, series: Mapping[str, BinnedSeries], now_ns: int) -> dict[str, Any]:
    """The board, and round trips over time by row. A study that is over stands still: its end is the time."""
    now_ns = board.ended_ns if board.ended_ns is not None else now_ns
    return {
        "study": board.study,
        "state": board.state,
        "progress": progress(board, now_ns),
        "share": round(board.share, 4),
        "now_ms": now_ns // 1_000_000,
        "rows": [
            {
                "key": row.directory,
                "title": row.title,
                "state": row.state,
                "runs": f"{row.done}/{row.of}" if row.of is not None else str(row.done),
                "within": None if row.within is None else round(row.within, 3),
                "now": rtt(row.last_ns),
                "last_ns": row.last_ns,
                "p50": rtt(row.p50_ns),
                "p99": rtt(row.p99_ns),
                "count": f"{row.count:,}",
                "event": dict(zip(("text", "weight"), latest(row), strict=True)),
            }
            for row in board.rows
        ],
        "events": [
            {"at": clock(h.at_ns), "about": about(h), "text": h.text, "weight": h.weight}
            for h in reversed(board.happenings)
        ],
        "series": [_columns(series[row.directory]) for row in board.rows],
    }


def _columns(series: BinnedSeries) -> dict[str, Any]:
    bins = series.bins()
    return {
        "width_ms": series.width_ns // 1_000_000,
        "t_ms": [at // 1_000_000 for at, _ in bins],
        "low_ns": [b.low_ns for _, b in bins],
        "high_ns": [b.high_ns for _, b in bins],
        "mean_ns": [b.mean_ns for _, b in bins],
        "lost": [b.unanswered for _, b in bins],
    }
