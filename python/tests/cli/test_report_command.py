"""`fathometer report` and `fathometer compare`, from the command line to the files."""

import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from support import queries
from support.command_line import run
from support.recordings import START, UNANSWERED, lognormal_ns, write
from support.report_schema import keeps_to_schema


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    root = tmp_path_factory.mktemp("two")
    for number, (label, median) in enumerate((("near", 500), ("far", 900))):
        write(root / label, lognormal_ns(number, 2000, median), label=label, start_ns=START + number * 10**13)
    return root


def test_report_writes_report_html_by_default(two, tmp_path):
    done = run("report", two, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "report.html\n")
    assert "Fastest median" in (tmp_path / "report.html").read_text()
    assert "Traceback" not in done.stderr


def test_everything_that_is_asked_for_is_written(two, tmp_path):
    more = ("--markdown", "r.md", "--json-file", "r.json", "--figures", "pictures", "--title", "Near & far")
    done = run("report", two, "-o", "page.html", *more, cwd=tmp_path)
    assert done.returncode == 0
    assert set(done.stdout.split()) == {"page.html", "r.md", "r.json", "pictures"}
    assert "<h1>Near &amp; far</h1>" in (tmp_path / "page.html").read_text()
    assert "](pictures/tail.svg)" in (tmp_path / "r.md").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["format"] == 1


def test_json_on_standard_output_is_nothing_but_json(two, tmp_path):
    done = run("report", two, "--json", cwd=tmp_path)
    assert {s["name"] for s in json.loads(done.stdout)["scenarios"]} == {"near", "far"}
    assert list(tmp_path.iterdir()) == []


