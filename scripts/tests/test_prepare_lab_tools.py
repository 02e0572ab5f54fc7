"""A bare machine's tools: what is too old is not taken, and what cannot be had is told in one line."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# As Go of before 1.21 says it, which a distribution may have.
OLD_GO = """[ "$1" = version ] && echo "go version go1.19.8 linux/amd64" && exit 0
echo "invalid go version '1.25.0': must match format 1.23" >&2; exit 1"""
NEW_GO = '[ "$1" = version ] && echo "go version go1.26.6 linux/amd64"; exit 0'


class PrepareLabTools(unittest.TestCase):
    def setUp(self):
        self.programs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # Nobody's: the tools of this machine are not to be found.
        for name in ("bash", "dirname", "sed", "cut", "uname", "mktemp", "rm", "python3", "sha256sum"):
            (self.programs / name).symlink_to(
                next(p for p in ("/usr/bin/" + name, "/bin/" + name) if Path(p).exists())
            )

    def program(self, name, text):
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def prepared(self):
        self.program("make", f"echo made >>{self.programs}/made")
        env = {
            "PATH": str(self.programs),
            "GOPROXY": "https://proxy.example,direct",
            "HOME": os.environ["HOME"],
        }
        words = [ROOT / "scripts/prepare-lab-tools.sh", self.programs / "into"]
        return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)

    def test_old_go_is_rejected(self):
        self.program("go", OLD_GO)
        self.program("curl", f'echo "$*" >{self.programs}/asked; exit 6')
        done = self.prepared()
        self.assertEqual(done.returncode, 1)
        (line,) = done.stderr.splitlines()
        self.assertIn("infra/standin needs Go 1.2", line)
        self.assertIn(
            f"there is {self.programs}/go (go1.19.8), which is too old, and it could not be fetched", line
        )
        asked = (self.programs / "asked").read_text()
        self.assertRegex(
            asked,
            r" https://proxy\.example/golang\.org/toolchain/@v/v0\.0\.1-go1\.\d+\.\d+\.linux-amd64\.zip$",
        )

    def test_another_file_is_not_taken_for_a_go(self):
        self.program("curl", 'while [ "$1" != -o ]; do shift; done; echo other >"$2"')
        done = self.prepared()
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no Go, and what was fetched is another file", done.stderr)
        self.assertFalse((self.programs / "into").exists())

    def test_terraform_is_taken_where_it_is_new_enough(self):
        self.program("go", NEW_GO)
        for version, made in (("1.11.4", False), ("1.8.0-beta1", False), ("1.7.5", True)):
            with self.subTest(version=version):
                self.program("terraform", f"""echo '{{"terraform_version": "{version}"}}'""")
                done = self.prepared()
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual((self.programs / "made").exists(), made)

    @unittest.skipIf((ROOT / "target/tofu/bin/tofu").exists(), "one was built here, which is taken")
    def test_without_terraform_opentofu_is_built(self):
        self.program("go", NEW_GO)
        self.assertEqual(self.prepared().returncode, 0)
        self.assertTrue((self.programs / "made").exists())


if __name__ == "__main__":
    unittest.main()
