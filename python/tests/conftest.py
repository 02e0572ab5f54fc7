"""Settings of the tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# As the command line has it (`fathometer.early`), before any test imports numpy: there are as many workers as
# processors.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# These cores are shared: how long an example takes says nothing. CI tries the same examples every time.
settings.register_profile("ours", deadline=None, max_examples=60, derandomize=os.environ.get("CI") == "true")
settings.load_profile("ours")

COMPUTES = ("report", "findings", "stats", "cli", "dataset")
WAITS = ("demo", "study", "cloud", "infra", "tds")
"""Directories, those of the longest tests first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """First the tests that compute, then those that wait. `--dist worksteal` cuts the list in the middle: of
    two workers one begins with each kind, so that a processor is busy while something is waited for. And what
    the tests of a module share is made once.
    """
    here = Path(__file__).parent
    places = {name: n for n, name in enumerate((*COMPUTES, *WAITS))}

    def place(item):
        return places.get(item.path.relative_to(here).parts[0], -1)

    items.sort(key=place)
