"""Whose time a database's queries took, and whether the same query takes longer over another path."""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.databases import databases
from fathometer.findings.databases_compared import compared
from fathometer.report.sections.databases import SECTION
from support.queries import MS, START, query, recording, sure, walls

SELECT = {"query": "SELECT *  FROM orders\nLIMIT 10"}


def known(root):
    return databases(analyse(open_recordings([root])).scenarios)


def pairs(root):
    return compared(analyse(open_recordings([root])).scenarios)


def told(root):
    return {f.kind: f for f in analyse(open_recordings([root])).findings}


def blurred(server, path, client, ms, estimated=True):
    """Parts that may each be off by so much, up or down; the client's is sure."""
    low, at, high = (
        (*(max(part + sign * ms, 0) * MS for part in (server, path)), client * MS) for sign in (-1, 0, 1)
    )
    return query(sum(at), low, at if estimated else None, high)


@pytest.mark.parametrize(
    ("rows", "party", "sure_"),
    [
        ([sure(1, 8, 1)], "path", "high"),
        ([sure(6, 3, 1)], "server", "high"),
        ([sure(4, 3, 3)], None, None),
        # 6 of 10, but at least 4.
        ([blurred(6, 3, 1, 2)], "server", "medium"),
        # The same without estimates: nobody knows.
        ([blurred(6, 3, 1, 2, estimated=False)], None, None),
        # Of one of three: what surely is its own counts, 16 of 30. Of half of them that is 10 of 20.
        ([*[blurred(6, 3, 1, 2)] * 2, blurred(6, 3, 1, 2, estimated=False)], "server", "medium"),
        ([blurred(6, 3, 1, 2), blurred(6, 3, 1, 2, estimated=False)], None, None),
        # The path was cut, and what nobody could split speaks for nobody, as in fathom-core/query/verdict.rs.
        ([blurred(10, 8, 0, 2), blurred(8, 8, 0, 8, estimated=False)], None, None),
        # All time counts alike: one long query outweighs nine short ones.
        ([sure(0, 100, 0), *[sure(9, 1, 0)] * 9], "path", "high"),
    ],
)
def test_party_with_most_time_is_the_verdict(tmp_path, rows, party, sure_):
    recording(tmp_path / "r", [sure(1, 1, 10**6), *rows])
    (one,) = known(tmp_path)
    assert (one.party, one.sure, one.counted) == (party, sure_, len(rows))


def test_largest_certain_share_is_known(tmp_path):
    for at, (path, greatest) in enumerate(((9, "path"), (6, None))):
        # 7 of 15 at the least, and the others 4 at the most; and 4 of 12, as much as they.
        recording(tmp_path / str(at), [sure(1, 1, 1), blurred(2, path, 4, 2, estimated=False)])
        (one,) = known(tmp_path / str(at))
        assert (one.party, one.sure, one.greatest) == (None, None, greatest)


def test_part_bounds_are_whole_nanoseconds(tmp_path):
    # Means of 64,649.5 and 64,650.5 ns: as they are they read 64.6 and 64.7 us, and in JSON are the same.
    rows = [query(low + 200, (100, low, 100), None, (100, low + 1, 100)) for low in (64_649, 64_650)]
    recording(tmp_path / "r", [sure(1, 1, 1), *rows], source=SELECT)
    (one,) = known(tmp_path)
    path = one.parts["path"]
    assert (path.low_ns, path.high_ns) == (64_650, 64_650)


