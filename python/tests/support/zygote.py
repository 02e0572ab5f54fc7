"""A process that has everything imported and forks for each command: a command costs its work, not its start.

`Zygote` is the side of the test; run as a program this is the other one.
"""

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.measured import STUCK_S, Ended

_IMPORTED = (
    *("fathometer.cli", "fathometer.opening", "fathometer.dataset.engines", "fathometer.dataset.importers"),
    *("fathometer.dataset.rollup_writer", "fathometer.findings.analyse", "fathometer.findings.comparisons"),
    *("fathometer.findings.consistency", "fathometer.report.as_json", "fathometer.report.write"),
    *("fathometer.report.goals", "fathometer.stats.changes", "jinja2", "numpy.testing", "pyarrow.parquet"),
    *(
        "pyarrow.compute",
        "pydantic",
        "rich.table",
        "scipy.optimize",
        "scipy.special",
        "scipy.stats",
        "vl_convert",
    ),
)
"""What a command imports when it needs it. None of them begins a thread."""


GONE = "gone"
"""Standard output that is a pipe whose reader has gone."""


class Zygote:
    """Runs commands of the Python half, one after another."""

    def __init__(self, directory, imported=_IMPORTED):
        """`imported`: what is there before a command begins; the rest it imports itself."""
        self._in, self._out, self._err = (directory / name for name in ("stdin", "stdout", "stderr"))
        # Threads would not be in a fork.
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        begin = [sys.executable, __file__, *imported]
        self._process = subprocess.Popen(
            begin, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
        )

    def run(self, *args, cwd, env=None, answer="", out=None):
        """`env`: instead of the environment that there was when this was made.
        `answer`: on standard input. `out`: a device to print to, or `GONE`.
        """
        self._in.write_text(answer)
        self._out.write_bytes(b"")
        asked = {"args": [*map(str, args)], "cwd": str(cwd), "err": str(self._err)}
        asked["out"] = str(out or self._out)
        asked |= {"env": env, "in": str(self._in)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code, peak_kib, cpu_s = json.loads(self._process.stdout.readline())
        out, err = (p.read_bytes().decode("utf-8", "surrogateescape") for p in (self._out, self._err))
        return Ended(code, out, err, peak_kib, cpu_s)

    def end(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _in_child(asked):
    """Is the command."""
    for number, path in ((1, asked["out"]), (2, asked["err"])):
        if path == GONE:
            reader, writer = os.pipe()
            os.close(reader)
        else:
            writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(writer, number)
    os.dup2(os.open(asked["in"], os.O_RDONLY), 0)
    os.chdir(asked["cwd"])
    if asked["env"] is not None:
        os.environ.clear()
        os.environ.update(asked["env"])
        time.tzset()
    signal.setitimer(signal.ITIMER_REAL, STUCK_S)
    sys.argv = ["fathometer", *asked["args"]]
    from fathometer import cli

    code = 0
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, the test is told
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(imported):
    for name in imported:
        importlib.import_module(name)
    if imported == [*_IMPORTED]:
        from fathometer.dataset import format as schemas

        for compiled in (schemas.event_validator, schemas.manifest_validator, schemas.summary_validator):
            compiled()
    # What is there is no garbage: no child looks it through, and copies its pages by that.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _in_child(json.loads(line))
        _, status, usage = os.wait4(child, 0)
        ended = [os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime]
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Beside this file there are modules with names of the standard library's.
    sys.path[:] = [p for p in sys.path if Path(p) != Path(__file__).parent]
    _serve(sys.argv[1:])
