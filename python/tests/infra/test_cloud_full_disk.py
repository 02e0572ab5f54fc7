"""A disk that fills while the real OpenTofu or Terraform makes a lab: the state that it can only print is
kept, and the same commands go on with it.

Its things are the tool's own (`terraform_data`), which want no provider and no account.
"""

import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest

from support.lab_of_namespaces import MAIN, ended, inside
from support.machines import Machine, lacking
from support.programs import missing
from support.terraform import program

pytestmark = pytest.mark.acceptance

ROOT = """# What is known of a lab whose disk is full?
resource "terraform_data" "first" {}

resource "terraform_data" "fills" {
  input = terraform_data.first.id

  provisioner "local-exec" {
    command = "[ -e ${path.root}/../../../enough ] || cat /dev/zero >${path.root}/../../../filler || :"
  }
}

# More than the last piece of the disk that the state has.
resource "terraform_data" "last" {
  input = [terraform_data.fills.id, join("", [for n in range(1024) : "0123456789abcdef0123456789abcdef"])]
}

output "fathometer" {
  value = {
    format    = 1
    lab       = "full"
    hosts     = [{ name = "a", address = "10.0.0.4", user = "root" }]
    scenarios = [{ label = "a", from = "a", to = "a", port = 7007 }]
  }
}
"""


class Full:
    """Somebody whose lab has a small disk of its own."""

    def __init__(self, directory):
        self.machine = Machine(directory / "client", "client")
        disk = directory / "disk"
        disk.mkdir()
        self.machine.run(f"mount -t tmpfs -o size=48m,mode=700 tmpfs {disk}")
        self.lab = disk / "lab"
        (directory / "infra/azure/full").mkdir(parents=True)
        (directory / "infra/azure/full/main.tf").write_text(ROOT)
        self.infra = directory / "infra"
        self.given = ("--infra", self.infra, "--tool", program())
        programs = directory / "bin"
        programs.mkdir()
        (programs / "ssh-keyscan").write_text("#!/bin/sh\necho 10.0.0.4 ssh-ed25519 AAAA\n")
        (programs / "ssh-keyscan").chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "XDG_", "ARM_"))}
        path = f"{programs}:/usr/bin:/bin"
        self.env = {**kept, "HOME": str(self.machine.home), "PATH": path, "CHECKPOINT_DISABLE": "1"}

    def __call__(self, verb, *words, code=0):
        words = ("cloud", verb, "azure-full", "--directory", self.lab, "--yes", *words)
        return ended(inside(self.machine, MAIN, *words, env=self.env), code)

    def up(self, code=0):
        return self("up", *self.given, code=code)

    def read(self, file):
        return self.machine.run(f"cat {shlex.quote(str(file))}")

    def more_room(self):
        """What fills it is gone, and comes no more."""
        self.machine.run(f"rm {self.lab}/filler {self.lab}/more; touch {self.lab}/enough")


@pytest.fixture
def full():
    if what := lacking():
        missing(what)
    program()
    directory = Path(tempfile.mkdtemp(prefix="fathom-full-"))
    made = Full(directory)
    yield made
    made.machine.end()
    shutil.rmtree(directory)


@pytest.mark.parametrize("verb", ["up", "down"])
def test_state_printed_on_full_disk_is_reused(full, verb):
    said = full.up(code=1)
    aside = full.lab / "labs/azure/full/errored.tfstate"
    assert f"the state could not be written; what was printed of it is kept in {aside}" in said
    assert "no space left on device" in said
    assert "0123456789abcdef" not in said
    kept = json.loads(full.read(aside))
    assert sorted(r["name"] for r in kept["resources"]) == ["fills", "first", "last"]
    # What was set aside of the disk is free again. Where it is still full nothing is lost by trying.
    full.machine.run(f"cat /dev/zero >{full.lab}/more 2>/dev/null || :")
    for again in ("up", "down"):
        full(again, *([] if again == "down" else full.given), code=1)
    assert json.loads(full.read(aside)) == kept
    full.more_room()
    if verb == "up":
        said = full.up()
        assert "taking back errored.tfstate" in said
        assert "everything of it is there" in said
        assert "3 things of 1 kind are there" in said
    said = full("down", "--by-state")
    assert ("taking back errored.tfstate" in said) == (verb == "down")
    assert "[3/3]" in said
    assert "nothing of it is left in its state; the cloud was not asked" in said
    assert full.machine.run(f"ls -A {full.lab.parent}") == ""


def test_mounted_lab_directory_is_reported_as_unremovable(full):
    """It ended in a traceback."""
    full.machine.run(f"mkdir -m 700 {full.lab}; mount -t tmpfs -o size=48m,mode=700 tmpfs {full.lab}")
    (full.infra / "azure/full/main.tf").write_text(ROOT.replace("cat /dev/zero", "true"))
    full.up()
    for _ in range(2):
        said = full("down", "--by-state", code=1)
        assert "nothing of it is left in its state" in said
        assert f"cannot remove the lab's directory: {full.lab}: Device or resource busy" in said
        assert "remove the directory yourself" in said
