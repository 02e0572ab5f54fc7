"""Somebody who calls `fathom cloud` with the real OpenTofu (or Terraform) and a real root, against the
stand-in provider.
"""

import os
import subprocess
import sys

from support.lab_of_namespaces import stand_in_for_ssh
from support.programs import make_key
from support.terraform import mirror, program

MAIN = [sys.executable, "-c", "from fathometer.cli import main; main()", "cloud"]
GIVEN = ("azure-zones", "--from", "198.51.100.7/32", "--public-jump")


class Cloud:
    """Called by somebody whose home has nothing but a key."""

    def __init__(self, home, lab="azure-zones", more=None):
        """`more`: settings besides, as those of `served`: the tool starts no provider then."""
        _, settings = mirror()
        self.home, self.lab = home, lab
        self.programs = home / "bin"
        self.programs.mkdir()
        (self.programs / "tofu").symlink_to(program())
        (home / ".ssh").mkdir()
        make_key(home / ".ssh/id_ed25519")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "XDG_", "ARM_", "SSH_"))}
        path = f"{self.programs}:/usr/bin:/bin"
        own = {"HOME": str(home), "PATH": path, "ARM_SUBSCRIPTION_ID": "0"}
        self.env = {**kept, **settings, **(more or {}), **own}
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
        command = ["env", "--default-signal=INT", *MAIN, *map(str, words)]
        return subprocess.Popen(
            command, env=self.env, cwd=self.home, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def __call__(self, *words, code=0, answer=""):
        process = self.popen(*words)
        out, err = process.communicate(answer, timeout=300)
        assert process.returncode == code, out + err
        return out, err
