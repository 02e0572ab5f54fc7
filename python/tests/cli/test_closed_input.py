"""Commands that read a standard input which was closed before they began (`<&-`): it has no words."""

import subprocess
import sys

import pytest

CLOSE = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])"
MAIN = "from fathometer.cli import main; main()"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("study", "from-outputs", "-", "--output", "study.toml"), "cannot read a lab's outputs: "),
        (("check", "-"), "cannot check: -: "),
        (("changes", "-"), "standard-input.csv: it is empty"),
    ],
    ids=["from-outputs", "check", "changes"],
)
def test_a_closed_standard_input_is_no_traceback(tmp_path, words, says):
    argv = [sys.executable, "-c", CLOSE, MAIN, *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode in {1, 2}, "Traceback" in done.stderr) == (True, False)
    assert says in done.stderr
