"""Whose a state is. The tools take whatever lies in a lab's root for the lab's, and `destroy` removes what it
names: a state that was copied into the wrong lab's directory would remove the other lab.

A state has a lineage, which stays when it is moved, pushed, encrypted or emptied. It is noted when things
were made, and a state of another one is not this lab's. Of a lab whose journal has none (an earlier version
made it, or its making was killed) the tag that its things bear says whose they are. Where a state says
neither, it is taken for the lab's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fathometer.cloud import register
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.planned import LAB_TAG
from fathometer.cloud.states import document_in
from fathometer.errors import FathometerError
from fathometer.study.outputs import OUTPUT

_KNOWN: Final = ("lineage.noted", "lineage.void")


def anothers(place: LabPlace) -> str | None:
    """The state of another lab that lies where this one's belongs, in words; None: there is none, or nobody
    can tell.
    """
    for file in (place.state_file, place.aside):
        document = _document(file)
        if document is not None and (why := _why_anothers(place, document)):
            return f"{file} is another lab's: {why}"
    return None


def must_be_own(place: LabPlace, down: str) -> None:
    """Raises `FathometerError` where another lab's state lies in a lab's place; `down` removes that lab."""
    if (what := anothers(place)) is not None:
        raise FathometerError(
            "use the lab's state",
            what,
            "move it to where it belongs, and put this lab's own there. Where that is lost, move this one"
            f" away all the same: {down} then asks the cloud what it has of the lab",
        )


def note_lineage(place: LabPlace) -> None:
    """Notes by what the state is known, after the tool made something with it."""
    document = _document(place.state_file)
    lineage = None if document is None else _lineage(document)
    if lineage is not None and lineage != _noted(place):
        place.note("lineage.noted", lineage=lineage)


def expect_another(place: LabPlace) -> None:
    """To be called before a making: where there is no state, the tool begins one of another lineage."""
    if _noted(place) is not None and not place.state_file.exists():
        place.note("lineage.void")


def tags_of(document: Mapping[str, Any]) -> set[str]:
    """The labs that a state's things are of, as they bear it; where none does, as its outputs have it."""
    tags = set()
    for thing in document.get("resources") or ():
        # What a lab only reads of a cloud is not its own.
        if isinstance(thing, Mapping) and thing.get("mode") != "data":
            tags |= {tag for one in thing.get("instances") or () if (tag := _tag(one))}
    if not tags:
        lab = _at(document, "outputs", OUTPUT, "value", "lab")
        tags |= {lab} if isinstance(lab, str) else set()
    return tags


def _why_anothers(place: LabPlace, document: Mapping[str, Any]) -> str | None:
    lineage, noted = _lineage(document), _noted(place)
    tags, own = tags_of(document), _own_tags(place)
    if lineage is not None and noted is not None:
        named = f" (its things are of {_listed(tags)})" if tags - own else ""
        return None if lineage == noted else f"its lineage is {lineage}, and this lab's is {noted}{named}"
    root = str((place.begun or {}).get("root"))
    if own:
        is_other = bool(tags) and not tags & own
    else:
        # Of a lab of ours nobody knows its name, but how that ends.
        is_other = bool(tags) and _is_of_ours(place) and not any(tag.endswith(f"-{root}") for tag in tags)
    if not is_other:
        return None
    return f"its things are of {_listed(tags)}, and this lab is {_listed(own) or place.lab}"


def _own_tags(place: LabPlace) -> set[str]:
    try:
        return {*register.where(place).tags}
    except (FathometerError, OSError, ValueError, TypeError):
        # An entry or settings that cannot be read, of which whoever needs them says more.
        return set()


def _is_of_ours(place: LabPlace) -> bool:
    return (place.begun or {}).get("infra") is None


def _noted(place: LabPlace) -> str | None:
    last = place.last(*_KNOWN)
    return None if last is None or last["kind"] == "lineage.void" else str(last["lineage"])


def _document(file: Path) -> Mapping[str, Any] | None:
    try:
        return document_in(file.read_bytes())
    except OSError:
        # Whoever reads it for what it names says more.
        return None


def _lineage(document: Mapping[str, Any]) -> str | None:
    lineage = document.get("lineage")
    return lineage if isinstance(lineage, str) and lineage else None


def _tag(instance: object) -> str | None:
    for name in ("tags", "labels", "tags_all", "effective_labels"):
        tag = _at(instance, "attributes", name, LAB_TAG)
        if isinstance(tag, str):
            return tag
    return None


def _at(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _listed(tags: set[str]) -> str:
    return ", ".join(sorted(tags))