def test_where_the_time_went_is_said_in_words(tmp_path):
    rows = [query(12_300_000, (1_100_000, 9_100_000, 1_700_000), None, (1_500_000, 9_400_000, 2_000_000))] * 7
    failed = sure(0, 5, 0, error="the server closed the connection")
    ended = sure(0, 5, 0, error="cancelled by the user: the server closed the connection")
    all_rows = [rows[0], *rows, sure(1, 1, 1, error="x (57014)"), failed, ended]
    recording(tmp_path / "r", all_rows, source=SELECT)
    (one,) = known(tmp_path)
    assert (one.queries, one.cancelled) == (11, 1)
    findings = told(tmp_path)
    said = findings["query time"]
    assert render.statement(said) == (
        "db:5432/shop: of a query's 12.3 ms in the mean, 9.10 ms to 9.40 ms were the path: most of it "
        "(7 queries)"
    )
    assert render.evidence(said) == [
        "asked: SELECT * FROM orders LIMIT 10",
        "the server: 1.10 ms to 1.50 ms",
        "the path: 9.10 ms to 9.40 ms",
        "the client: 1.70 ms to 2.00 ms",
        "7 queries with bounds alone: nobody looked",
    ]
    assert render.statement(findings["queries failed"]) == "db:5432/shop: 2 of 11 queries failed"
    assert render.evidence(findings["queries failed"]) == [
        "SQLSTATE 57014: 1 query",
        "connection lost: 1 query",
    ]


def test_where_nothing_is_sure_no_party_is_named(tmp_path):
    rows = [query(10 * MS, (2 * MS, 1 * MS, 1 * MS), None, (8 * MS, 7 * MS, 1 * MS))] * 3
    recording(tmp_path / "r", rows)
    statement = render.statement(told(tmp_path)["query time open"])
    assert "6.00 ms may be one's or another's" in statement
    assert not any(f"were the {party}" in statement for party in ("server", "path", "client"))


@pytest.mark.parametrize("names", [("near", "far"), ("far", "near")])
@pytest.mark.parametrize(("apart_ns", "pairing"), [(0, "paired in time"), (10**12, "unpaired")])
def test_longer_path_is_slower_in_any_order(tmp_path, names, apart_ns, pairing):
    for n, name in enumerate(names):
        of = walls(n, 800, {"near": 10, "far": 14}[name])
        recording(tmp_path / str(n), of, label=name, start_ns=START + n * apart_ns)
    (pair,) = pairs(tmp_path)
    assert (pair.a, pair.b, pair.difference.verdict, pair.pairing) == ("near", "far", "slower", pairing)
    interval = pair.difference.ratio_interval
    assert interval.low < 1.4 < interval.high
    statement = render.statement(told(tmp_path)["query over another path"])
    assert statement.startswith("the same query (1,000 × 100 bytes) takes ")


def test_of_paths_that_are_alike_none_is_slower(tmp_path):
    for n, name in enumerate(("one", "other")):
        recording(tmp_path / name, walls(n, 800, 10), label=name)
    (pair,) = pairs(tmp_path)
    assert pair.difference.verdict in {"no difference shown", "no difference that matters"}
    assert "query over another path" not in told(tmp_path)


def test_few_queries_decide_nothing(tmp_path):
    for n, name in enumerate(("near", "far")):
        recording(tmp_path / name, walls(n, 20, 10 + 10 * n), label=name)
    (pair,) = pairs(tmp_path)
    assert pair.difference.verdict == "cannot be decided"


@pytest.mark.parametrize("source", [SELECT, {"query": None}, {"rows": 1_000, "row_bytes": 200}])
def test_other_queries_are_not_held_against_each_other(tmp_path, source):
    recording(tmp_path / "a", walls(1, 800, 10), label="near")
    recording(tmp_path / "b", walls(2, 800, 20), label="far", source=source)
    assert pairs(tmp_path) == ()


def test_a_query_of_another_database_is_another(tmp_path):
    for n, name in enumerate(("staging", "shop", "shop")):
        recording(tmp_path / str(n), walls(n, 800, 10 + 10 * n), label=f"db{n}:5432/{name}", database=name)
    assert [(p.a, p.b) for p in pairs(tmp_path)] == [("db1:5432/shop", "db2:5432/shop")]


