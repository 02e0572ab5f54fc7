"""Somebody with a lab of namespaces; and one whose lab is a journal and a state."""

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathometer.cloud import register
from fathometer.cloud.command import cloud_app
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import find
from fathometer.cloud.make import up
from fathometer.cloud.settings import Given
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from support.lab_of_namespaces import Person, put_stand_in
from support.machines import lacking
from support.programs import fathom, make_key, missing, tool


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


@pytest.fixture
def without_hosts(person):
    """Nothing is measured on the person's lab: its hosts are entries of the cloud's alone."""
    person.without_hosts()


@pytest.fixture
def made(tmp_path):
    """The place of a lab that was made."""
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.note("cloud.begun", cloud="azure", root="nat", id=uuid.uuid4().hex, tool="tofu", lab="azure-nat")
    place.note("approved", addresses=["a"], low=0.1, high=0.2, unknown=["azurerm_thing M128", "own_thing"])
    place.note("apply.started")
    place.note("apply.done")
    place.root.mkdir(parents=True)
    place.state_file.write_text(json.dumps({"version": 4, "resources": [{"mode": "managed"}]}))
    return place


@pytest.fixture
def listed(made, tmp_path, monkeypatch):
    """`fathom cloud` for somebody who made the lab, and `az` as it is to answer."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    made.note("where", owner="0-1", regions=[], tag="fathom-nat")
    assert register.note(made, may_exist=False) is None

    def az(text, name="az"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def call(*words, code=0):
        done = CliRunner().invoke(cloud_app, [*map(str, words)])
        assert done.exit_code == code, done.output
        return done.output + (str(done.exception) if isinstance(done.exception, FathometerError) else "")

    call.az = az
    return call


@pytest.fixture
def aws_lab(tmp_path, listed):
    """Makes the place of a lab whose making was killed before it wrote a state, and `down` for it."""

    def begin(owner):
        place = LabPlace(tmp_path / "aws")
        place.make()
        place.note(
            "cloud.begun", cloud="aws", root="zones", id=uuid.uuid4().hex, tool="tofu", lab="aws-zones"
        )
        place.note("where", owner=owner, regions=["eu-west-2"], tag="fathom-zones")
        place.note("apply.started")
        place.root.mkdir(parents=True)
        register.note(place, may_exist=True)
        return place, lambda code: listed("down", "aws-zones", "--directory", place.directory, code=code)

    return begin


@pytest.fixture
def up_here(tmp_path, monkeypatch):
    """`up` of a lab whose tool makes nothing and ends with the words "it was begun"."""
    cloud, tofu, key = (tmp_path / name for name in ("cloud", "tofu", "key"))
    (cloud / "things").mkdir(parents=True)
    (cloud / "fail").write_text(json.dumps({"azurerm_resource_group.lab": "it was begun"}))
    put_stand_in(tofu)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/az").write_text("#!/bin/sh\necho no login >&2; exit 1\n")
    (tmp_path / "bin/az").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    make_key(key)
    monkeypatch.setenv("FATHOM_TEST_CLOUD", str(cloud))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def call(directory, somebody, clock=None, hours="4h"):
        """`somebody` answers, and `clock` tells the time."""
        monkeypatch.setattr("sys.stdin", somebody)
        given = Given(hours=hours, ssh_from="203.0.113.1/32", key=key)
        work = Work(LabPlace(directory), "azure-zones", yes=False, tool=tofu)
        up(work, find(None, "azure-zones"), given, *([] if clock is None else [clock]))

    call.cloud = cloud
    return call
