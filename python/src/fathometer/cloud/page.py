"""The report that `run` writes. It replaces a report of the lab's own unasked, and nothing else.

That is known by a digest of what was written, not by the name: somebody may have put another file in its
place since, or written into it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from fathometer.reading import digest


def page_of(output: Path) -> Path:
    """Where the report of recordings is written."""
    return output.with_name(f"{output.name}.html")


def may_replace(work: Work, page: Path) -> None:
    """Asks about what lies where a report is to be, in a lab that is held: before anything is measured, and
    again by `writing`. Raises `FathometerError` where nobody agrees.
    """
    if page.is_dir():
        raise FathometerError(
            "write the report",
            f"{page} is a directory",
            "move it elsewhere, or name another --output",
        )
    if not os.path.lexists(page) or _is_ours(work.place, page):
        return
    if not work.agreed(f"{page} is there, and no run of this lab wrote it as it is. Replace it?"):
        raise FathometerError(
            "write the report", f"{page} is there", "move it elsewhere, or name another --output"
        )
    work.place.note("report.agreed", page=str(page), sha256=digest(page))


@contextlib.contextmanager
def writing(work: Work, page: Path) -> Iterator[None]:
    """Around the writing of a report; raises as `may_replace` does before it. What was written counts as the
    lab's, however the writing ends.
    """
    with work.held():
        may_replace(work, page)
        before = digest(page)
        try:
            yield
        finally:
            after = digest(page)
            if after not in {None, before}:
                work.place.note("report.written", page=str(page), sha256=after)


def _is_ours(place: LabPlace, page: Path) -> bool:
    """Whether a run of the lab wrote it as it is now, or somebody agreed last to its being replaced."""
    sha256 = digest(page)
    reports = [
        e
        for e in place.entries
        if e.get("page") == str(page) and e.get("kind") in {"report.agreed", "report.written"}
    ]
    written = {e.get("sha256") for e in reports if e["kind"] == "report.written"}
    return sha256 in written or (bool(reports) and reports[-1].get("sha256") == sha256)