def test_packet_size_distinguishes_queries(tmp_path):
    for n, size in enumerate((16_384, 8_192, 4_096, 8_192)):
        recording(
            tmp_path / str(n), [sure(1, 2, 3)] * 4, packets=size, start_ns=1_742_500_000_000_000_000 + n
        )
    # By size: as texts 16,384 would come first.
    assert [(x.asked, x.queries) for x in known(tmp_path)] == [
        ("1,000 × 100 bytes, packets of 4,096 bytes", 4),
        ("1,000 × 100 bytes, packets of 8,192 bytes", 8),
        ("1,000 × 100 bytes, packets of 16,384 bytes", 4),
    ]


def test_hidden_queries_are_never_compared(tmp_path):
    for n, name in enumerate(("near", "far")):
        recording(tmp_path / name, walls(n, 800, 10), label=name, source={"query": None})
    assert pairs(tmp_path) == ()


def test_same_query_and_path_share_a_row(tmp_path):
    recording(tmp_path / "1", [sure(1, 2, 3)] * 3)
    recording(tmp_path / "2", [sure(1, 2, 3)] * 4, start_ns=1_742_500_000_000_000_000)
    recording(tmp_path / "3", [sure(3, 2, 1)] * 5, source=SELECT)
    assert sorted((x.asked, x.queries, x.counted) for x in known(tmp_path)) == [
        ("1,000 × 100 bytes", 7, 5),
        ("SELECT * FROM orders LIMIT 10", 5, 4),
    ]


def counted(waits, ms):
    return {"wait": "ASYNC_NETWORK_IO", "waits": waits, "ns": ms * MS}


def test_server_count_includes_first_and_failed_queries(tmp_path):
    """Also of the first, and of those that failed: the server counts them too. A recording of an earlier
    version has no count, and is not among them.
    """
    rows = [sure(1, 2, 3), sure(1, 2, 3), sure(1, 2, 3, error="connection broke")]
    recording(tmp_path / "a", rows, result={"server_counted": counted(3, 7)})
    lost = counted(0, 0) | {"lost_sessions": 2}
    recording(tmp_path / "b", [query(10, (0, 1, 2), None, (5, 6, 7))], result={"server_counted": lost})
    recording(tmp_path / "c", [sure(0, 0, 50)])
    (one,) = known(tmp_path)
    of = one.by_server
    assert of.lost_sessions == 2
    assert (one.queries, of.queries, of.waits, of.ns, of.wall_ns) == (5, 4, 3, 7 * MS, 18 + 10)
    assert (of.low_ns, of.high_ns) == ({"path": 7, "client": 11}, {"path": 12, "client": 16})


def test_missing_count_stays_missing(tmp_path):
    for n, result in enumerate([None, {"server_counted": None}, {"server_counted": {"waits": "3"}}]):
        recording(tmp_path / str(n), [sure(1, 2, 3)], result=result)
    (one,) = known(tmp_path)
    assert one.by_server is None


def test_each_packet_size_has_its_server_count(tmp_path):
    settings = [{"fetch_size": None, "packet_size": {"asked": n, "granted": n}} for n in (4096, 16384)]
    result = {
        "server_counted": counted(5, 9),
        "settings": [{"server_counted": counted(4, 8)}, {"server_counted": counted(1, 1)}],
    }
    rows = [sure(1, 2, 3, setting=n % 2) for n in range(6)]
    recording(tmp_path / "r", rows, settings=settings, result=result)
    each = {"16384" in one.shape: one.by_server for one in known(tmp_path)}
    assert {large: (of.waits, of.queries) for large, of in each.items()} == {False: (4, 3), True: (1, 3)}


def side_by_side(medians_ms, each=30):
    """Connections in turn, each as quick as it is, with a slow first query."""
    number = len(medians_ms)
    slow = [9] * number + [1] * number * (each - 1)
    return [
        sure(0, medians_ms[n % number] * MS * by, 0, connection=n % number, flags=int(n < number))
        for n, by in enumerate(slow)
    ]


