"""Programs of the Python half as processes of their own, forked from one that has everything imported: their
start costs nothing, in whatever namespaces they run.

`Forker` is the side of the test; run as a program this is the other one. What it gives is used like a
`subprocess.Popen`.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

_NAMESPACES = ("net", "uts", "pid", "mnt")
"""In which order they are entered: the last one takes /proc away."""
_MOST = 1 << 20


class Forker:
    """Starts programs."""

    def __init__(self, imported):
        """`imported`: what is there before a program begins; the rest it imports itself."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        # Threads would not be in a fork.
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *imported],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=env,
                # Ctrl-C at the tests is not for it.
                start_new_session=True,
            )

    def popen(self, program, *words, env, cwd, inside=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE):
        """A program's text as `python -c` runs it. `inside`: a process whose namespaces it runs in."""
        asked = {"program": program, "words": [*map(str, words)], "env": dict(env), "cwd": str(cwd)}
        asked["inside"] = inside
        return Forked(self._socket, asked, stdin, stdout)

    def end(self):
        self._socket.close()
        self._process.wait()


class Forked:
    """A program that runs."""

    def __init__(self, to, asked, stdin, stdout):
        self.stdin = self.stdout = None
        theirs = []
        if stdin == subprocess.PIPE:
            reader, writer = os.pipe()
            self.stdin = os.fdopen(writer, "w")
        else:
            reader = os.open(os.devnull, os.O_RDONLY)
        theirs.append(reader)
        if stdout == subprocess.PIPE:
            reader, writer = os.pipe()
            self.stdout = os.fdopen(reader)
        else:
            writer = os.dup(stdout)
        theirs.append(writer)
        for name in ("stderr", "_told"):
            reader, writer = os.pipe()
            setattr(self, name, os.fdopen(reader))
            theirs.append(writer)
        socket.send_fds(to, [json.dumps(asked).encode()], theirs)
        for number in theirs:
            os.close(number)
        first = self._told.readline()
        assert first, self.stderr.read()
        self.pid = int(first)
        self.returncode = None

    def poll(self):
        if self.returncode is None and _readable(self._told, 0):
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not _readable(self._told, timeout):
                raise subprocess.TimeoutExpired("a forked program", timeout)
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def send_signal(self, sign):
        if self.poll() is None:
            # Its end is told a moment after it, by the one that waited for it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sign)

    def communicate(self, timeout=None):
        said = {}
        until = None if timeout is None else time.monotonic() + timeout

        def left():
            return None if until is None else max(until - time.monotonic(), 0)

        if self.stdin is not None:
            self.stdin.close()
        readers = [
            threading.Thread(
                target=lambda name=name, file=file: said.update({name: file.read()}), daemon=True
            )
            for name, file in (("out", self.stdout), ("err", self.stderr))
            if file is not None
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(left())
            if reader.is_alive():
                raise subprocess.TimeoutExpired("a forked program", timeout)
        # It may have closed both, and go on.
        self.wait(left())
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        return said.get("out"), said["err"]


def _readable(file, timeout):
    return bool(select.select([file], [], [], timeout)[0])


def _enter(inside):
    libc = ctypes.CDLL(None, use_errno=True)
    places = [os.open(f"/proc/{inside}/ns/{name}", os.O_RDONLY) for name in _NAMESPACES]
    for place in places:
        if libc.setns(place, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(place)


def _as_program(asked):
    """Is the program, as the interpreter would be it, to its end."""
    for sign, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        signal.signal(sign, handler)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    sys.argv = ["-c", *asked["words"]]
    code = 0
    try:
        exec(compile(asked["program"], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code)


def _run(asked, files):
    """Starts it and tells its id, then how it ended."""
    told = files[3]
    if asked["inside"] is not None:
        _enter(asked["inside"])
    # A namespace of processes is that of one's children.
    child = os.fork()
    if child == 0:
        os.close(told)
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
            os.close(file)
        _as_program(asked)
    for file in files[:3]:
        os.close(file)
    os.write(told, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _serve(number, imported):
    for name in imported:
        importlib.import_module(name)
    # What is there is no garbage: no child looks it through, and copies its pages by that.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=number) as asking:
        while True:
            words, files, *_ = socket.recv_fds(asking, _MOST, 4)
            if not words:
                return
            if os.fork() == 0:
                asking.close()
                _run(json.loads(words), files)
            for file in files:
                os.close(file)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    # Beside this file there are modules with names of the standard library's.
    sys.path[:] = [p for p in sys.path if Path(p) != Path(__file__).parent]
    _serve(int(sys.argv[1]), sys.argv[2:])
