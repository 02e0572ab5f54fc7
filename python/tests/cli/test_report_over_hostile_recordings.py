"""Issue 16, row 5, as a whole: a report over 200 recordings of which 50 are hostile shows 150, names 50."""

import itertools
import json

from support.hostile_recordings import REFUSED, TIMES, refused
from support.measured import fathometer
from support.recordings import START, lognormal_ns, write

HONEST, HOSTILE = 150, 50
HOUR = 3_600_000_000_000
MIB = 1 << 10


def test_200_recordings_of_which_50_are_hostile(tmp_path):
    for n in range(HONEST):
        write(
            tmp_path / "all" / f"{n:03}-honest",
            lognormal_ns(n, 60),
            label=f"path-{n % 5}",
            start_ns=START + n * HOUR,
        )
    alone = fathometer("report", "all", "-o", "honest.html", "--json", "honest.json", cwd=tmp_path)
    assert alone.code == 0, alone.stderr
    kinds = itertools.cycle((*REFUSED, *TIMES))
    names = [
        f"{HONEST * n // HOSTILE:03}-hostile-{kind}" for n, kind in zip(range(HOSTILE), kinds, strict=False)
    ]
    for name in names:
        refused(tmp_path / "all" / name, name.rpartition("-")[2])
    done = fathometer("report", "all", "-o", "all.html", "--json", "all.json", cwd=tmp_path)
    assert done.code == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("fathometer: left out: ")]
    assert len(lines) == HOSTILE
    report = json.loads((tmp_path / "all.json").read_text())
    page = (tmp_path / "all.html").read_text()
    assert len(report["recordings"]) == HONEST
    for name in names:
        assert sum(f"all/{name}" in line for line in lines) == 1, name
        assert f"all/{name}" in page
    assert done.peak_kib < alone.peak_kib + 64 * MIB
