"""Issue 16, row 5, as a whole: a report over many recordings shows the honest ones and names the hostile."""

import itertools
import json

import pytest

from support.command_line import run
from support.hostile_recordings import REFUSED, TIMES, refused
from support.measured import fathometer
from support.recordings import START, lognormal_ns, write

HOUR = 3_600_000_000_000
MIB = 1 << 10


def honest(directory, number):
    for n in range(number):
        path = directory / "all" / f"{n:03}-honest"
        write(path, lognormal_ns(n, 60), label=f"path-{n % 5}", start_ns=START + n * HOUR)


def hostile(directory, number, among):
    """Their names, each of one kind in turn, spread among the honest ones."""
    kinds = itertools.cycle((*REFUSED, *TIMES))
    names = [
        f"{among * n // number:03}-hostile-{kind}" for n, kind in zip(range(number), kinds, strict=False)
    ]
    for name in names:
        refused(directory / "all" / name, name.rpartition("-")[2])
    return names


def names_each(stderr, page, names):
    lines = [line for line in stderr.splitlines() if line.startswith("fathometer: left out: ")]
    assert len(lines) == len(names)
    for name in names:
        assert sum(f"all/{name}" in line for line in lines) == 1, name
        assert f"all/{name}" in page


def test_report_shows_honest_and_names_hostile(tmp_path):
    honest(tmp_path, 6)
    names = hostile(tmp_path, len((*REFUSED, *TIMES)), 6)
    done = run("report", "all", "-o", "all.html", "--json-file", "all.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    names_each(done.stderr, (tmp_path / "all.html").read_text(), names)
    assert len(json.loads((tmp_path / "all.json").read_text())["recordings"]) == 6


@pytest.mark.acceptance
def test_fifty_hostile_of_200_take_no_memory(tmp_path):
    honest(tmp_path, 150)
    alone = fathometer("report", "all", "-o", "honest.html", "--json-file", "honest.json", cwd=tmp_path)
    assert alone.code == 0, alone.stderr
    names = hostile(tmp_path, 50, 150)
    done = fathometer("report", "all", "-o", "all.html", "--json-file", "all.json", cwd=tmp_path)
    assert done.code == 1, done.stderr
    names_each(done.stderr, (tmp_path / "all.html").read_text(), names)
    assert len(json.loads((tmp_path / "all.json").read_text())["recordings"]) == 150
    assert done.peak_kib < alone.peak_kib + 64 * MIB
