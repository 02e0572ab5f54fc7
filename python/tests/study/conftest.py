"""Machines with sshd for the tests of this directory."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.lab import Lab
from support.machines import Machines, lacking
from support.programs import fathom, missing, tool


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    """The built fathom, without the symbols that would be copied to every host."""
    stripped = tmp_path_factory.mktemp("binary") / "fathom"
    subprocess.run([tool("strip"), "-o", stripped, fathom()], check=True)
    return stripped


@pytest.fixture(scope="session")
def _machines():
    if what := lacking():
        missing(what)
    # Not pytest's own directory, whose path is long: a socket's may have 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="fathom-machines-"))
    made = Machines(directory)
    yield made
    made.end()
    shutil.rmtree(directory)


@pytest.fixture
def machines(_machines):
    """A client and three hosts, as new."""
    _machines.reset()
    yield _machines
    for machine in (*_machines.hosts.values(), _machines.client):
        machine.leave()


@pytest.fixture
def lab(tmp_path, machines, binary):
    """A study of theirs."""
    lab = Lab(tmp_path, machines, binary)
    yield lab
    lab.end()
