"""Plans and states, as `show -json` of OpenTofu and Terraform has them (format 1), and an estimate of what
their resources cost.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from fathometer.clean import cleaned

LAB_TAG: Final = "fathom-lab"
"""The tag, or label, that everything of a lab bears."""
HOSTS: Final = frozenset({"azurerm_linux_virtual_machine", "aws_instance", "google_compute_instance"})
"""Kinds that are hosts, with keys for SSH."""
_SIZES: Final = ("size", "instance_type", "machine_type", "sku_tier", "sku")


@dataclass(frozen=True)
class Resource:
    """A resource in a cloud."""

    address: str
    kind: str
    values: Mapping[str, Any]

    @property
    def tag(self) -> str | None:
        """The lab's name that it bears, if it bears one."""
        for name in ("tags", "labels"):
            tags = self.values.get(name)
            if isinstance(tags, Mapping) and isinstance(tags.get(LAB_TAG), str):
                return str(tags[LAB_TAG])
        return None


@dataclass(frozen=True)
class Plan:
    """The changes that an apply makes. A resource that is replaced is in both `made` and `removed`."""

    made: tuple[Resource, ...]
    changed: tuple[Resource, ...]
    removed: tuple[Resource, ...]
    after: tuple[Resource, ...]
    """All resources that exist afterwards."""
    outputs: bool = False
    """The outputs change, by which `run` makes its study."""

    @property
    def is_free(self) -> bool:
        """No resource changes, so the price stays."""
        return not (self.made or self.changed or self.removed)

    @property
    def is_empty(self) -> bool:
        """Nothing changes."""
        return self.is_free and not self.outputs


def read_plan(document: Mapping[str, Any]) -> Plan:
    """The plan in a document of `show -json FILE`."""
    made, changed, removed, after = [], [], [], []
    for change in document.get("resource_changes") or ():
        if change.get("mode") != "managed":
            continue
        actions = change["change"]["actions"]
        resource = Resource(change["address"], change["type"], change["change"].get("after") or {})
        made += [resource] if "create" in actions else []
        changed += [resource] if "update" in actions else []
        removed += [resource] if "delete" in actions else []
        after += [resource] if "delete" not in actions or "create" in actions else []
    outputs = (document.get("output_changes") or {}).values()
    is_changed = any(change["actions"] != ["no-op"] for change in outputs)
    return Plan(tuple(made), tuple(changed), tuple(removed), tuple(after), is_changed)


def read_state(document: Mapping[str, Any]) -> tuple[Resource, ...]:
    """The resources in a document of `show -json`."""
    return tuple(_resources((document.get("values") or {}).get("root_module") or {}))


def _resources(module: Mapping[str, Any]) -> Iterator[Resource]:
    for resource in module.get("resources") or ():
        if resource.get("mode") == "managed":
            yield Resource(resource["address"], resource["type"], resource.get("values") or {})
    for child in module.get("child_modules") or ():
        yield from _resources(child)


def table(resources: Iterable[Resource]) -> str:
    """A line for each kind with its count, the most frequent first."""
    kinds = sorted(Counter(r.kind for r in resources).items(), key=lambda one: (-one[1], one[0]))
    return "\n".join(f"{number:>7,}  {cleaned(kind)}" for kind, number in kinds)


@dataclass(frozen=True)
class Price:
    """An estimate in US dollars an hour."""

    low: float
    high: float
    date: str
    """The oldest date at which the prices were looked up."""
    unknown: tuple[str, ...]
    """Kinds, with their sizes, whose price is unknown."""

    def __str__(self) -> str:
        dated = f"(estimate, list prices of {self.date})"
        if not self.unknown:
            return f"{hourly(self.low, self.high)} {dated}"
        kinds = f"things of unknown price: {', '.join(self.unknown)}"
        known = f"at least {hourly(self.low, self.low)}, without" if self.high else "an unknown price, of"
        return f"{known} {kinds} {dated}"


def hourly(low: float, high: float) -> str:
    """`0.55 $ an hour`, `0.19 to 0.50 $ an hour`."""
    first, last = f"{low:.2f}", f"{high:.2f}"
    return f"{first} $ an hour" if first == last else f"{first} to {last} $ an hour"


@cache
def _prices() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))


def estimate(resources: Iterable[Resource]) -> Price:
    """The price of all resources, by the dated list prices in ``prices.toml``."""
    prices = _prices()
    low = high = 0.0
    dates: set[str] = set()
    unknown: list[str] = []
    for resource in resources:
        price = next((p for p in prices["price"] if _fits(p, resource)), None)
        if price is not None:
            low, high = low + price["hour"][0], high + price["hour"][1]
            dates.add(str(price.get("date", prices["date"])))
        elif resource.kind not in prices["free"]:
            size = next((v for n in _SIZES if isinstance(v := resource.values.get(n), str)), "")
            unknown.append(f"{resource.kind} {size}".rstrip())
    date = min(dates, default=str(prices["date"]))
    return Price(low, high, date, tuple(dict.fromkeys(unknown)))


def _fits(price: Mapping[str, Any], resource: Resource) -> bool:
    wanted = price.get("with", {}).items()
    return price["kind"] == resource.kind and all(resource.values.get(n) == v for n, v in wanted)
