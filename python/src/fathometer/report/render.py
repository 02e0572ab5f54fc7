"""Vega-Lite specifications as SVG and PNG, without a browser and without a network (vl-convert)."""

from __future__ import annotations

import html
import json
import os
import re
import sys
import threading
import zlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from fathometer.clean import INSTEAD, all_cleaned, cleaned
from fathometer.report.vega import INK, Spec
from fathometer.writing import replace


def svg(spec: Spec, name: str, title: str) -> str:
    """An SVG whose text has the colour of the text around it. `name`: unique in the page, for the pictures
    stand in one document and must not use each other's clips. `title`: its label for screen readers.
    """
    drawn = _svg(all_cleaned(spec))
    drawn = re.sub(re.escape(INK), "currentColor", drawn, flags=re.IGNORECASE)
    drawn = re.sub(r' d="[^"]*"', lambda outline: _LONG.sub(_shortened, outline[0]), drawn)
    drawn = _ALIKE.sub(_joined, drawn)
    return _labelled(re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", drawn), title)


def _labelled(drawn: str, title: str) -> str:
    label = html.escape(cleaned(f"Chart: {title}"))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _svg(spec: Spec) -> str:
    """Draws with a stand-in for each character of two UTF-16 units. Vega cuts a long label between any two
    units, and half a character ends the drawing.
    """
    spec, stand_ins = _in_one_unit(spec)
    drawn: str = vl_convert.vegalite_to_svg(spec, vl_version=_version(), allowed_base_urls=[])
    return drawn.translate({ord(instead): letter for letter, instead in stand_ins.items()})


def _in_one_unit(spec: Spec) -> tuple[Spec, dict[str, str]]:
    """A specification without characters of two units, and the characters of their stand-ins."""
    text = json.dumps(spec)
    if not _TWO_UNITS.search(text):
        return spec, {}
    text = json.dumps(spec, ensure_ascii=False)
    letters = sorted({letter for letter in text if letter > "\uffff"})
    unused = (chr(n) for n in _PRIVATE if chr(n) not in text)
    stand_ins = dict(zip(letters, unused, strict=False))
    table = {ord(letter): stand_ins.get(letter, INSTEAD) for letter in letters}
    changed: Spec = json.loads(text.translate(table))
    return changed, stand_ins


_TWO_UNITS = re.compile(r"\\ud[89ab]", re.IGNORECASE)
_PRIVATE = range(0xE000, 0xF900)
"""Characters without a meaning."""
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


_ALIKE = re.compile(r'<path d="[^"]*"( fill="[^>]*)/>(?:<path d="[^"]*"\1/>)+')
"""Shapes in a row that differ in their outlines alone: the bars of a band."""


def _shortened(number: re.Match[str]) -> str:
    """To a hundredth of a pixel: seventeen digits each are a third of a page."""
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _joined(shapes: re.Match[str]) -> str:
    """As one shape: a third of a page is how each of thousands is filled."""
    outlines = "".join(re.findall(r'<path d="([^"]*)"', shapes[0]))
    return f'<path d="{outlines}"{shapes[1]}/>'


def compiled(spec: Spec) -> Spec:
    """A Vega specification, for the page: it then need not compile."""
    vega: Spec = vl_convert.vegalite_to_vega(all_cleaned(spec), vl_version=_version())
    return vega


def plain_svg(spec: Spec, title: str, ink: str = "#1b1b1f", paper: str = "#ffffff") -> str:
    """An SVG for slides: colours of its own, on paper."""
    return _labelled(_svg(_painted(spec, ink, paper)), title)


def png(spec: Spec, scale: float = 2.0, ink: str = "#1b1b1f", paper: str = "#ffffff") -> bytes:
    """A PNG for slides."""
    painted, stand_ins = _in_one_unit(_painted(spec, ink, paper))
    if stand_ins:  # A bitmap cannot get the characters back.
        shown = json.dumps(painted, ensure_ascii=False).translate(
            {ord(instead): INSTEAD for instead in stand_ins.values()}
        )
        painted = json.loads(shown)
    drawn: bytes = vl_convert.vegalite_to_png(
        painted, vl_version=_version(), scale=scale, allowed_base_urls=[]
    )
    return drawn


def _painted(spec: Spec, ink: str, paper: str) -> Spec:
    painted: Spec = json.loads(json.dumps(all_cleaned(spec)).replace(INK, ink))
    painted["background"] = paper
    return painted


_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""Vega itself is null in what vl-convert 1.9 bundles; vega-embed reaches the true one."""
_LOCK = threading.Lock()
_LEAST = 100_000
"""Bytes below which no bundle of Vega can be."""


@cache
def _version() -> str:
    """The newest Vega-Lite that is at hand: the one whose Vega is in the script, too."""
    versions: list[str] = vl_convert.get_vegalite_versions()
    return max(versions, key=lambda v: [int(x) for x in v.split(".")])


def script() -> str:
    """`_script`, once however many threads ask."""
    with _LOCK:
        return _script()


@cache
def _script() -> str:
    """Vega and vega-embed in one script, for the charts that zoom.

    vl-convert bundles it anew each time, which takes a second; so it is kept in the user's cache directory,
    by version.
    """
    name = f"vega-{version('vl-convert-python')}-{_version()}-{zlib.crc32(_SNIPPET.encode()):08x}.js"
    kept = _cache() / name
    try:
        cached = kept.read_text(encoding="utf-8")
        # What a full disk or another version left behind is not worth a broken page.
        if len(cached) > _LEAST:
            return cached
    except (OSError, UnicodeDecodeError):
        pass
    bundle: str = vl_convert.javascript_bundle(_SNIPPET, vl_version=_version())
    # `</script` inside a string of the bundle would end the page's own script element.
    bundle = bundle.replace("</script", "<\\/script")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace(kept, bundle.encode())
    except OSError:
        pass  # A cache that cannot be written costs a second, nothing else.
    return bundle


def _cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fathometer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fathometer"
