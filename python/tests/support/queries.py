"""Recordings of `fathom sql` made for a test: queries with known parts, beside round trips."""

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.format import queries_schema
from support.recordings import START, lognormal_ns, write

MS = 1_000_000
PARTIES = ("server", "path", "client")
ROWS = {"rows": 1_000, "row_bytes": 100}


def query(wall_ns, low, estimate, high, **others):
    """One query; `low`, `estimate` (None: there is none) and `high` are of the three parts, in order."""
    row = {"wall_ns": wall_ns, "error": None, "no_split": None if estimate else "nobody looked", "flags": 0}
    for n, party in enumerate(PARTIES):
        row |= {f"{party}_low_ns": low[n], f"{party}_high_ns": high[n]}
        row[f"{party}_ns"] = estimate[n] if estimate else None
    return row | others


def sure(server, path, client, **others):
    """A query whose parts are known exactly."""
    parts = (server, path, client)
    return query(sum(parts), parts, parts, parts, **others)


def recording(
    directory,
    rows,
    *,
    source=None,
    label="db:5432/shop",
    start_ns=START,
    told=None,
    packets=None,
    database="shop",
    settings=None,
    every_ns=None,
    result=None,
    connections=None,
    killed=False,
    lost=0,
    per_file=None,
    states=False,
    command=None,
    encrypted=None,
    mode="connect",
    events=(),
):
    """Writes a recording with these queries, a second apart; the first is the first of its connection.

    `killed`: it has no `sql.ended`; recovery told `lost` of them. `states`: its log tells what its files are.
    """
    sql = {"protocol": "postgres", "database": database, "source": source or ROWS, "think_ns": 0}
    sql |= {
        "count": len(rows),
        "duration_ns": None,
        "every_ns": every_ns,
        "fetch_size": None,
        "simple": False,
    }
    sql |= {"packet_size": packets and {"asked": packets, "granted": packets}}
    sql |= {"settings": settings}
    if encrypted is not None:
        sql["encrypted"] = encrypted
    if connections is not None:
        sql["connections"] = connections
    probe = {"mode": mode, "size": 0, "interval_ns": None, "sql": sql}
    end = {
        "at_ns": start_ns + 10**12,
        "kind": "sql.ended",
        "result": {"queries": told or len(rows), **(result or {})},
    }
    zero = {"lateness_ns": 0, "rows": 1, "turns": 1, "looks": 0}
    full = [
        {"query": n, "started_ns": start_ns + n * 10**9, **zero, **row, "flags": row["flags"] | (n == 0)}
        for n, row in enumerate(rows)
    ]
    files = [full[at : at + (per_file or len(full))] for at in range(0, len(full), per_file or len(full))]
    written = [pa.Table.from_pylist(rows, schema=queries_schema()) for rows in files or [[]]]
    events = [*events, *([] if killed else [end])]
    if lost:
        events.append({"at_ns": end["at_ns"], "kind": "queries.lost", "queries": lost})
    contents = {}
    for number, table in enumerate(written):
        name = f"queries-{number:05}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue().to_pybytes()
        stated = {"rows": len(table), "bytes": len(content), "crc32": zlib.crc32(content)}
        if states:
            events.append({"at_ns": end["at_ns"], "kind": "queries.closed", "file": name, **stated})
        contents[name] = content
    write(
        directory,
        lognormal_ns(1, 50),
        label=label,
        mode=mode,
        start_ns=start_ns,
        events=events,
        manifest={"probe": probe} | ({"command": command} if command else {}),
    )
    for name, content in contents.items():
        (directory / name).write_bytes(content)


def walls(seed, count, median_ms):
    """Queries of random length, all of it the path's."""
    rng = np.random.default_rng(seed)
    lengths = median_ms * MS * np.exp(0.1 * rng.standard_normal(count))
    return [sure(0, int(ns), 0) for ns in lengths]


def swept(seed, rounds, settings, ratios, drift=0.0, each_login=None, connection=0.0):
    """Rounds of as many queries as there are ratios, each in an order of chance: times of chance that grow by
    `drift` a round, each by its setting's ratio. `each_login`: every setting logs in anew every so many
    rounds, and is by chance (`connection`) as fast as its connection.
    """
    rng, rows = np.random.default_rng(seed), []
    speeds = np.zeros(len(settings))
    for number in range(rounds):
        login, within = divmod(number, each_login or rounds)
        is_first = within == 0
        if is_first:
            speeds = connection * rng.standard_normal(len(settings))
        for at in rng.permutation(len(settings)):
            ns = 20 * MS * (1 + drift * number) * ratios[at]
            ns *= np.exp(0.1 * rng.standard_normal() + speeds[at])
            more = {"login": login} if each_login else {}
            rows.append(sure(0, int(ns), 0, setting=int(at), flags=int(is_first), **more))
    return rows
