"""One pass over a recording's samples that answers many questions at once.

A report asks a dozen things of every sample: histograms by stretch of time, by connection, by hour,
envelopes for charts and for change points. Asked one by one, each costs a pass; so whoever knows what will be
asked says so (`prepare`), and `ask` then finds the answer ready. What was not prepared is answered by a pass
of its own: a plan saves time and changes nothing else. Answers are made of integers and are the same in
whatever order the samples come, so closed segments are read by as many threads as there are processors.

Arrays and not SQL: eight histograms over 25 million samples in one pass took 4.6 s of processor and 0.4 GB,
as DuckDB's GROUPING SETS 8.6 s and 1.7 GB.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from fathometer.dataset import batches
from fathometer.dataset.batches import Batch
from fathometer.dataset.recording import Recording
from fathometer.errors import FathometerError

P = TypeVar("P")
A = TypeVar("A")
_JOIN_AT: Final = 32
"""Parts of an answer that are put together before there are more: memory goes by groups, not by samples."""


class Question(ABC, Generic[P, A]):
    """Something to be counted over samples: a part of the answer from each batch, parts joined, the answer
    from all. Equal questions are one; subclasses are frozen dataclasses.
    """

    @abstractmethod
    def columns(self) -> Iterable[str]:
        """The columns it looks at."""

    @abstractmethod
    def part(self, batch: Batch) -> P | None:
        """What a batch contributes; None: nothing."""

    @abstractmethod
    def joined(self, parts: Sequence[P]) -> P:
        """Several parts, at least one, as one; their order does not matter."""

    @abstractmethod
    def answer(self, part: P | None) -> A:
        """The answer, when all has been seen; None: no batch contributed."""


def prepare(recording: Recording, questions: Iterable[Question[Any, Any]]) -> None:
    """Answers questions in one pass and keeps each answer, which may be large, until it has been asked for as
    often as it is named here.
    """
    times = Counter(questions)
    wanted = [q for q in times if q not in recording.answers]
    if wanted:
        for question, answer in zip(wanted, _pass(recording, wanted), strict=True):
            recording.answers[question] = (answer, times[question])


def ask(recording: Recording, question: Question[P, A]) -> A:
    """The answer to a question."""
    if question not in recording.answers:
        prepare(recording, [question])
    answer, times = recording.answers.pop(question)
    if times > 1:
        recording.answers[question] = (answer, times - 1)
    found: A = answer
    return found


def _pass(recording: Recording, questions: Sequence[Question[Any, Any]]) -> list[Any]:
    source = recording.source
    columns = list(dict.fromkeys(["sent_ns", *(c for q in questions for c in q.columns())]))
    collected = [_Parts(q) for q in questions]

    def closed(path: Any) -> list[Any]:  # noqa: ANN401 - parts are their question's own
        return _parts(batches.of_parquet(path, columns), questions)

    try:
        with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as workers:
            every: Iterator[list[Any]] = workers.map(closed, source.parquet)
            for found in every:
                _add(collected, found)
        if source.open is not None:
            _add(collected, _parts(batches.of_table(source.open.select(columns)), questions))
    except (OSError, pa.ArrowException) as error:
        where = source.parquet[0].parent if source.parquet else "an open segment"
        raise FathometerError(
            "read samples", f"{where}: {error}", "check it with `fathom recording verify`"
        ) from None
    return [q.answer(c.all()) for q, c in zip(questions, collected, strict=True)]


class _Parts:
    """The parts of one answer so far."""

    def __init__(self, question: Question[Any, Any]) -> None:
        self._question = question
        self._parts: list[Any] = []

    def add(self, part: Any) -> None:  # noqa: ANN401 - a question's own
        if part is None:
            return
        self._parts.append(part)
        if len(self._parts) >= _JOIN_AT:
            self._parts = [self._question.joined(self._parts)]

    def all(self) -> Any:  # noqa: ANN401 - a question's own
        return self._question.joined(self._parts) if self._parts else None


def _parts(every: Iterator[Batch], questions: Sequence[Question[Any, Any]]) -> list[Any]:
    collected = [_Parts(q) for q in questions]
    for batch in every:
        _add(collected, [q.part(batch) for q in questions])
    return [c.all() for c in collected]


def _add(collected: Sequence[_Parts], found: Sequence[Any]) -> None:
    for parts, part in zip(collected, found, strict=True):
        parts.add(part)
