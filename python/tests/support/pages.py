"""Reports of a page that is drawn: drawing takes most of the time of a report."""

import pytest

from fathometer.report import drawing
from fathometer.report import write as writing


def write_drawn(page, **files):
    """Writes a report of a page; the files are those of `fathometer.report.write`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw", lambda *_: page)
        writing.write(page.analysis, **files)
