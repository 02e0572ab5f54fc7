"""Tests that share a root's lab run in one process of xdist's, which plans and makes it once.

By the names of their parameters, as `of_root` gives them: the groups of xdist change a test's
name, which pytest 9.2 lets nobody do.
"""

import re

import pytest

from support.terraform import PROVIDERS, roots
from support.zygote import Zygote


def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    labs = sorted((f"{cloud}-{root}" for cloud in PROVIDERS for root in roots(cloud)), key=len, reverse=True)
    of_lab = re.compile("|".join(labs))

    class ByLab(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            found = of_lab.search(nodeid.partition("[")[2])
            return found.group() if found else nodeid

    return ByLab(config, log)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    # What `plan`, `up` and `down` import.
    imported = [f"fathometer.{name}" for name in ("cli", "cloud.make", "cloud.remove")]
    made = Zygote(tmp_path_factory.mktemp("zygote"), imported)
    yield made
    made.end()
