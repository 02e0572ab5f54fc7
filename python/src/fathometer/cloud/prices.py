"""What a lab costs an hour, as an estimate of the dated list prices in ``prices.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fathometer.cloud.planned import Resource
from fathometer.counts import count


@dataclass(frozen=True)
class Price:
    """In US dollars an hour."""

    low: float
    high: float
    date: str
    """When the prices were looked up, the oldest of them."""
    unknown: tuple[str, ...]
    """Kinds (with what makes their price) for which there is none."""
    number_unknown: int = 0
    """How many things are of these kinds."""

    def __str__(self) -> str:
        if self.unknown and not self.high:
            return f"what is not known: there is no price here of {', '.join(self.unknown)}"
        dated = f"(estimate, list prices of {self.date})"
        if self.unknown:
            return f"{at_least(self.low, self.number_unknown, self.unknown)} {dated}"
        return f"{hourly(self.low, self.high)} {dated}"


def at_least(low: float, number: int, unknown: Iterable[str]) -> str:
    """What a lab costs of which not every price is known; `number`: of so many things (0: not counted)."""
    things = count(number, "thing") if number else "things"
    return (
        f"at least {hourly(low, low)}, without {things} whose price is not known here: {', '.join(unknown)}"
    )


def hourly(low: float, high: float) -> str:
    """`0.55 $ an hour`, `0.19 to 0.50 $ an hour`."""
    first, last = f"{low:.2f}", f"{high:.2f}"
    return f"{first} $ an hour" if first == last else f"{first} to {last} $ an hour"


@cache
def _prices() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))


def estimate(resources: Iterable[Resource]) -> Price:
    """Of all of them."""
    prices = _prices()
    free = set(prices["free"])
    low = high = 0.0
    dates: set[str] = set()
    unknown: list[str] = []
    for resource in resources:
        price = next((p for p in prices["price"] if _fits(p, resource)), None)
        if price is not None:
            low, high = low + price["hour"][0], high + price["hour"][1]
            dates.add(str(price.get("date", prices["date"])))
        elif resource.kind not in free:
            unknown.append(_named(resource))
    date = min(dates, default=str(prices["date"]))
    return Price(low, high, date, tuple(dict.fromkeys(unknown)), len(unknown))


def _fits(price: dict[str, Any], resource: Resource) -> bool:
    if price["kind"] != resource.kind:
        return False
    return all(resource.values.get(name) == value for name, value in price.get("with", {}).items())


def _named(resource: Resource) -> str:
    names = ("size", "instance_type", "machine_type", "sku_tier", "sku")
    what = next((v for n in names if isinstance(v := resource.values.get(n), str)), None)
    return f"{resource.kind} {what}" if what else resource.kind
