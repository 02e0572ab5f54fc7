"""`fathom compare`: what a query takes over the other path."""

import json
import os
import subprocess

import pytest

from support.command_line import run
from support.postgres import ask
from support.programs import LIMIT, fathom
from support.queries import MS, recording, sure
from support.recordings import START, lognormal_ns, write


def _probed(url, directory):
    """The same port's set-ups, as another path."""
    port = url.rsplit(":", 1)[1].split("/")[0]
    words = ("--connect", "--count", "60", "--every", "5ms", "--quiet", "--label", "elsewhere")
    subprocess.run(
        [fathom(), "probe", f"127.0.0.1:{port}", *words, "--record", directory],
        env=os.environ | {"FATHOM_CLOUD": "off"},
        capture_output=True,
        timeout=LIMIT,
        check=True,
    )


def _written(directory):
    """Queries of 11 round trips over two paths, and round trips over a third."""
    for at, (name, rtt) in enumerate({"here": MS, "there": 2 * MS}.items()):
        split = {"turns": 11, "rtt_ns": rtt, "segments_received": 11, "bytes_received": 20_000}
        rows = [sure(4 * MS + n, 11 * rtt, 0, **split) for n in range(9)]
        recording(directory / name, rows, label="127.0.0.1:5432/postgres", start_ns=START + at * 10**13)
    write(directory / "probe", lognormal_ns(1, 60, 3_000), label="elsewhere", mode="connect", size=0)


def _of_postgres(url, directory):
    for name in ("here", "there"):
        words = ("--rows", 200, "--fetch-size", 20, "--count", 9, "--record", directory / name)
        asked = ask(url, *words)
        assert asked.returncode == 0, asked.stderr
    _probed(url, directory / "probe")


@pytest.mark.parametrize("of_postgres", [False, pytest.param(True, marks=pytest.mark.acceptance)])
def test_comparison_predicts_queries_over_other_path(of_postgres, request, tmp_path):
    if of_postgres:
        _of_postgres(request.getfixturevalue("database"), tmp_path)
    else:
        _written(tmp_path)
    done = run("compare", "here", "there", "probe", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["database_predictions"]
    # Both are of one port; compare names them by their directories.
    rows = {tuple(row[n].split("[")[-1].strip("]") for n in ("path", "over")): row for row in told}
    assert set(rows) == {("here", "there"), ("there", "here"), ("here", "elsewhere"), ("there", "elsewhere")}
    for (_, over), row in rows.items():
        assert row["turns"] == 11
        if not of_postgres:
            # Eleven in a row take eleven means, which a real machine puts anywhere beside the median.
            assert row["predicted_ns"] >= 10 * row["rtt_ns"]
        assert (row["measured_ns"] is None) == (over == "elsewhere")
    # What was measured there is what its own recording says.
    out = json.loads(run("report", "there", "--json", cwd=tmp_path).stdout)
    (there,) = out["databases"]
    assert rows["here", "there"]["measured_ns"] == there["wall_ns"]["p50"]["value"]
    # A report of one query and a path says the same of them as a comparison does.
    every = json.loads(run("report", "here", "probe", "--json", cwd=tmp_path).stdout)
    two = json.loads(run("compare", "here", "probe", "--json", cwd=tmp_path).stdout)
    assert every["database_predictions"] == two["database_predictions"]
    assert len(two["database_predictions"]) == 1
    table = run("compare", "here", "probe", cwd=tmp_path).stdout
    assert "Databases, elsewhere" in table
    assert "11 round trips" in table


def test_paths_without_queries_omit_databases(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, lognormal_ns(1, 60), label=name, mode="connect", size=0)
    assert "Databases" not in run("compare", "a", "b", cwd=tmp_path).stdout
    assert json.loads(run("compare", "a", "b", "--json", cwd=tmp_path).stdout)["database_predictions"] == []