def test_json_goes_where_output_says(two, tmp_path):
    """`--json -o x` wrote a page, and JSON into a file named `-o`."""
    done = run("report", two, "--json", "-o", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert json.loads((tmp_path / "x").read_text())["format"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("file", ["-", "r.json", "no/such/r.json"])
def test_json_with_a_file_names_the_option(two, tmp_path, file):
    done = run("report", two, "--json", file, cwd=tmp_path)
    assert done.returncode == 2
    assert "--json takes no file; write --json alone, --json -o FILE" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_two_things_cannot_have_standard_output(two, tmp_path):
    done = run("report", two, "--json", "--markdown", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert "standard output" in done.stderr


def test_compare_metric_option_selects_one_metric(two, tmp_path):
    done = run("compare", two / "near", two / "far", "--metric", "p99", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)["comparisons"]
    assert [(c["metric"], c["verdict"]) for c in told] == [("p99", "slower")]
    table = run("compare", two / "near", two / "far", "--metric", "p99", cwd=tmp_path).stdout
    assert "verdict (p99)" in table
    assert "p95 " not in table.split("pair")[1]


def test_report_metric_option_decides_path_advice(two, tmp_path):
    for metric, figure in (("p95", "p95"), ("median", "median")):
        done = run("report", two, "--metric", metric, "--json", cwd=tmp_path)
        (choice,) = [a for a in json.loads(done.stdout)["advice"] if a["topic"] == "choice"]
        assert choice["statement"].startswith(f"prefer near to far: its {figure} is")


@pytest.mark.parametrize("command", ["report", "compare"])
def test_unknown_metric_is_one_line_error(two, tmp_path, command):
    done = run(command, two / "near", two / "far", "--metric", "p98", cwd=tmp_path)
    assert done.returncode == 2
    assert "median, p50, p95, p99, mean" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", [("--zone", "Mars/Olympus"), ("--no-such-option",)])
def test_wrong_usage_is_two(two, tmp_path, option):
    assert run("report", two, *option, cwd=tmp_path).returncode == 2


def spoil(root, name, what):
    path = root / name
    write(path, lognormal_ns(5, 500, 700), label=name)
    manifest = json.loads((path / "recording.json").read_text())
    if what == "future":
        manifest["format_version"] = 99
        (path / "recording.json").write_text(json.dumps(manifest))
    elif what == "no manifest":
        (path / "recording.json").unlink()
    elif what == "foreign":
        (path / "recording.json").write_text('{"name": "a package", "version": "1.0.0"}')
    elif what == "torn manifest":
        (path / "recording.json").write_text(json.dumps(manifest)[:100])
    return path


SPOILT = ["future", "no manifest", "foreign", "torn manifest"]


@pytest.mark.parametrize("what", SPOILT)
def test_unreadable_recording_is_one_line_error(tmp_path, what):
    path = spoil(tmp_path, "bad", what)
    done = run("report", path, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(path) in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_unreadable_recordings_are_left_out_and_named(tmp_path):
    good = write(tmp_path / "good", lognormal_ns(1, 500, 700), label="good")
    bad = [spoil(tmp_path, what.replace(" ", "-"), what) for what in SPOILT]
    done = run("report", good, *bad, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "report.html\n")
    page = (tmp_path / "report.html").read_text()
    assert "Not in this report" in page
    for path in bad:
        assert f"left out: cannot open recording: {path}" in done.stderr
        assert str(path) in page


def test_lock_only_recording_does_not_fail_others(tmp_path):
    """Among others it was one that cannot be read, and the exit code 1."""
    write(tmp_path / "all" / "a", lognormal_ns(1, 500, 700), label="good")
    begun = tmp_path / "all" / "b"
    begun.mkdir()
    (begun / ".lock").touch()
    done = run("report", begun, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{begun}: nothing was recorded" in done.stderr
    done = run("report", tmp_path / "all" / "a", begun, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "report.html\n")
    assert f"{begun}: nothing was recorded" in done.stderr
    assert "Not in this report" not in (tmp_path / "report.html").read_text()
    assert run("report", tmp_path / "all", "--json", cwd=tmp_path).returncode == 0


def report_on(path, tmp_path, code=0):
    done = run("report", path, "--json-file", "r.json", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return (tmp_path / "report.html").read_text(), json.loads((tmp_path / "r.json").read_text())


def test_report_flags_damaged_segment_and_uses_rest(tmp_path):
    """On standard error, in the page and by the exit code: a script saw 0."""
    path = write(tmp_path / "d", [lognormal_ns(1, 500, 700), lognormal_ns(2, 500, 700)], label="damaged")
    whole = (path / "samples-00001.parquet").read_bytes()
    (path / "samples-00001.parquet").write_bytes(whole[: len(whole) // 2])
    page, told = report_on(path, tmp_path, code=1)
    assert told["scenarios"][0]["answered"] == 500
    assert told["recordings"][0]["damage"]
    assert "damage" in {f["kind"] for f in told["findings"]}
    assert "is damaged; what can be read is used" in page


@pytest.mark.parametrize(
    "command", ["report near damaged --json", "compare near damaged", "compare near damaged --json"]
)
def test_partial_result_is_printed_with_exit_code_1(tmp_path, command):
    near = write(tmp_path / "near", lognormal_ns(1, 500, 700), label="near")
    path = write(
        tmp_path / "damaged", [lognormal_ns(2, 500, 700), lognormal_ns(3, 500, 700)], label="damaged"
    )
    whole = run(*command.split(), cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    segment = path / "samples-00001.parquet"
    segment.write_bytes(segment.read_bytes()[:100])
    done = run(*command.split(), cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "damaged is damaged, what can be read is used: samples-00001.parquet" in done.stderr
    assert done.stdout.splitlines()[0] == whole.stdout.splitlines()[0]
    # A recording that cannot be read at all, beside others that can.
    (near / "recording.json").unlink()
    third = write(tmp_path / "third", lognormal_ns(4, 500, 700), label="third")
    segment.write_bytes(b"")
    left = run(*command.split(), third, cwd=tmp_path)
    assert left.returncode == 1, left.stderr
    assert "left out" in left.stderr


def test_damaged_queries_are_damage(tmp_path):
    """A report of queries whose file was cut off ended with 0, and nothing on standard error (a stranger)."""
    queries.recording(tmp_path / "db", [queries.sure(4 * queries.MS, queries.MS, 0)] * 30)
    assert run("report", "db", "--json", cwd=tmp_path).returncode == 0
    path = tmp_path / "db" / "queries-00000.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    done = run("report", "db", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert "db is damaged, what can be read is used: queries-00000.parquet" in done.stderr


def test_an_interrupted_recording_is_said_to_be_one(tmp_path):
    path = write(tmp_path / "i", lognormal_ns(1, 500, 700), ended=False)
    told = json.loads(run("report", path, "--json", cwd=tmp_path).stdout)
    assert "interrupted" in {f["kind"] for f in told["findings"]}


def test_an_empty_recording_makes_an_honest_report(tmp_path):
    page, told = report_on(write(tmp_path / "e", np.zeros(0, dtype=np.int64)), tmp_path)
    assert "nothing was sent" in page
    assert told["scenarios"][0]["rtt_ns"]["p50"]["value"] is None


def test_a_single_sample_has_no_percentiles(tmp_path):
    page, told = report_on(write(tmp_path / "s", np.array([123_456])), tmp_path)
    assert "A single round trip" in page
    assert "one value has no spread" in page
    figures = told["scenarios"][0]["rtt_ns"]
    assert figures["min"] == figures["max"] == 123_456
    assert all(figures[p]["value"] is None for p in ("p95", "p99", "p99_9", "p99_99"))


def test_unanswered_path_has_no_figures(tmp_path):
    page, told = report_on(write(tmp_path / "n", np.full(50, UNANSWERED)), tmp_path)
    assert "of 50 samples" in page
    assert "Fastest" not in page
    (s,) = told["scenarios"]
    assert (s["answered"], s["unanswered"]) == (0, 50)
    assert all(f is None or f.get("value") is None for f in s["rtt_ns"].values() if not isinstance(f, int))


def test_compare_states_slower_path_and_ratio(two):
    done = run("compare", two / "near", two / "far")
    assert done.returncode == 0
    assert "far / near" in done.stdout
    assert "far is slower by" in done.stdout
    told = json.loads(run("compare", two / "near", two / "far", "--json").stdout)
    by_metric = {c["metric"]: c for c in told["comparisons"]}
    assert by_metric["p50"]["ratio"] == pytest.approx(900 / 500, rel=0.02)
    assert {c["verdict"] for c in told["comparisons"]} == {"slower"}


def test_explicit_recordings_with_equal_labels_are_compared(tmp_path):
    for name in ("before", "after"):
        write(tmp_path / name, lognormal_ns(0, 2000, 500), label="near")
    told = json.loads(run("compare", "before", "after", "--json", cwd=tmp_path).stdout)
    assert {s["name"] for s in told["scenarios"]} == {"near [before]", "near [after]"}
    # One and the same samples: alike beyond what matters, and not only of no shown difference.
    assert {c["verdict"] for c in told["comparisons"]} == {"no difference that matters"}


def test_compare_with_matches_paths_by_label(tmp_path):
    month_ns = 30 * 86400 * 10**9
    for when, start_ns, far_us, other in (("now", START, 800, "new"), ("last", START - month_ns, 400, "old")):
        for seed, label, median_us in ((1, "near", 400), (2, "far", far_us), (3, other, 400)):
            rtt_ns = lognormal_ns(seed, 2000, median_us)
            write(tmp_path / when / label, rtt_ns, label=label, start_ns=start_ns)
    done = run("compare", "now", "--with", "last", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # Each with itself, and no path with another.
    median = {(c["a"], c["b"]): c["verdict"] for c in told["comparisons"] if c["metric"] == "p50"}
    assert {frozenset(pair) for pair in median} == {
        frozenset((f"{label} [now]", f"{label} [last]")) for label in ("near", "far")
    }
    assert median[("far [last]", "far [now]")] == "slower"
    assert {v for pair, v in median.items() if "near [now]" in pair} == {"no difference that matters"}
    assert "measured only then or only now: " in done.stderr
    assert {"new", "old"} <= set(done.stderr.replace(",", " ").split())
    table = run("compare", "now", "--with", "last", cwd=tmp_path).stdout
    assert "far [now] is slower by" in table


def test_compare_with_ignores_paths_measured_differently(tmp_path):
    write(tmp_path / "now/near", lognormal_ns(1, 400, 400), label="near", size=64)
    write(tmp_path / "last/near", lognormal_ns(2, 400, 400), label="near", size=1024, start_ns=START - 10**15)
    done = run("compare", "now", "--with", "last", cwd=tmp_path)
    assert done.returncode == 1
    assert "no path of now was measured in last" in done.stderr


def test_one_scenario_has_nothing_to_be_compared_with(two):
    done = run("compare", two / "near")
    assert done.returncode == 1
    assert "name recordings of two or more" in done.stderr


def test_help_is_quick_because_it_imports_nothing_heavy():
    heavy = "('duckdb', 'pyarrow', 'scipy', 'numpy')"
    code = f"import sys, fathometer.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["report", "compare", "changes", "check", "import"])
def test_help_shows_examples_and_exit_codes(command):
    done = run(command, "--help")
    assert "Examples:" in done.stdout
    if command != "import":
        assert "Exit codes:" in done.stdout
    assert f"fathom {command}" in done.stdout


def test_goals_are_reported_and_set_exit_code(two, tmp_path):
    done = run("report", two, "--slo", "p50<2ms", "--slo", "availability>99%", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    keeps_to_schema(told)
    outcomes = told["slo"]
    assert {(o["scenario"], o["metric"], o["status"]) for o in outcomes} == {
        (path, metric, "met") for path in ("near", "far") for metric in ("p50", "availability")
    }
    done = run("report", two, "--slo", "p50<700us", "-o", "broken.html", cwd=tmp_path)
    assert done.returncode == 3
    # What numpy says of the samples that were written.
    median_us = np.median(lognormal_ns(1, 2000, 900)) / 1e3
    assert f"far: p50 < 700 µs not met: it is {median_us:.0f} µs" in done.stderr
    assert "near:" not in done.stderr
    page = (tmp_path / "broken.html").read_text()
    assert "not met by 1 of 2" in page


@pytest.mark.parametrize("goal", ["p99=2ms", "p98<2ms", "p99<2", "availability<99%"])
def test_invalid_slo_is_usage_error(two, tmp_path, goal):
    done = run("report", two, "--slo", goal, cwd=tmp_path)
    assert done.returncode == 2
    assert goal in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "report.html").exists()


def json_of(directory, name, *more, code=0):
    """Writes the JSON of a report without its page, whose drawing takes most of the time."""
    done = run("report", name, "--json", *more, cwd=directory)
    assert done.returncode == code, done.stderr
    (directory / f"{name}.json").write_text(done.stdout)
    return done.stderr


def test_report_fails_if_slower_than_baseline(tmp_path):
    for name, median in (("before", 500), ("same", 500), ("after", 700)):
        write(tmp_path / name, lognormal_ns(len(name), 3000, median), label="path")
    json_of(tmp_path, "before")
    same = run("report", "same", "--baseline", "before.json", "--json", cwd=tmp_path)
    assert same.returncode == 0, same.stderr
    slower = json_of(tmp_path, "after", "--baseline", "before.json", code=3)
    assert "path: p50 became slower, from 5" in slower
    told = json.loads((tmp_path / "after.json").read_text())
    keeps_to_schema(told)
    (path,) = told["baseline"]["scenarios"]
    by_metric = {d["metric"]: d for d in path["differences"]}
    assert by_metric["p50"]["ratio"] == pytest.approx(1.4, rel=0.02)
    assert by_metric["p50"]["low"] < 1.4 < by_metric["p50"]["high"]
    assert by_metric["p50"]["verdict"] == "slower"
    json_of(tmp_path, "before", "--baseline", "after.json")
    (path,) = json.loads((tmp_path / "before.json").read_text())["baseline"]["scenarios"]
    assert {d["verdict"] for d in path["differences"] if d["metric"] == "p50"} == {"faster"}


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"format": 2, "scenarios": []}', "[" * 100_000])
def test_invalid_baseline_is_one_line_error(two, tmp_path, content):
    if content is not None:
        (tmp_path / "b.json").write_text(content)
    done = run("report", two, "--baseline", "b.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "b.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def cut(recording):
    segment = recording / "samples-00000.parquet"
    segment.write_bytes(segment.read_bytes()[:2000])


def flipped(recording):
    segment = recording / "samples-00000.parquet"
    content = bytearray(segment.read_bytes())
    content[1000] ^= 255
    segment.write_bytes(content)


def other_columns(recording):
    """A table of somebody else's, listed as it should be."""
    segment = recording / "samples-00000.parquet"
    pq.write_table(pq.read_table(segment).drop(["rtt_ns"]), segment)
    lines = [json.loads(line) for line in (recording / "events.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "segment.closed":
            line |= {"bytes": segment.stat().st_size, "crc32": zlib.crc32(segment.read_bytes())}
    (recording / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


SPOILED = {
    "cut": cut,
    "a flipped bit": flipped,
    "no segment": lambda recording: (recording / "samples-00000.parquet").unlink(),
    "no events": lambda recording: (recording / "events.jsonl").unlink(),
    "neither": lambda recording: [
        (recording / name).unlink() for name in ("events.jsonl", "samples-00000.parquet")
    ],
    "other columns": other_columns,
    "no manifest": lambda recording: (recording / "recording.json").write_text("{"),
}


@pytest.mark.parametrize("spoiling", list(SPOILED))
def test_what_cannot_be_read_meets_no_goal(tmp_path, spoiling):
    """Beside a good recording, one whose samples could not be read passed a pipeline: the goal was "met", the
    exit code was 0, and standard error was silent.
    """
    for label in ("good", "bad"):
        write(tmp_path / label, lognormal_ns(1, 1000), label=label)
    SPOILED[spoiling](tmp_path / "bad")
    words = ("report", "good", "bad", "--slo", "availability>1%", "--slo", "p99<1s")
    done = run(*words, "--json", cwd=tmp_path)
    assert done.returncode == 4
    *lines, last = done.stderr.splitlines()
    assert sum(" cannot be decided: " in line for line in lines) == 2
    assert last == "fathometer: cannot be decided: 2 goals"
    told = {(o["goal"], o["scenario"]): o["status"] for o in json.loads(done.stdout)["slo"]}
    assert {status for (_, path), status in told.items() if path == "good"} == {"met"}
    assert [status for (_, path), status in told.items() if path != "good"] == ["cannot be decided"] * 2
    if spoiling == "cut":
        assert run(*words, cwd=tmp_path).returncode == 4
        assert "cannot be decided for" in (tmp_path / "report.html").read_text()


def test_missed_goal_stays_missed_despite_damage(tmp_path):
    write(tmp_path / "r", [lognormal_ns(1, 1000), lognormal_ns(2, 1000)])
    flipped(tmp_path / "r")
    done = run("report", "r", "--slo", "p99<1s", "--slo", "p99<1us", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert "p99 < 1.00 s cannot be decided: r is damaged (samples-00000.parquet" in done.stderr
    assert "p99 < 1.00 µs not met: it is" in done.stderr


@pytest.mark.parametrize("option", ["-o", "--json-file", "--markdown"])
@pytest.mark.parametrize("name", ["recording.json", "samples-00000.parquet", "new.html"])
def test_output_inside_input_recording_is_refused(tmp_path, option, name):
    """It replaced recording.json by the page, and the recording was gone."""
    recording = tmp_path / "r"
    write(recording, lognormal_ns(1, 100))
    before = {p.name: p.read_bytes() for p in recording.iterdir()}
    done = run("report", "r", option, f"r/{name}", cwd=tmp_path)
    assert done.returncode == 2
    assert "inside the recording" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {p.name: p.read_bytes() for p in recording.iterdir()} == before


def test_two_outputs_cannot_have_one_file(two, tmp_path):
    done = run("report", two, "-o", "x", "--json-file", "./x", cwd=tmp_path)
    assert done.returncode == 2
    assert "--output and --json-file both name" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["recording.json", "events.jsonl", "samples-00000.parquet"])
def test_fifo_in_recording_is_damage(tmp_path, name):
    """`report` hung opening a pipe without a writer."""
    for label in ("good", "bad"):
        write(tmp_path / label, lognormal_ns(1, 100), label=label)
    (tmp_path / "bad" / name).unlink()
    os.mkfifo(tmp_path / "bad" / name)
    done = run("report", "good", "bad", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert "it is no regular file" in done.stderr
    assert "good" in {s["name"] for s in json.loads(done.stdout)["scenarios"]}


def test_report_is_written_despite_missing_path(two, tmp_path):
    """Its path gone, a goal ended the run before anything was written, and so did a baseline."""
    done = run("report", two, "--slo", "gone: p99<2ms", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "report.html").exists()) == (2, True)
    assert "concerns no path" in done.stderr
    near = run("report", two / "near", "--json", cwd=tmp_path).stdout
    (tmp_path / "near.json").write_text(near)
    done = run("report", two / "far", "--baseline", "near.json", "-o", "far.html", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "far.html").exists()) == (3, True)
    assert "near: no longer measured" in done.stderr


def test_markdown_without_a_page_draws_nothing(two, tmp_path, monkeypatch):
    monkeypatch.setattr("fathometer.report.drawing.draw", lambda *_: pytest.fail("a picture was drawn"))
    done = run("report", two, "--markdown", "r.md", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "](" not in (tmp_path / "r.md").read_text()
