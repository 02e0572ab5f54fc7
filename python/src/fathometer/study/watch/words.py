"""A board in words, the same on every face."""

from __future__ import annotations

from datetime import UTC, datetime

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.study.live.board import Board, BoardRow
from fathometer.study.live.happenings import Happening, Weight, span

GONE = "its runner is gone; the same `fathom study run` goes on"


def clock(at_ns: int) -> str:
    """The time of day, UTC."""
    return f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%H:%M:%S}"


def rtt(ns: int | None) -> str:
    """A round trip; a dash where there is none, or too few for the figure."""
    return "–" if ns is None else span(ns)


def about(h: Happening) -> str:
    """What it is about: scenario and run; empty: the study."""
    return "  ".join(word for word in (h.title, (h.run or "").replace("run=", "run ")) if word)


def line(h: Happening) -> str:
    """One plain line."""
    words = about(h)
    return cleaned(f"{clock(h.at_ns)}  {words}: {h.text}" if words else f"{clock(h.at_ns)}  {h.text}")


def latest(row: BoardRow) -> tuple[str, Weight]:
    """What happened last on a row; where nothing was worth telling, how many short pauses there were."""
    if row.happened is not None:
        return row.happened.text, row.happened.weight
    if row.short_pauses == 0:
        return "", "plain"
    return (
        f"{count(row.short_pauses, 'short pause')} of a host, at most {span(row.longest_short_ns)}",
        "plain",
    )


def progress(board: Board, now_ns: int) -> str:
    """How far the study is, and when it will be over."""
    words = [f"{board.done} of {count(board.of, 'run')}"]
    if board.failed:
        words.append(f"{board.failed} failed")
    if board.state == "gone":
        words.append(GONE)
    elif board.state == "running" and board.left_ns is not None:
        words.append(f"about {_coarse(board.left_ns)} left")
        words.append("and the waits for its hours" if board.hours else f"until {_end(now_ns, board.left_ns)}")
    elif board.began_ns is not None and board.ended_ns is not None:
        words.append(f"took {span(max(0, board.ended_ns - board.began_ns))}")
    return ", ".join(words)


def _coarse(ns: int) -> str:
    seconds = -(-ns // 1_000_000_000)
    return f"{seconds} s" if seconds < 60 else span(seconds * 1_000_000_000)


def _end(now_ns: int, left_ns: int) -> str:
    end = datetime.fromtimestamp((now_ns + left_ns) // 1_000_000_000, UTC)
    return f"{end:%H:%M} UTC" if left_ns < 86_400 * 10**9 else f"{end:%a %d %b %H:%M} UTC"
