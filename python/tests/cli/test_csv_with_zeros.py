"""A CSV in which round trips are zero, as tools that round write them: each command ended in a traceback."""

import json

import pytest

from support.command_line import run

ROWS = 600


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Two paths: one of zeros alone, and one in which every third round trip is zero."""
    root = tmp_path_factory.mktemp("zeros")
    for name, of in (("zeros", lambda _: 0), ("some", lambda n: n % 3)):
        rows = "".join(f"{1_742_428_800 + n};{of(n)}\n" for n in range(ROWS))
        (root / f"{name}.csv").write_text(f"when;rtt_ms\n{rows}")
        columns = ("--time", "when", "--rtt", "rtt_ms", "--delimiter", ";")
        done = run(
            "import", "csv", root / f"{name}.csv", *columns, "--label", name, "--record", root / "in" / name
        )
        assert done.returncode == 0, done.stderr
    return root


def test_report(imported):
    done = run("report", "in", "-o", "r.html", "--json-file", "r.json", "--markdown", "r.md", cwd=imported)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    scenarios = {s["name"]: s for s in json.loads((imported / "r.json").read_text())["scenarios"]}
    assert {name: s["answered"] for name, s in scenarios.items()} == {"zeros": ROWS, "some": ROWS}
    assert scenarios["zeros"]["rtt_ns"]["p50"]["value"] == 0
    assert scenarios["some"]["rtt_ns"]["p50"]["value"] == pytest.approx(1e6, rel=1e-3)
    assert "nan" not in (imported / "r.md").read_text().lower().replace("nanosecond", "")


def test_compare(imported):
    done = run("compare", "in/zeros", "in/some", "--json", cwd=imported)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert {c["metric"] for c in json.loads(done.stdout)["comparisons"]} == {"p50", "p95", "p99", "mean"}


@pytest.mark.parametrize("name", ["zeros", "some"])
def test_changes(imported, name):
    done = run("changes", f"in/{name}", cwd=imported)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
