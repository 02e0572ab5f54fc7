"""What would be made, and what there is, of the JSON of OpenTofu and Terraform (`show -json`; format 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

LAB_TAG: Final = "fathom-lab"
"""The tag, or label, that everything of a lab bears."""
HOSTS: Final = frozenset({"azurerm_linux_virtual_machine", "aws_instance", "google_compute_instance"})
"""Kinds that have keys of their own for SSH."""
ENDS: Final = frozenset({"azurerm_dev_test_global_vm_shutdown_schedule", "aws_scheduler_schedule"})
"""Kinds that end a host at a time; Google's hosts do it themselves."""


@dataclass(frozen=True)
class Resource:
    """A thing of the cloud's."""

    address: str
    kind: str
    values: Mapping[str, Any]

    @property
    def tag(self) -> str | None:
        """Its lab's name, where it says it."""
        for name in ("tags", "labels"):
            tags = self.values.get(name)
            if isinstance(tags, Mapping) and isinstance(tags.get(LAB_TAG), str):
                return str(tags[LAB_TAG])
        return None


@dataclass(frozen=True)
class Plan:
    """What applying a plan does."""

    made: tuple[Resource, ...]
    changed: tuple[Resource, ...]
    removed: tuple[Resource, ...]
    """Also what is made anew in its place, which is in `made`, too."""
    after: tuple[Resource, ...]
    """Everything that there is afterwards."""
    outputs: bool = False
    """Whether what the lab tells of itself changes, by which it is measured on."""
    before: tuple[Resource, ...] = ()
    """What there is, as the cloud said it when the plan was made."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.outputs or self.made or self.changed or self.removed)

    @property
    def is_free(self) -> bool:
        """Whether nothing is made, changed or removed, so that nobody need agree to what it costs."""
        return not (self.made or self.changed or self.removed)

    @property
    def tag(self) -> str | None:
        """The lab's name in tags."""
        return next((tag for one in self.after if (tag := one.tag)), None)

    def is_within(self, addresses: Iterable[str]) -> bool:
        """Whether it only makes things that these name: what a crash left to be done."""
        return not (self.changed or self.removed) and {r.address for r in self.made} <= set(addresses)


def read_plan(document: Mapping[str, Any]) -> Plan:
    """Of a plan."""
    made, changed, removed, after = [], [], [], []
    for change in document.get("resource_changes") or ():
        if change.get("mode") != "managed":
            continue
        actions = change["change"]["actions"]
        there = Resource(change["address"], change["type"], change["change"].get("after") or {})
        made += [there] if "create" in actions else []
        changed += [there] if "update" in actions else []
        removed += [there] if "delete" in actions else []
        after += [there] if "delete" not in actions or "create" in actions else []
    told = (document.get("output_changes") or {}).values()
    outputs = any(change["actions"] != ["no-op"] for change in told)
    before = read_state(document.get("prior_state") or {})
    return Plan(tuple(made), tuple(changed), tuple(removed), tuple(after), outputs, before)


def read_state(document: Mapping[str, Any]) -> tuple[Resource, ...]:
    """Of a state: what there is."""
    return tuple(_resources((document.get("values") or {}).get("root_module") or {}))


def _resources(module: Mapping[str, Any]) -> Iterator[Resource]:
    for resource in module.get("resources") or ():
        if resource.get("mode") == "managed":
            yield Resource(resource["address"], resource["type"], resource.get("values") or {})
    for child in module.get("child_modules") or ():
        yield from _resources(child)


def by_kind(resources: Iterable[Resource]) -> list[tuple[str, int]]:
    """How many of each kind, the most first."""
    return sorted(Counter(r.kind for r in resources).items(), key=lambda one: (-one[1], one[0]))
