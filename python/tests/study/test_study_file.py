"""The study file: positions, mistakes by line and column, the schema, the ready studies."""

import json
import tomllib
from pathlib import Path

import fastjsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fathometer.errors import FathometerError
from fathometer.study.command import study_app
from fathometer.study.positions import positions
from fathometer.study.read import notes, parse, read_study
from fathometer.study.schema import study_schema
from fathometer.study.words import duration_ns, duration_text, size_bytes

ROOT = Path(__file__).parents[3]
READY = sorted((ROOT / "studies").glob("*.toml"))

GOOD = """\
format = 1
name = "two"

[[host]]
name = "here"
local = true

[[scenario]]
label = "a"
from = "here"
to = "here"
port = 17007

[[scenario]]
label = "b"
from = "here"
to = "here"
port = 17008

[[probe]]
every = "10ms"
count = 100
"""


def told(text):
    _, problems = parse(text)
    return [(p.line, p.column, p.what, p.remedy) for p in problems]


def test_a_good_file_has_no_problem():
    study, problems = parse(GOOD)
    assert problems == []
    assert study.rounds == 20
    assert study.probe[0].interval_ns == 10_000_000
    assert study.limits.per_connection == 5_000


# Line and column are counted by hand in GOOD, with the change made.
@pytest.mark.parametrize(
    ("old", "new", "line", "column", "what", "remedy"),
    [
        ('name = "two"', 'name = "two', 2, 12, "", "toml.io"),
        ("format = 1", "format = 2", 1, 1, "format", "write 1"),
        ("format = 1", "format = true", 1, 1, "`format` cannot be true", "write 1"),
        ('every = "10ms"', 'every = "10"', 21, 1, "no duration", "500ms"),
        ('every = "10ms"', 'evry = "10ms"', 21, 1, "evry", "did you mean `every`"),
        ('every = "10ms"', 'every = "1us"', 21, 1, "1,000,000/s", "raise `limits.per-connection`"),
        ('every = "10ms"', 'every = "10ms"\nrate = 100.0', 20, 1, "both `every` and `rate`", "leave one"),
        ('every = "10ms"', 'mode = "tcp-ping-pong"\nevery = "1s"', 20, 1, "no schedule", "leave"),
        ("count = 100", "count = 0", 22, 1, "count", "greater than or equal to 1"),
        ("count = 100", "", 20, 1, "never ends", "`for`"),
        ("count = 100", "count = 100\nsizes = [64, 0]", 23, 14, "sizes", "greater than or equal to 1"),
        ("count = 100", "count = 100\nwarm-up = 100", 20, 1, "warm-up", "raise `count`"),
        ("count = 100", 'count = "100"', 22, 1, "count", "integer"),
        ("port = 17008", "port = 70000", 18, 1, "port", "65535"),
        ("port = 17008", "port = 17008\n  via = ''", 19, 3, "via", "at least 1 character"),
        ('label = "b"', 'label = "a"', 15, 1, 'two scenarios are labelled "a"', "rename"),
        ('label = "b"', 'label = "b/c"', 15, 1, "b/c", "letters, digits"),
        ('label = "b"\nfrom = "here"', 'label = "b"\nfrom = "hre"', 16, 1, '"hre"', "name one of here"),
        ('label = "b"', "", 14, 1, "scenario.label", "add `label"),
        ("local = true", "", 4, 1, "one place", "local = true"),
        ("local = true", "ssh = { adress = '10.0.0.4' }", 6, 9, "adress", "did you mean `address`"),
        ("[[probe]]", "[limits]\nper-connection = 6000\n[[probe]]", 21, 1, "6,000/s", "allow-high-rate"),
        ("[[probe]]", "[schedule]\nhours = [\n '9-17']\n[[probe]]", 22, 2, "9-17", "09:00-17:00"),
        ("[[probe]]", "[schedule]\nzone = 'Mars/Base'\n[[probe]]", 21, 1, "Mars/Base", "Europe/London"),
    ],
)
def test_mistake_has_position_and_remedy(old, new, line, column, what, remedy):
    assert GOOD.count(old) == 1
    found = told(GOOD.replace(old, new))
    assert any(f[:2] == (line, column) and what in f[2] and remedy in f[3] for f in found), found


def test_mistakes_are_in_file_order():
    found = told(GOOD.replace("17007", "0").replace('"10ms"', "10"))
    assert [f[:2] for f in found] == [(12, 1), (21, 1)]


def test_above_the_polite_ceiling_needs_the_word():
    fast = GOOD.replace('"10ms"', '"100us"')
    limits = "\n[limits]\nper-connection = 10000\n"
    assert len(told(fast)) == 1
    assert len(told(fast + limits)) == 1
    assert told(fast + limits + "allow-high-rate = true\n") == []


def test_back_to_back_between_hosts_needs_the_word():
    text = GOOD.replace('every = "10ms"', 'mode = "tcp-ping-pong"')
    assert told(text) == []
    apart = text.replace('to = "here"\nport = 17008', 'to = "two"\nport = 17008')
    apart += "[[host]]\nname = 'two'\nssh = { address = '10.0.0.4' }\n"
    ((line, column, what, _),) = told(apart)
    assert (line, column) == (21, 1)
    assert "as fast as it answers" in what
    assert told(apart + "[limits]\nallow-high-rate = true\n") == []


def test_side_by_side_rates_add_up():
    many = GOOD.replace('"10ms"', '"250us"\nconnections = 10')
    assert told(many) == []
    (found,) = told(many.replace('name = "two"', 'name = "two"\norder = "side-by-side"'))
    assert "80,000/s in all" in found[2]


