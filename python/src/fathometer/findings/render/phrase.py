"""Words with places for what a finding, a piece of evidence or an advice holds: `{length:duration}`.

In a place stands the name of a quantity or term, or `at`, `path`, `saves`; after the colon how it is written
(`WRITTEN`, or `count loss|losses` for a number of things). What asks for a decision is a function instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, Final

from fathometer.findings.finding import Advice, Fact, Finding, Quantity
from fathometer.findings.words import (
    count,
    data,
    duration,
    lower,
    moment,
    often,
    per_second,
    rate,
    share,
    span,
    times,
    within,
)

HOSTS: Final = {"local": "this host", "remote": "the reflector's host"}
WAYS: Final = {"forward": "from the probe", "reverse": "to the probe"}
THERE: Final = {"forward": "there", "backward": "back"}
BEGAN: Final = {
    "loss": "loss begins",
    "delay": "delay begins",
    "both": "loss and delay begin",
    "held_back": "TCP begins to hold packets back",
}
_TERMS: Final = {"host": HOSTS, "way": WAYS, "there": THERE, "began": BEGAN}
"""How the code in a term is written."""


def ends(q: Quantity) -> str:
    """` (3.00 ms to 3.40 ms)`; nothing where there is no interval."""
    return "" if q.low is None or q.high is None else f" ({span(q.low, q.high)})"


WRITTEN: Final[Mapping[str, Callable[[Quantity], str]]] = {
    "": lambda q: f"{int(q.value):,}",
    "duration": lambda q: duration(q.value),
    "within": lambda q: duration(q.value) if q.low is None or q.high is None else within(q.low, q.high),
    "duration and ends": lambda q: duration(q.value) + ends(q),
    "share": lambda q: share(q.value),
    "rate": lambda q: rate(q.value),
    "per second": lambda q: per_second(q.value),
    "data": lambda q: data(q.value),
    "times": lambda q: times(q.value),
    "lower": lambda q: lower(q.value),
    "often": lambda q: often(int(q.value)),
    "moment": lambda q: moment(int(q.value)),
}
"""How a quantity is written."""


class Phrase:
    """The words of one code."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, of: Finding | Fact | Advice) -> str:
        """A sentence, or a part of one, without its full stop."""
        return _FORMATTER.vformat(self._text, (), _Places(of))


class _Places(dict[str, Any]):
    """What may stand in a place, by name."""

    def __init__(self, of: Finding | Fact | Advice) -> None:
        super().__init__(of.terms)
        self.update(of.quantities)
        if isinstance(of, Advice):
            self["path"] = of.paths[0] if of.paths else ""
            self["saves"] = of.saves
        else:
            at = of.at_ns if isinstance(of, Fact) else of.from_ns
            self["at"] = Quantity(at or 0, "ns")


class _Formatter(Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ANN401, ARG002 - as the base has it
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - a quantity or a term
        if value is None:
            return ""
        if format_spec in _TERMS:
            return _TERMS[format_spec][value]
        if not isinstance(value, Quantity):
            return str(value)
        if format_spec.startswith("count "):
            one, *many = format_spec.removeprefix("count ").split("|")
            return count(int(value.value), one, *many)
        return WRITTEN[format_spec](value)


_FORMATTER: Final = _Formatter()
