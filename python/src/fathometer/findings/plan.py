"""One pass over each recording instead of a dozen: all that an analysis will ask of it, asked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathometer.dataset import query
from fathometer.dataset.recording import Recording
from fathometer.findings import comparisons, datagrams, lives, scenarios, shifts

Questions = Mapping[Recording, Sequence[query.Question[Any, Any]]]
"""What a report will ask besides, by recording."""


def prepare(
    recordings: Sequence[Recording], also: Questions, progress: Callable[[str], None] = lambda _: None
) -> None:
    """Has every question answered that is going to be asked. One that is missing here costs a pass of its
    own, nothing else; a test counts the passes.
    """
    asked: dict[Recording, list[query.Question[Any, Any]]] = {r: list(also.get(r, ())) for r in recordings}
    groups = list(scenarios.grouped(recordings).values())
    for part in (part for group in groups for part in group):
        for of in (scenarios.questions, shifts.questions, lives.questions, datagrams.questions):
            asked[part.recording] += of(part)
    for part, question in comparisons.questions(groups):
        asked[part.recording].append(question)
    for recording, questions in asked.items():
        progress(f"counting the samples of {recording.label}")
        query.prepare(recording, questions)
