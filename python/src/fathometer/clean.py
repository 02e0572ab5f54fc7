"""Text that came from outside (labels, events, hosts' answers, imported names), made fit to be shown.

It is kept as it came in recordings; it is cleaned where people or programs are shown it: a terminal, HTML,
Markdown, SVG, JSON. What a format gives a meaning to (`<` in HTML, `|` in a Markdown table) is escaped there,
besides.
"""

from __future__ import annotations

import re
from typing import Any, Final

INSTEAD: Final = "\ufffd"
"""Stands for what cannot be shown, so that it is seen that something was there."""
_BLANK: Final = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
"""Ends of lines and tabs. U+2028 and U+2029 end a line of JavaScript, of which a page's data are part."""
_UNFIT: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # Control characters: a terminal obeys them, and XML has no way to write them.
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # They turn the direction of what follows them.
    r"\ud800-\udfff"  # Halves of characters, which UTF-8 cannot write.
    r"\ufeff\ufffe\uffff]"  # No characters, and not allowed in XML.
)


def cleaned(text: str) -> str:
    """One line without anything that a terminal, a browser or a parser would obey or choke on."""
    return _UNFIT.sub(INSTEAD, _BLANK.sub(" ", text))


def all_cleaned(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Every text in a tree of dictionaries and lists, keys included; the rest as it is."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, dict):
        return {all_cleaned(k): all_cleaned(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_cleaned(v) for v in value]
    return value