def test_connections_side_by_side_have_their_own_medians(tmp_path):
    recording(tmp_path / "r", side_by_side([5, 3, 9]), connections=3)
    (one,) = known(tmp_path)
    assert [(c.connection, c.queries, c.counted, c.median_ns) for c in one.each] == [
        (0, 30, 29, 5 * MS),
        (1, 30, 29, 3 * MS),
        (2, 30, 29, 9 * MS),
    ]
    # What is counted in all is what they have together.
    assert (one.queries, one.counted) == (sum(c.queries for c in one.each), sum(c.counted for c in one.each))
    assert [c.connection for c in one.apart] == [1, 2]
    assert one.each[2].parts["path"].low_ns == 9 * MS
    said = [render.fact(f) for f in told(tmp_path)["query time"].facts if "connections" in f.quantities]
    ends = "3.00 ms (connection 1) and 9.00 ms (connection 2)"
    assert said == [f"of 3 connections side by side the medians lie between {ends}"]
    assert one.asked.endswith("3 connections side by side")


def test_another_number_of_connections_is_another_query(tmp_path):
    recording(tmp_path / "a", [sure(0, 3 * MS, 0)] * 60, label="a:5432/shop")
    # A recording of an earlier version says nothing of connections: it had one.
    recording(tmp_path / "b", [sure(0, 9 * MS, 0)] * 60, label="b:5432/shop", connections=1)
    recording(tmp_path / "c", side_by_side([9, 9]), label="c:5432/shop", connections=2)
    assert [{pair.a, pair.b} for pair in pairs(tmp_path)] == [{"a:5432/shop", "b:5432/shop"}]
    table = SECTION.table(analyse(open_recordings([tmp_path])))
    last = {row[0].text: row[-1].text for row in table.rows}
    others = [f"not compared with {path}:5432/shop, where 1 connection asked" for path in "ab"]
    assert last["c:5432/shop"] == "; ".join(others)
    assert "not compared with c:5432/shop, where 2 connections asked" in last["a:5432/shop"]


URL = "fathom sql 'postgres://LEFT-OUT@db:5432/shop?sslmode={}' --count 4"


@pytest.mark.parametrize(
    ("killed", "known_"),
    [
        ({"command": URL.format("require")}, True),
        ({"command": URL.format("verify-full&sslrootcert=/x")}, True),
        ({"command": URL.format("disable")}, False),
        ({"command": URL.format("prefer")}, None),
        ({"command": "fathom sql postgres://db/shop --query 'SELECT $$mysql://x?sslmode=require$$'"}, None),
        ({"command": "fathom sql mssql://LEFT-OUT@db"}, True),
        ({"command": "fathom sql 'mssql://LEFT-OUT@db?sslmode=login'"}, False),
        ({"command": "fathom sql 'mysql://db/shop?ssl-mode=REQUIRED'"}, True),
        ({"command": "fathom sql 'torn"}, None),
        ({"command": URL.format("prefer"), "encrypted": True}, True),
        ({}, None),
    ],
)
def test_killed_run_infers_encryption_from_url(tmp_path, killed, known_):
    recording(tmp_path / "r", [sure(1, 2, 3)], killed=True, **killed)
    (one,) = open_recordings([tmp_path])
    assert one.queries.asked["encrypted"] is known_


@pytest.mark.parametrize(("mode", "queries"), [("require", [8]), ("prefer", [4, 4])])
def test_killed_run_is_pooled_or_explained(tmp_path, mode, queries):
    """Only the end of a run tells; a killed one had been another query without a word."""
    recording(tmp_path / "whole", [sure(1, 2, 3)] * 4, result={"encrypted": True})
    later = {"killed": True, "start_ns": START + 10**12, "command": URL.format(mode)}
    recording(tmp_path / "killed", [sure(1, 2, 3)] * 4, **later)
    recording(tmp_path / "far", [sure(1, 2, 3)] * 4, result={"encrypted": True}, label="far")
    analysis = analyse(open_recordings([tmp_path]))
    assert [one.queries for one in databases(analysis.scenarios) if one.path != "far"] == queries
    (of_far,) = (row[-1].text for row in SECTION.table(analysis).rows if row[0].text == "far")
    words = "not compared with db:5432/shop: nobody knows whether that was encrypted"
    assert (words in of_far) == (mode == "prefer")
