"""Somebody who calls `fathom cloud` with the real OpenTofu (or Terraform) and a real root, against the
stand-in provider.
"""

import json
import os
import subprocess
import sys

from support.lab_of_namespaces import stand_in_for_ssh
from support.programs import make_key
from support.terraform import mirror, program

MAIN = [sys.executable, "-c", "from fathometer.cli import main; main()", "cloud"]


class Cloud:
    """Called by somebody whose home has nothing but a key."""

    def __init__(self, home, lab="azure-zones", more=None):
        """`more`: settings besides, as those of `served`, for tests of what `fathom` makes of the tool's
        words: the tool starts no provider then.
        """
        _, settings = mirror()
        settings = {**settings, **(more or {})}
        self.home, self.lab = home, lab
        self.programs = home / "bin"
        self.programs.mkdir()
        (self.programs / "tofu").symlink_to(program())
        (home / ".ssh").mkdir()
        make_key(home / ".ssh/id_ed25519")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "XDG_", "ARM_", "SSH_"))}
        path = f"{self.programs}:/usr/bin:/bin"
        self.env = {**kept, **settings, "HOME": str(home), "PATH": path}
        # A host that does not answer is not waited for.
        stand_in_for_ssh(self.programs)

    def program(self, name, text):
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    @property
    def place(self):
        return self.home / f".local/state/fathom/cloud/{self.lab}"

    def popen(self, *words):
        pipe = subprocess.PIPE
        # In the background of a script an interrupt is ignored, by what is started there as well.
        heard = ["env", "--default-signal=INT"]
        return subprocess.Popen(
            [*heard, *MAIN, *words],
            env=self.env,
            cwd=self.home,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def __call__(self, *words, code=0, answer=""):
        done = subprocess.run(
            [*MAIN, *words],
            env=self.env,
            cwd=self.home,
            input=answer,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    def entries(self):
        return [json.loads(line) for line in (self.place / "journal.jsonl").read_text().splitlines()]

    def kinds(self):
        return [entry["kind"] for entry in self.entries()]


def with_own_root(home, text):
    """Somebody with a lab of their own, whose root has this text."""
    made = Cloud(home, lab="azure-own")
    root = home / "infra/azure/own"
    root.mkdir(parents=True)
    (root / "main.tf").write_text(text)
    return made


GIVEN = ("azure-zones", "--from", "198.51.100.7/32", "--public-jump")
