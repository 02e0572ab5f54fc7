"""Several runs in one file (a cron job that appends, `cat a b`): the place and the time of each start."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from fathometer.dataset.importers.base import File, Options

APART: Final = "several runs in one file: the time between them is not known, each follows the one before"
_SPACE: Final = re.compile(r"\s*")


def cut(text: str, start: re.Pattern[str]) -> list[str]:
    """Cuts a text before each match of `start`. Text before the first match belongs to the first part."""
    places = [match.start() for match in start.finditer(text)]
    return [text[a:b] for a, b in itertools.pairwise([0, *places[1:], len(text)])]


def alone(file: File, text: str, *results: str) -> None:
    """Raises `FathometerError` if a text holds a result twice: then the beginning of a run is missing."""
    for result in results:
        if len(re.findall(result, text, re.MULTILINE)) > 1:
            raise file.bad(
                "it holds several results, and where each run begins cannot be seen",
                "import each run by itself",
            )


def tables(data: bytes) -> list[tuple[int, int]]:
    """Start and end of each table. A table begins at each line that repeats the first one, which holds the
    names.
    """
    header = data.partition(b"\n")[0]
    if not header.strip():
        return [(0, len(data))]
    begins, at = [0], len(header)
    while (at := data.find(b"\n" + header + b"\n", at)) >= 0:
        begins.append(at + 1)
        at += len(header)
    return list(zip(begins, [*begins[1:], len(data)], strict=True))


def documents(file: File) -> list[dict[str, Any]]:
    """The objects of JSON in a file, one after another; raises `FathometerError`."""
    decoder, text, at, found = json.JSONDecoder(), file.text, 0, []
    while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            remedy = "import the whole JSON that the tool writes (iperf3 --json, irtt -o)"
            raise file.bad(f"it is no whole JSON ({error})", remedy) from None
        if not isinstance(value, dict):
            raise file.bad("its JSON is no object")
        found.append(value)
    return found


def begins(file: File, options: Options, spans_ns: Sequence[int], notes: list[str]) -> list[int]:
    """Start of each run with relative times: one after another, each as long as its span; adds notes."""
    whole = sum(spans_ns)
    first = file.started_ns(options, whole, notes)
    if len(spans_ns) > 1:
        notes.append(APART)
    return list(itertools.accumulate(spans_ns, initial=first))[:-1]
