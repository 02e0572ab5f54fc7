"""What OpenTofu and Terraform say went wrong, in their objects of JSON and in their words for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

MOST_WORDS: Final = 2000
"""Characters of an error that are shown."""
_REFUSED: Final = re.compile(r"Invalid value for (?:input )?variable|No value for required variable")
_NAMED: Final = re.compile(r'\s*(?:"(\w+)"\s*:|variable "(\w+)")')
"""A variable, in the line of a file of settings or of the lab's own that an error points to."""
_HANDED_ON: Final = re.compile(r"\bvar\.(\w+)")
_RULE: Final = re.compile(r"\s*This was checked by the validation rule at \S+\s*$")
_UNSUITED: Final = re.compile(r"The given value is not suitable for \S+ declared at \S+: (.*)", re.DOTALL)
"""As both tools say where the lab's files have a variable, which who gave a value never reads."""


def errors(value: Mapping[str, Any]) -> list[str]:
    """The error that an object of its JSON is, in one line; nothing where it is none."""
    diagnostic = value.get("diagnostic")
    if value.get("type") != "diagnostic" or not isinstance(diagnostic, dict):
        return []
    if diagnostic.get("severity") != "error":
        return []
    parts = [str(diagnostic.get(part) or "").strip() for part in ("summary", "detail")]
    if name := _variable(diagnostic):
        return [f"{name}: {_about_value(*parts)}"]
    return [": ".join(part for part in parts if part)]


def _about_value(summary: str, detail: str) -> str:
    """What is wrong with the value of a variable, without where the lab's files say so."""
    if summary.startswith("No value"):
        return "it has no value, and no usual one"
    detail = _RULE.sub("", detail).strip()
    unsuited = _UNSUITED.fullmatch(detail)
    return (unsuited[1] if unsuited else detail).rstrip(".")


def variables(value: Mapping[str, Any]) -> list[str]:
    """The variable that an object of its JSON refuses the value of. The words alone have no name."""
    name = _variable(value["diagnostic"]) if errors(value) else None
    return [name] if name else []


def _variable(diagnostic: Mapping[str, Any]) -> str | None:
    if not _REFUSED.match(str(diagnostic.get("summary"))):
        return None
    snippet = diagnostic.get("snippet")
    code = str(snippet.get("code")) if isinstance(snippet, dict) else ""
    if name := _NAMED.match(code):
        return name[1] or name[2]
    # A module that the lab's own files hand the value on to refuses it. In a module it may have another name.
    file = str((diagnostic.get("range") or {}).get("filename", "/"))
    names = set(_HANDED_ON.findall(code)) if "/" not in file else set()
    return names.pop() if len(names) == 1 else None


def plain_errors(text: str) -> list[str]:
    """As they are printed for people: in a frame, from `Error:` on."""
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).strip("│╷╵| ").strip() for line in text.splitlines()]
    text = " ".join(line for line in lines if line)
    return [part.strip() for part in text.split("Error: ")[1:]] or ([text[-MOST_WORDS:]] if text else [])
