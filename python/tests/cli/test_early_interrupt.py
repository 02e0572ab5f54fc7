"""Ctrl-C in the first moments of a command: it ends, without a traceback."""

import os
import signal
import subprocess
import sys

import pytest

from support.programs import fathom, tool

PROGRAM = "from fathometer.cli import main; main()"


def _heard():
    """A shell's background job ignores the signal, and so would what these tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("module", ["typer", "rich", "numpy"])
def test_ctrl_c_while_it_is_being_read(module, tmp_path):
    """What the program imports sends the signal: no moment of reading has another handler."""
    sent = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / f"{module}.py").write_text(sent)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "report", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=_heard,
    )  # fmt: skip
    assert done.returncode in {-signal.SIGINT, 128 + signal.SIGINT}, done
    assert "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 1, done.stderr


def test_sigint_raises_keyboard_interrupt_after_import():
    line = (
        "import fathometer.cli, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run(
        [sys.executable, "-c", line],
        capture_output=True, text=True, timeout=60, check=True, preexec_fn=_heard,
    )  # fmt: skip
    assert done.stdout.strip() == "True"


def _as_users_start_it(directory, before=(), paths=()):
    """`fathom check --help`, which hands over to a `fathometer` on the PATH."""
    program = directory / "bin" / "fathometer"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\nfrom fathometer.cli import main\nmain()\n")
    program.chmod(0o755)
    return subprocess.run(
        [*before, fathom(), "check", "--help"],
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([*paths, *(p for p in sys.path if p)]),
        },
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=_heard,
    )  # fmt: skip


def test_ctrl_c_before_the_first_line_of_ours(tmp_path):
    """The interpreter sends the signal to itself while it starts: it showed its own traceback."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = _as_users_start_it(tmp_path, paths=[str(tmp_path)])
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    "files",
    [pytest.param(n, marks=() if n % 40 == 5 else pytest.mark.acceptance) for n in range(5, 125, 10)],
)
def test_ctrl_c_during_file_opens_ends_silently(tmp_path, files):
    """From the binary's own start to the first files of ours, by counts and not by a clock."""
    inject = f"inject=openat:signal=SIGINT:when={files}"
    before = [tool("strace"), "-f", "-o", "/dev/null", "-e", "trace=openat", "-e", inject]
    done = _as_users_start_it(tmp_path, before)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
