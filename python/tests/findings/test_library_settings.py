"""The table of settings against `fathom limits check`, which knows the libraries: what advice writes holds,
what it leaves to a default does too, and both round in the same way.
"""

import itertools
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from fathometer.findings import library_settings, values
from fathometer.findings.finding import Recipe
from fathometer.findings.render.snippets import snippet, spelled
from support.programs import fathom
from support.tiers import repeated

S, MIN = values.S, values.MIN
LIMITS = [
    *(n * S for n in (2, 3, 7, 10, 11, 33, 45, 61, 100, 300, 301, 599, 601, 3661)),
    *(n * MIN for n in (30, 31, 61, 121)),
    239 * S + 999 * values.MS,
]
FEW = [3 * S, 7 * S, 10 * S, 100 * S, LIMITS[-1], 301 * S]
FEW_OR_ALL = repeated("limits", FEW, LIMITS)
FILES = {
    "hikari": ("a.properties", "jdbcUrl=jdbc:postgresql://db1/shop\n{}\n"),
    "pgx": ("a.txt", "host=db1 dbname=shop {}\n"),
    "sqlalchemy": ("a.ini", "[app]\nsqlalchemy.url = postgresql+psycopg://app@db1/shop\n{}\n"),
    "node-postgres": ("a.json", "{}"),
    "npgsql": ("a.txt", "Host=db1;Database=shop;{}\n"),
    "mysql2": ("a.json", "{}"),
    "sysctl": ("a.conf", "{}\n"),
}
"""How a library's file looks round what advice says."""
NOTHING = {
    "node-postgres": '{ "host": "db1", "port": 5432, "database": "shop" }',
    "mysql2": '{ "connectionLimit": 10 }',
}
"""What stands in it where nothing is set."""


