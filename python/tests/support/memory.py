"""Memory of a report as allocated by Python: equal on every run, unlike the process's memory."""

import functools
import gc
import tempfile
import tracemalloc
from pathlib import Path

from fathometer.dataset import open_recordings
from fathometer.dataset.recording import _counted
from fathometer.findings.analyse import analyse
from fathometer.report import write as writing
from support.recordings import lognormal_ns, write

MORE = 4
"""Growth of the count from the smaller to the larger recording."""
ROOM = 1.15
"""Tables of dictionaries grow in steps."""


def peaks(directory, page=None):
    """Maximum of bytes in use in each step of a report. Event lines are read one by one before."""
    recordings = open_recordings([directory])
    steps = {}
    gc.collect()
    tracemalloc.start()

    def step(name, work):
        tracemalloc.reset_peak()
        made = work()
        steps[name] = tracemalloc.get_traced_memory()[1]
        return made

    try:
        step("counting", lambda: [_counted(r) for r in recordings])
        analysis = step("analysis", lambda: analyse(recordings))
        step("json", lambda: len(writing.as_text(analysis, "json")))
        step("markdown", lambda: len(writing.as_text(analysis, "markdown")))
        if page:
            step("page", lambda: writing.write(analysis, html=page))
    finally:
        tracemalloc.stop()
    return steps


@functools.cache
def warm_up():
    """Imports and compiles everything that happens only once."""
    with tempfile.TemporaryDirectory() as directory:
        for number, label in enumerate(("near", "far")):
            write(Path(directory, label), lognormal_ns(number, 400), label=label)
        peaks(directory)


def assert_linear(directory, make, n, page=None):
    """Asserts that four times as many items take at most four times the memory in every step.
    `make(directory, n)` writes recordings with `n` items.
    """
    warm_up()
    few, many = (directory / str(number) for number in (n, MORE * n))
    for place, number in ((few, n), (many, MORE * n)):
        place.mkdir()
        make(place, number)
    less, more = peaks(few, page), peaks(many, page)
    assert all(more[step] <= ROOM * MORE * less[step] for step in less), (less, more)
