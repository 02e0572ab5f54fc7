"""The units for systemd give a service what it needs, and no more.

Nothing here starts systemd: its tools read files.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.programs import fathom, tool

UNITS = Path(__file__).parents[2] / "infra" / "systemd"
SERVICES = ["fathom-echo.service", "fathom-probe@.service"]
MOST_EXPOSED = 1.5


@pytest.fixture(scope="module")
def analyze():
    """`systemd-analyze`, which this host may not have."""
    return shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not here")


def settings(unit):
    lines = (UNITS / unit).read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return [(name, value) for name, value in pairs if value]


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_is_hardly_exposed(unit, analyze):
    argv = [analyze, "security", "--offline=true", "--no-pager", UNITS / unit]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    (level,) = re.findall(r"exposure level for \S+: ([\d.]+)", said)
    assert float(level) <= MOST_EXPOSED, said


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_has_bounds(unit):
    given = dict(settings(unit))
    assert {"MemoryMax", "TasksMax", "SystemCallFilter", "UMask"} <= given.keys()
    assert given["UMask"] == "0077"


def calls_of(analyze, name, seen):
    """The system calls of a set, those of the sets in it included."""
    if not name.startswith("@"):
        return {name}
    if name in seen:
        return set()
    seen.add(name)
    argv = [analyze, "syscall-filter", "--no-pager", name]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    words = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return set().union(*(calls_of(analyze, word, seen) for word in words))


def allowed(analyze, unit):
    calls = set()
    for name, value in settings(unit):
        if name != "SystemCallFilter":
            continue
        of_sets = set().union(*(calls_of(analyze, word, set()) for word in value.removeprefix("~").split()))
        calls = calls - of_sets if value.startswith("~") else calls | of_sets
    # What a filter of systemd always lets through.
    return calls | calls_of(analyze, "@default", set())


def made(trace):
    """The system calls that were made, by strace's file."""
    found = (re.match(r"(?:\d+ +)?(\w+)\(", line) for line in trace.read_text().splitlines())
    return {match[1] for match in found if match}


def test_the_filters_let_through_what_both_do(analyze, tmp_path):
    """A call that the filter refuses fails, here and there, long after the service was started."""
    traces = {unit: tmp_path / unit for unit in SERVICES}
    echo_unit, probe_unit = SERVICES
    # -D: the process is the program, and strace beside it.
    begin = [tool("strace"), "-D", "-f", "-qq", "-o"]
    echo = subprocess.Popen(
        [*begin, traces[echo_unit], fathom(), "echo", "--json", "--listen", "127.0.0.1:0", "--for", "1h"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = re.search(r'"address":"([^"]+)"', echo.stdout.readline())[1]
        for more in (["--record", "tcp", "--plain"], ["--record", "udp", "--udp"]):
            argv = [fathom(), "probe", address, "--count", "20", "--every", "20ms", *more]
            trace = traces[probe_unit].with_suffix(f".{more[1]}")
            done = subprocess.run(
                [*begin, trace, *argv], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            refused = made(trace) - allowed(analyze, probe_unit)
            assert not refused, f"the probe's filter refuses {sorted(refused)}"
    finally:
        echo.terminate()
        echo.communicate(timeout=60)
    refused = made(traces[echo_unit]) - allowed(analyze, echo_unit)
    assert not refused, f"the reflector's filter refuses {sorted(refused)}"


def test_probe_label_names_host_and_target():
    """Recordings of several hosts, gathered in one place, had one label."""
    command = dict(settings("fathom-probe@.service"))["ExecStart"].split()
    label = command[command.index("--label") + 1]
    # systemd.unit(5): %l is the short host name, %i the instance, which is the target.
    assert {"%l", "%i"} <= {label[at : at + 2] for at in range(len(label))}
    assert "%I" in command
