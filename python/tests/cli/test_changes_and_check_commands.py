"""`fathometer changes` and `fathometer check` from the command line."""

import json

import numpy as np
import pytest

from support.command_line import run
from support.recordings import START, iso, lognormal_ns, write


@pytest.fixture
def stepped():
    rtt = lognormal_ns(1, 400, 700, sigma=0.05)
    rtt[250:] = (rtt[250:] * 1.5).astype(np.int64)
    return rtt


def the_one_level(done):
    assert done.returncode == 0, done.stderr
    (change,) = [c for c in json.loads(done.stdout) if c["kind"] == "level"]
    assert set(change) == {"index", "at", "kind", "before_ns", "after_ns", "confidence"}
    return change


def test_changes_of_a_recording(tmp_path, stepped):
    path = write(tmp_path / "r", stepped)
    change = the_one_level(run("changes", path, "--json"))
    assert abs(change["index"] - 250) <= 2
    assert change["at"] == iso(START + change["index"] * 10**9)
    assert change["before_ns"] == pytest.approx(np.median(stepped[:250]), rel=0.01)
    assert change["after_ns"] == pytest.approx(np.median(stepped[250:]), rel=0.01)
    assert "level" in run("changes", path).stdout


def test_changes_reads_csv_with_import_options(tmp_path, stepped):
    lines = ["epoch;rtt"]
    lines += [f"{1_700_000_000 + i};{-1 if i == 7 else ns / 1e6:.6f}" for i, ns in enumerate(stepped)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ("--rtt", "rtt", "--unit", "ms", "--delimiter", ";", "--missing", "negative", "--json")
    change = the_one_level(run("changes", path, "--time", "epoch", *options))
    assert abs(change["index"] - 250) <= 2
    assert change["at"] == iso((1_700_000_000 + change["index"]) * 10**9)
    untimed = the_one_level(run("changes", path, *options))
    assert (untimed["index"], untimed["at"]) == (change["index"], None)
    assert untimed["before_ns"] == change["before_ns"]


def test_changes_of_numbers_on_standard_input(stepped):
    numbers = "\n".join(f"{ns / 1e3}" for ns in stepped)
    change = the_one_level(run("changes", "-", "--unit", "us", "--json", stdin=numbers))
    assert abs(change["index"] - 250) <= 2
    assert change["before_ns"] == pytest.approx(np.median(stepped[:250]), rel=0.01)


def test_numbers_without_a_unit_are_wrong_usage(stepped):
    done = run("changes", "-", stdin="\n".join(map(str, stepped)))
    assert done.returncode == 2
    assert "--unit" in done.stderr


def test_steady_series_has_no_changes():
    done = run("changes", "-", "--unit", "us", stdin="\n".join(str(100 + i % 3) for i in range(200)))
    assert (done.returncode, done.stdout) == (0, "no change found\n")


def test_what_does_not_exist_cannot_be_read(tmp_path):
    for command in ("changes", "check", "report", "compare"):
        done = run(command, tmp_path / "nowhere")
        assert done.returncode == 1
        assert "nowhere" in done.stderr
        assert done.stderr.count("\n") == 1


TABLE = """\
| path | min us | mean us | p50 us | p99 us | max us |
|---|---|---|---|---|---|
| wrong | 100 | 120 | 130 | 110 | 200 |
| right | 100 | 120 | 118 | 180 | 200 |
"""


def test_check_fails_where_something_is_impossible(tmp_path):
    path = tmp_path / "table.md"
    path.write_text(TABLE)
    done = run("check", path, "--json")
    assert done.returncode == 1
    told = {r["row"]: r for r in json.loads(done.stdout)}
    assert set(told["wrong"]) == {"row", "law", "verdict", "explanation"}
    assert (told["wrong"]["verdict"], told["right"]["verdict"]) == ("impossible", "ok")
    assert "p50 130 us lies above p99 110 us" in run("check", path).stdout


def test_check_passes_a_table_that_holds_together():
    done = run("check", "-", stdin=TABLE.replace("| wrong | 100 | 120 | 130 | 110 | 200 |\n", ""))
    assert done.returncode == 0
    assert "ok" in done.stdout


def test_check_unit_option_applies_to_unitless_figures(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("path,min,p50,p99,max\nwrong,100,130,110,200\n")
    done = run("check", path, "--unit", "ms")
    assert "130 ms" in done.stdout
    assert run("check", path, "--unit", "parsec").returncode == 2


def test_our_own_report_passes_our_own_check(tmp_path):
    write(tmp_path / "r", lognormal_ns(1, 3000, 700), label="own")
    done = run("report", tmp_path / "r", "--json", cwd=tmp_path)
    assert {r["verdict"] for r in json.loads(done.stdout)["consistency"]} == {"ok"}


def test_samples_that_are_never_pooled_are_no_series(tmp_path):
    sizes = np.tile([64, 4096], 500)
    probe = {"mode": "tcp", "size": None, "interval_ns": 1_000_000_000}
    write(tmp_path / "r", lognormal_ns(2, 1000), size=sizes, manifest={"probe": probe})
    done = run("changes", tmp_path / "r")
    assert done.returncode == 1
    assert "never pooled" in done.stderr
    assert "4,096 bytes" in done.stderr
    assert "fathom report" in done.stderr


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("path;mean (ms);p50 (ms);max (ms)\na;1,25;1,2;1,3\n", (), "1,25 is read as 1.25"),
        # 1,250 could be both: by the others, by the semicolons, or as it is said.
        ("path;mean (ms);max (ms)\na;1,250;1,4\n", (), "1,250 is read as 1.250"),
        ("path;mean (ms);max (ms)\na;1,250;1,300\n", (), "1,250 is read as 1.250"),
        ('path,mean (ms),max (ms)\na,"1,250","1,300"\n', (), "1,250 is read as 1250"),
        ('path,mean (ms),max (ms)\na,"1,250","1,300"\n', ("--decimal", "comma"), "1,250 is read as 1.250"),
        (
            "| x | mean | max |\n|---|---|---|\n| a | 1.200,5 us | 1.300 us |\n",
            (),
            "1.200,5 is read as 1200.5",
        ),
        ("| x | mean | max |\n|---|---|---|\n| a | 1,200.5 us | 1,300 us |\n", (), "1,300 is read as 1300"),
        (
            "| x | mean | max |\n|---|---|---|\n| a | 1 200,5 us | 1\u202f300 us |\n",
            (),
            "1200,5 is read as 1200.5",
        ),
        ("| x | mean | max |\n|---|---|---|\n| a | 1.2 us | 1.3 us |\n", (), None),
    ],
)
def test_check_reads_commas_by_the_table(text, options, told):
    done = run("check", "-", *options, stdin=text)
    assert done.returncode == 0, done.stdout
    assert (told or "") in done.stderr
    assert bool(done.stderr) == bool(told)