def test_hosts_of_different_networks_cannot_reach_each_other(tmp_path):
    (tmp_path / "net.toml").write_text('format = 1\n[[host]]\nname = "x"\n')
    text = GOOD.replace(
        '[[scenario]]\nlabel = "b"\nfrom = "here"\nto = "here"',
        "[[host]]\nname = 'there'\nfabric = { scenario = 'net.toml', host = 'y' }\n"
        "[[scenario]]\nlabel = 'b'\nfrom = 'here'\nto = 'there'",
    )
    study, problems = parse(text, tmp_path)
    assert study is not None
    assert [(p.line, p.column) for p in problems] == [(16, 35), (20, 1)]
    assert 'no host "y"' in problems[0].what
    assert problems[0].remedy == "name one of x"
    assert "different networks" in problems[1].what
    (tmp_path / "net.toml").unlink()
    assert "No such file" in parse(text, tmp_path)[1][0].what


def test_few_repetitions_are_noted_and_ssh_is_not():
    study, _ = parse(GOOD.replace('name = "two"', 'name = "two"\nrepetitions = 3'))
    assert any("repetitions = 3 is few" in n for n in notes(study))
    study, problems = parse(GOOD.replace("local = true", "ssh = { address = '10.0.0.4', jump = 'gate' }"))
    assert problems == []
    assert notes(study) == []


def test_positions_agree_with_the_text():
    text = (
        "a = 1 # [no]\n\"b c\".d = '''\nx = 1\n'''\n[t]\nk = [ 1, # c\n  { y = 2, z = [3] } ]\n"
        '[[u.v]]\n[[u.v]]\n[u.v.w]\nq = "\\"]"\n'
    )
    tomllib.loads(text)
    found = positions(text)
    assert found["a",] == (1, 1)
    assert found["b c", "d"] == (2, 1)
    assert ("x",) not in found
    assert found["t",] == (5, 1)
    assert found["t", "k", 0] == (6, 7)
    assert found["t", "k", 1, "y"] == (7, 5)
    assert found["t", "k", 1, "z", 0] == (7, 17)
    assert found["u", "v", 1] == (9, 1)
    assert found["u", "v", 1, "w"] == (10, 1)
    assert found["u", "v", 1, "w", "q"] == (11, 1)


@pytest.mark.parametrize("path", [*READY, *sorted((ROOT / "scenarios").glob("*.toml"))], ids=lambda p: p.stem)
def test_every_key_of_real_files_has_its_line(path):
    text = path.read_text()
    lines = text.splitlines()
    found = positions(text)

    def walk(value, where):
        if isinstance(value, dict):
            for key, inner in value.items():
                line, column = found[(*where, key)]
                assert key in lines[line - 1][column - 1 :]
                walk(inner, (*where, key))
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                assert (*where, number) in found
                walk(inner, (*where, number))

    walk(tomllib.loads(text), ())


@given(st.text(max_size=60))
def test_no_text_is_an_accident(tail):
    parse(GOOD + tail)


@given(st.integers(1, 10**18))
def test_durations_read_back(ns):
    assert duration_ns(duration_text(ns)) == ns


@pytest.mark.parametrize(
    ("text", "ns"), [("1.5ms", 1_500_000), ("1m30s", 90_000_000_000), ("11h", 39_600_000_000_000)]
)
def test_durations_as_people_write_them(text, ns):
    assert duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1x", "0s", "1s2", 5, 1.5, True])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="; "):
        duration_ns(text)


def test_sizes():
    assert [size_bytes(s) for s in (64, "64", "1KiB", "1MB", "2 MiB")] == [64, 64, 1024, 10**6, 2 << 20]


def test_the_schema_is_the_one_checked_in():
    assert (ROOT / "schema" / "study.schema.json").read_text() == study_schema()


def test_the_schema_takes_what_the_model_takes():
    schema = json.loads(study_schema())
    validate = fastjsonschema.compile(schema)
    for path in READY:
        validate(tomllib.loads(path.read_text()))
    for bad in (GOOD.replace("count", "cuont"), GOOD.replace('"10ms"', '"10"'), GOOD.replace("17008", "0")):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            validate(tomllib.loads(bad))


def test_the_ready_studies_are_there():
    wanted = {"eleven-hours", "connection-methods", "hub-and-spoke", "psping-sizes", "accelerated-networking"}
    wanted |= {
        "proximity-placement",
        "accelerated-networking-throughput",
        "week",
        "provider-comparison",
        "vm-size",
        "firewall-in-path",
        "resilience",
        "zones-and-balancers",
        "tds-packet-size",
        "tds-packet-size-lab",
        "fetch-size",
        "database-direct-or-balanced",
        "firewall-maintenance",
        "idle-limits",
        "refresh-interval",
        "vm-size-migration",
        "azure-all",
        "placement",
        "mtu",
        "firewall-rules",
    }
    assert {p.stem for p in READY} == wanted


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_ready_studies_pass_check(path):
    done = CliRunner().invoke(study_app, ["check", str(path)])
    assert done.exit_code == 0, done.output
    assert read_study(path).name == path.stem


def test_check_names_file_line_and_column(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace("17008", "0"))
    done = CliRunner().invoke(study_app, ["check", str(path)])
    assert done.exit_code == 1
    assert f"{path}:18:1: " in done.stderr
    with pytest.raises(FathometerError, match=":18:1:"):
        read_study(path)
    with pytest.raises(FathometerError, match="No such file"):
        read_study(tmp_path / "none.toml")
