"""Writing a report: the page, and whatever else was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from fathometer.errors import FathometerError
from fathometer.findings.model import Analysis
from fathometer.report import page as pages
from fathometer.report import render
from fathometer.report.as_json import as_json


def write(
    analysis: Analysis,
    *,
    html: Path | None = None,
    markdown: Path | None = None,
    machine: Path | None = None,
    pictures: Path | None = None,
    title: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Writes the files asked for, each complete or not at all; returns them in that order."""
    written: list[Path] = []
    if machine:
        _put(machine, as_text(analysis, "json").encode())
        written.append(machine)
    if not (html or markdown or pictures):
        return written
    page = pages.draw(analysis, title, progress)
    if pictures:
        for figure in page.every():
            progress(f"writing {figure.name}")
            _put(pictures / f"{figure.name}.svg", render.plain_svg(figure.spec).encode())
            _put(pictures / f"{figure.name}.png", render.png(figure.spec))
        written.append(pictures)
    if markdown:
        where = os.path.relpath(pictures, markdown.parent) if pictures else None
        _put(markdown, pages.markdown(page, where).encode())
        written.append(markdown)
    if html:
        progress("writing the page")
        _put(html, pages.html(page).encode())
        written.append(html)
    return written


def as_text(analysis: Analysis, kind: Literal["json", "markdown"], title: str | None = None) -> str:
    """A report for standard output."""
    if kind == "json":
        return json.dumps(as_json(analysis), indent=1, allow_nan=False) + "\n"
    return pages.markdown(pages.Page(title or pages.title_of(analysis), analysis))


def _put(path: Path, content: bytes) -> None:
    """Beside its place, then renamed: a report is never half there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise FathometerError(
            "write", f"{path}: {error.strerror}", "choose another place with --output"
        ) from error