def checked(directory, library, texts, kind):
    """Judgements of `limits check`, one a text; `texts`: limits (ns) with what is written against them."""
    every = []
    for number, (limit, text) in enumerate(texts):
        name, frame = FILES[library]
        file = Path(directory) / f"{number}-{name}"
        file.write_text(frame.format(text) if "{}" in frame and frame != "{}" else text)
        command = [fathom(), "limits", "check", file, "--as", library, f"--{kind}", f"{limit}ns", "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode in {0, 1}, (library, text, ended.stderr)
        told = json.loads(ended.stdout)
        assert not told["faults"], (library, text, told["faults"])
        (judgement,) = [j for j in told["judgements"] if j["limit"] == kind]
        every.append(judgement)
    return every


def recipes(kind, limit):
    if kind == "idle":
        return library_settings.keepalive(limit)
    return library_settings.lifetime(values.most_of(limit), limit)


CASES = [
    (kind, library)
    for kind in ("idle", "age")
    for library in FILES
    if (kind, library) not in {("age", "sysctl"), ("age", "mysql2")}
]


@FEW_OR_ALL
@pytest.mark.parametrize(("kind", "library"), CASES)
def test_what_is_written_holds(tmp_path, kind, library, limits):
    of = [(limit, r) for limit in limits for r in recipes(kind, limit) if r.library == library and r.settings]
    assert len(of) > 2
    judged = checked(tmp_path, library, [(limit, snippet(r).text) for limit, r in of], kind)
    for (limit, recipe), judgement in zip(of, judged, strict=True):
        assert not judgement["loses"], (limit / S, recipe, judgement["why"])


@FEW_OR_ALL
@pytest.mark.parametrize(("kind", "library"), [case for case in CASES if case[1] != "sysctl"])
def test_settings_are_written_only_where_needed(tmp_path, kind, library, limits):
    """Where nothing is written a file without settings holds; where something is, it would lose."""
    of = {limit: next((r for r in recipes(kind, limit) if r.library == library), None) for limit in limits}
    left = [limit for limit, r in of.items() if r is not None and not r.settings]
    written = [limit for limit, r in of.items() if r is not None and r.settings]
    for some, loses in ((left, False), (written, True)):
        nothing = NOTHING.get(library, "")
        for limit, j in zip(
            some, checked(tmp_path, library, [(n, nothing) for n in some], kind), strict=True
        ):
            assert j["loses"] == loses, (limit / S, j["why"])


@FEW_OR_ALL
@pytest.mark.parametrize(
    ("kind", "library", "ask"),
    [
        ("idle", "npgsql", "Host=db1;Database=shop"),
        ("idle", "sysctl", "net.ipv4.tcp_keepalive_time = 7200"),
        ("age", "sqlalchemy", ""),
        ("age", "node-postgres", NOTHING["node-postgres"]),
        ("idle", "hikari", ""),
        ("idle", "pgx", ""),
        ("age", "pgx", ""),
    ],
)
def test_both_halves_write_the_same_value(tmp_path, kind, library, ask, limits):
    """The rule of rounding stands in both: they must not differ."""
    limits = [n for n in limits if n >= 5 * S]
    compared = 0
    for limit, j in zip(limits, checked(tmp_path, library, [(n, ask) for n in limits], kind), strict=True):
        mine = [r for r in recipes(kind, limit) if r.library == library and r.settings]
        if not (mine and j["write"]):
            continue
        theirs = " ".join(w["text"] for w in j["write"]).replace("sqlalchemy.", "")
        words = " ".join(re.findall(r"[\w.]+", theirs))
        for s in mine[0].settings:
            if s.name.endswith("_intvl"):
                continue  # The other half leaves it as it is.
            assert f" {s.name} {spelled(s)} " in f" {words} ", (limit / S, s, theirs)
            compared += 1
    assert compared > 2


def test_names_of_sysctl_are_the_kernels():
    names = [
        s.name
        for r in library_settings.keepalive(4 * MIN, 30 * MIN)
        if r.library == "sysctl"
        for s in r.settings
    ]
    assert len(names) == 3
    for name in names:
        assert (Path("/proc/sys") / name.replace(".", "/")).exists(), name


def test_a_socket_takes_its_options_as_written():
    every = [*library_settings.keepalive(4 * MIN, 30 * MIN), *library_settings.user_timeout(30 * S)]
    lines = [line for r in every if r.library == "socket" for line in snippet(r).text.splitlines()]
    assert len(lines) == 5
    with socket.socket() as s:
        for line in lines:
            level, option, value = line.removeprefix("setsockopt(").removesuffix(")").split(", ")
            what = getattr(socket, level), getattr(socket, option)
            s.setsockopt(*what, int(value))
            assert s.getsockopt(*what) == int(value), line


@pytest.mark.parametrize("limit", LIMITS)
def test_lost_keepalive_leaves_time_for_another(limit):
    for recipe in library_settings.keepalive(limit):
        if recipe.library == "sysctl":
            idle, interval = (s.value for s in recipe.settings)
            assert idle <= limit / 2
            assert idle + interval <= limit


@pytest.mark.parametrize(
    ("limit", "stall"), [*itertools.product((4 * S, MIN, 10 * MIN), (0, S, MIN, 4 * MIN))]
)
def test_keepalives_do_not_end_what_recovers(limit, stall):
    """Nine without an answer end a connection: they must take longer than a stall that recovers."""
    for recipe in library_settings.keepalive(limit, stall):
        if recipe.library == "sysctl":
            set_ = {s.name.rpartition("_")[2]: s.value for s in recipe.settings}
            fails_after = set_["intvl"] * set_.get("probes", library_settings.KERNELS_PROBES)
            assert fails_after > stall or set_["probes"] == library_settings.MOST_PROBES


def test_sufficient_default_writes_no_setting():
    told = snippet(Recipe("node-postgres", (), "idleTimeoutMillis"))
    assert told.text == ""
    assert "idleTimeoutMillis" in told.where
