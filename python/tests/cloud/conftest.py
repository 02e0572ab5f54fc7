"""`fathom cloud` with stand-ins for the tool and the cloud: in this process with hosts that are files, and on
a machine of namespaces with hosts that have a real sshd.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fathometer.cloud.journal import LabDirectory
from support.command_line import run
from support.lab_of_namespaces import SECRET, Person, put_stand_in, stand_in_for_ssh
from support.machines import lacking
from support.programs import fathom, make_key, missing, tool


class Cloud:
    """`fathom cloud` of a home with a key; the cloud's things are files."""

    def __init__(self, directory):
        self.programs = directory / "bin"
        self.things = directory / "cloud/things"
        self.place = directory / "state/fathom/cloud/azure-zones"
        self.root = self.place / "labs/azure/zones"
        self.things.mkdir(parents=True)
        self.set("bare", "")
        self.programs.mkdir()
        stand_in_for_ssh(self.programs)
        for name in ("tofu", "az"):
            put_stand_in(self.programs / name)
        make_key(directory / "key")
        self.given = ("--from", "203.0.113.1/32", "--public-jump", "--key", directory / "key")
        self.given += ("--var", "user=root", "--yes")

    def set(self, name, text):
        """Sets what the stand-in does from now on."""
        (self.things.parent / name).write_text(text)

    @property
    def record(self):
        return LabDirectory(self.place).read()

    def __call__(self, verb, *words, code=0, answer="", lab="azure-zones"):
        lab = () if verb == "list" else (lab,)
        done = run("cloud", verb, *lab, *words, stdin=answer)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert ("nothing of it is left" in said) <= (verb == "down" and not any(self.things.iterdir()))
        return said

    def up(self, code=0):
        return self("up", *self.given, code=code)

    def removed(self, *words):
        said = self("down", "--yes", *words)
        assert [*self.things.iterdir()] == []
        assert not self.place.exists()
        return said


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    made = Cloud(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "PATH": f"{made.programs}:{os.environ['PATH']}",
        "FATHOM_TEST_CLOUD": str(made.things.parent),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ARM_CLIENT_SECRET": SECRET,
        "ARM_SUBSCRIPTION_ID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    """The built fathom, without the symbols that would be copied to every host."""
    stripped = tmp_path_factory.mktemp("binary") / "fathom"
    subprocess.run([tool("strip"), "-o", stripped, fathom()], check=True)
    return stripped


@pytest.fixture
def person(binary):
    if what := lacking():
        missing(what)
    # Not pytest's own directory, whose path is long: a socket's may have 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="fathom-cloud-"))
    made = Person(directory, binary)
    yield made
    made.end()
    shutil.rmtree(directory)
