"""Writing a report: the page, and whatever else was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from fathometer.clean import all_cleaned
from fathometer.dataset.format import MANIFEST
from fathometer.dataset.places import is_url
from fathometer.errors import ExitCode, FathometerError
from fathometer.findings.model import Analysis
from fathometer.report import drawing, render, templates
from fathometer.report import judgement as judged
from fathometer.report.as_json import as_json
from fathometer.report.judgement import Judgement
from fathometer.report.page import Page, title_of
from fathometer.writing import replace

NOTHING_ASKED = Judgement()


def refuse_to_destroy(outputs: Mapping[str, Path], sources: Sequence[str]) -> None:
    """Raises `FathometerError` where a report would replace what it reports, or one output another.

    `outputs`: by the option that names them. `sources`: what is reported.
    """
    named: dict[Path, str] = {}
    given = {Path(os.path.realpath(source)) for source in sources if not is_url(source)}
    for option, path in outputs.items():
        # Not `Path.resolve`, which raises on links that lead to each other.
        place = Path(os.path.realpath(path))
        if path.exists() and not (path.is_file() or path.is_dir()):
            continue  # A device or a pipe takes as many as there are.
        if place in named:
            raise _wrong(f"{named[place]} and {option} both name {path}", "give each a file of its own")
        named[place] = option
        if place in given and not path.is_dir():
            raise _wrong(f"{option} {path} is what is to be reported", "name another file")
        inside = next((p for p in (place, *place.parents) if (p / MANIFEST).is_file()), None)
        if inside is not None:
            raise _wrong(f"{option} {path} lies inside the recording {inside}", "name a place outside of it")


def _wrong(what: str, remedy: str) -> FathometerError:
    return FathometerError("report", what, remedy, exit_code=ExitCode.USAGE)


def write(
    analysis: Analysis,
    *,
    html: Path | None = None,
    markdown: Path | None = None,
    machine: Sequence[Path] = (),
    pictures: Path | None = None,
    title: str | None = None,
    judgement: Judgement = NOTHING_ASKED,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Writes the files asked for, each complete or not at all; returns them in that order."""
    written: list[Path] = []
    if machine:
        document = as_text(analysis, "json", judgement=judgement).encode()
        for path in machine:
            _put(path, document)
            written.append(path)
    if not (html or markdown or pictures):
        return written
    if not (html or pictures):
        page = Page(title or title_of(analysis), analysis, judgement)
    else:
        page = drawing.draw(analysis, title, judgement, progress)
    if pictures:
        _directory(pictures)
        for figure in page.every():
            progress(f"writing {figure.name}")
            _put(pictures / f"{figure.name}.svg", render.plain_svg(figure.spec, figure.title).encode())
            _put(pictures / f"{figure.name}.png", render.png(figure.spec))
        written.append(pictures)
    if markdown:
        where = os.path.relpath(pictures, markdown.parent) if pictures else None
        _put(markdown, templates.markdown(page, where).encode())
        written.append(markdown)
    if html:
        progress("writing the page")
        _put(html, templates.html(page).encode())
        written.append(html)
    return written


def as_text(
    analysis: Analysis,
    kind: Literal["json", "markdown"],
    title: str | None = None,
    judgement: Judgement = NOTHING_ASKED,
) -> str:
    """A report for standard output."""
    if kind == "json":
        report = as_json(analysis) | judged.as_json(judgement)
        return json.dumps(all_cleaned(report), indent=1, allow_nan=False) + "\n"
    return templates.markdown(Page(title or title_of(analysis), analysis, judgement))


def _directory(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise FathometerError(
            "write", f"{path}: {error.strerror}", "name a directory, in one that exists"
        ) from error


def _put(path: Path, content: bytes) -> None:
    """Writes a report whole or not at all to a file; a device or a pipe is written to."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        replace(path, content, shared=True)
    except OSError as error:
        raise FathometerError(
            "write",
            f"{path}: {error.strerror or error}",
            "name a place that can be written, in a directory that exists",
        ) from error
