"""Tests that share a root's lab run in one process of xdist's, which plans and makes it once: by themselves
(`make infra`) for certain, among all others as a rule, as they follow one another.

By the names of their parameters, as `of_root` gives them: the groups of xdist change a test's
name, which pytest 9.2 lets nobody do.
"""

import re
from pathlib import Path

import pytest

from support.terraform import PROVIDERS, roots

_LABS = sorted((f"{cloud}-{root}" for cloud in PROVIDERS for root in roots(cloud)), key=len, reverse=True)
_OF_LAB = re.compile("|".join(_LABS))


def _lab(nodeid):
    """The lab that a test is of, as its parameters name it."""
    found = _OF_LAB.search(nodeid.partition("[")[2])
    return found.group() if found else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Puts a lab's tests of all files beside each other: xdist deals out runs of tests that follow."""
    places = [n for n, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    ordered = sorted((items[n] for n in places), key=lambda item: _lab(item.nodeid))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByLab(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _lab(nodeid) or nodeid

    return ByLab(config, log)
