"""Importers on what no tool writes: an error of one line, or recordings and summaries that can be read.

A few seconds in `make test`; FATHOM_FUZZ_SECONDS goes on for so long with each importer (`make fuzz`). What
was found stays in `tests/corpora/imports`.
"""

import json
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from fathometer.dataset import importers, open_recording
from fathometer.dataset.importers import Options
from fathometer.dataset.summaries import open_summary
from fathometer.dataset.write import write_imported
from fathometer.errors import FathometerError
from fathometer.reading import parsed
from support.damage_text import SECONDS, damaged, each_of, told_well
from support.outputs import (
    CASES,
    ECHO_LOG,
    ETHR_RIGHT,
    IPERF3_LINES,
    NEPER_TABLE,
    NETPERF_KEYED,
    PSPING_CONNECT,
    SOCKPERF_SUMMARY,
)

CORPORA = Path(__file__).parents[1] / "corpora" / "imports"
TABLE = "time;rtt\n2025-03-20 11:04:08;0,3\n20/03/2025 11:04:09;\n1742465050.5;0.4\n"
MORE = {
    "ethr": json.dumps(ETHR_RIGHT),
    "iperf3": IPERF3_LINES,
    "neper": NEPER_TABLE,
    "netperf": NETPERF_KEYED,
    "psping": PSPING_CONNECT,
    "sockperf": SOCKPERF_SUMMARY,
    "echo-client": CASES["echo-client"],
}
TOOLS = {name: [text, MORE.get(name, text)] for name, text in CASES.items()} | {"csv": [TABLE, TABLE]}


def imported(data, tool, directory, fathom=None):
    """Imports bytes and reads what came of them; gives the line where they are refused."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    path = directory / "run.txt"
    path.write_bytes(data)
    options = Options(time="time", rtt="rtt", unit="ms", delimiter=";") if tool == "csv" else Options()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of numpy, on numbers that are none.
            result = importers.read(path, options, tool=tool)
        written = write_imported(result, directory / "out")
    except FathometerError as error:
        return str(error)
    for place in written[: len(result.series)]:
        assert open_recording(place).broken == ()
        assert open_recording(place).rollup
        if fathom:
            done = subprocess.run(
                [fathom, "recording", "verify", place], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
    for place in written[len(result.series) :]:
        assert open_summary(place).label
        assert parsed((place / "summary.json").read_bytes())
    return None


def read_or_told(line):
    return line is None or told_well(line)


@pytest.mark.parametrize("tool", TOOLS)
def test_an_importer_refuses_in_a_line_or_reads(tool, tmp_path, request):
    fathom = request.getfixturevalue("fathom") if SECONDS else None
    texts = [text.encode() for text in TOOLS[tool]]

    def check(data):
        for named in (tool, None):
            assert read_or_told(imported(data, named, tmp_path / "run", fathom)), named

    each_of(texts, check, examples=25)


@pytest.mark.parametrize("tool", ["echo-client"])
def test_the_log_beside_a_file_is_no_better(tool, tmp_path):
    @settings(
        max_examples=25, derandomize=not SECONDS, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(damaged([ECHO_LOG.encode()]))
    def each(data):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "a.csv").write_text(CASES[tool])
        (tmp_path / "run" / "a.log").write_bytes(data)
        try:
            (place,) = write_imported(importers.read(tmp_path / "run" / "a.csv"), tmp_path / "run" / "out")
        except FathometerError as error:
            told = str(error)
        else:
            told = None
            assert open_recording(place).broken == ()
        assert read_or_told(told)

    each()


@pytest.mark.parametrize("path", sorted(CORPORA.iterdir()), ids=lambda p: p.name)
@pytest.mark.parametrize("tool", [None, *TOOLS])
def test_what_was_found_before(path, tool, tmp_path):
    assert read_or_told(imported(path.read_bytes(), tool, tmp_path / "run"))
