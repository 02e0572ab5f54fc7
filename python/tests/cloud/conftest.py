"""Somebody with a lab of namespaces."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.forked import Forker
from support.lab_of_namespaces import Person
from support.machines import lacking
from support.programs import fathom, missing, tool


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    """The built fathom, without the symbols that would be copied to every host."""
    stripped = tmp_path_factory.mktemp("binary") / "fathom"
    subprocess.run([tool("strip"), "-o", stripped, fathom()], check=True)
    return stripped


@pytest.fixture(scope="session")
def forker():
    # What `up`, `run` and `down` import.
    parts = [f"fathometer.cloud.{name}" for name in ("make", "measure", "remove")]
    made = Forker(["fathometer.cli", *parts, "fathometer.study.stop", "fathometer.study.command"])
    yield made
    made.end()


@pytest.fixture
def person(binary, forker):
    if what := lacking():
        missing(what)
    # Not pytest's own directory, whose path is long: a socket's may have 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="fathom-cloud-"))
    made = Person(directory, binary, forker)
    yield made
    made.end()
    shutil.rmtree(directory)
