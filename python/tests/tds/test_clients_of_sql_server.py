"""`fathom echo --tds` and clients that people use: they log in, agree on a size of packets, and read rows."""

import contextlib
import subprocess
import time

import pymssql
import pytds
import pytest

from support.echo import echo
from support.programs import LIMIT, tool

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def port():
    with echo("--tds", "0", "--tds-encrypt") as listening:
        yield int(listening["tds"].rpartition(":")[2])


@contextlib.contextmanager
def by_python_tds(port, packet=4096):
    with pytds.connect(
        "127.0.0.1", "master", "sa", "hush", port=port, blocksize=packet, login_timeout=LIMIT, timeout=LIMIT
    ) as connection:
        yield connection.cursor()


@contextlib.contextmanager
def by_pymssql(port, version="7.4"):
    connection = pymssql.connect(
        "127.0.0.1", "sa", "hush", "master", port=str(port), tds_version=version, login_timeout=LIMIT
    )
    with connection:
        yield connection.cursor()


def test_encryption_is_granted_only_if_available(port):
    connection = pymssql.connect(
        "127.0.0.1", "sa", "hush", port=str(port), encryption="require", login_timeout=LIMIT
    )
    with connection:
        cursor = connection.cursor()
        assert asked(cursor, "SELECT * FROM sys.dm_exec_connections")[0][2] == "TRUE"
        assert len(asked(cursor, "SELECT * FROM fathom_rows(700, 90)")) == 700
    with echo("--tds", "0") as listening, pytest.raises(pymssql.Error):
        pymssql.connect(
            "127.0.0.1",
            "sa",
            "hush",
            port=listening["tds"].rpartition(":")[2],
            encryption="require",
            login_timeout=LIMIT,
        )


def letters(number, count):
    """What the row source puts into a row, as docs/tds.md says it."""
    return "".join(chr(ord("a") + (number + at) % 26) for at in range(count))


def asked(cursor, query):
    cursor.execute(query)
    return [tuple(row) for row in cursor.fetchall()]


@pytest.mark.parametrize("packet", [512, 4096, 8000, 16_384, 32_767])
def test_python_tds_gets_its_packet_size_and_rows(port, packet):
    with by_python_tds(port, packet) as cursor:
        said = asked(cursor, "SELECT * FROM sys.dm_exec_connections WHERE session_id = @@SPID")
        assert [row[1:] for row in said] == [(packet, "FALSE")]
        assert asked(cursor, "SELECT * FROM fathom_rows(700, 90)") == [
            (n, letters(n, 90)) for n in range(700)
        ]


@pytest.mark.parametrize("version", ["7.2", "7.3", "7.4"])
def test_pymssql_reads_every_row(port, version):
    with by_pymssql(port, version) as cursor:
        assert asked(cursor, "SELECT * FROM fathom_rows(700, 90)") == [
            (n, letters(n, 90)) for n in range(700)
        ]
        cursor.connection.commit()


def test_an_older_protocol_is_refused_with_a_reason(port):
    with pytest.raises(pymssql.Error, match=r"7\.2 \(SQL Server 2005\) or newer"), by_pymssql(port, "7.1"):
        pass


@pytest.mark.acceptance
def test_login_beyond_the_sessions_is_refused():
    with echo("--tds", "0", "--tds-sessions", "1") as listening:
        port = listening["tds"].rpartition(":")[2]
        with by_pymssql(port) as cursor:
            assert asked(cursor, "SELECT 1") == [(1,)]
            said = tsql(port, "SELECT 1")
            assert "Msg 17809" in said
            assert "all sessions that are served" in said


def tsql(port, *queries):
    script = "".join(f"{query}\ngo\n" for query in queries) + "exit\n"
    command = [tool("tsql"), "-H", "127.0.0.1", "-p", str(port), "-U", "sa", "-P", "hush"]
    ended = subprocess.run(
        command,
        input=script,
        env={"TDSVER": "7.4"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.mark.acceptance
def test_tsql_reads_rows_and_shows_an_error(port):
    said = tsql(port, "SELECT * FROM fathom_rows(3, 10)", "SELECT name FROM customers", "SELECT @@VERSION")
    assert "2\tcdefghijkl" in said
    assert "(3 rows affected)" in said
    assert "this is fathom echo --tds, a server for measuring, and no database" in said
    assert "TDS server for measuring, no database" in said


@pytest.mark.parametrize(("sleep_s", "share"), [(1, 0.3), pytest.param(3, 0.7, marks=pytest.mark.acceptance)])
def test_slow_reader_is_distinguished_from_path(port, sleep_s, share):
    """SQL Server shows waits of at most 2 s; it was one, as long as the sleep, and the kernel says whose."""
    blocked_ns = share * sleep_s * 1e9
    with by_pymssql(port) as cursor:
        before = asked(cursor, "SELECT * FROM fathom_transfer")[0]
        cursor.execute("SELECT * FROM fathom_rows(4000, 8000)")
        cursor.fetchone()
        time.sleep(sleep_s)  # The truth: for so long the client does not read.
        assert len(cursor.fetchall()) == 3_999
        busy, client, _, blocked = (
            a - b for a, b in zip(asked(cursor, "SELECT * FROM fathom_transfer")[0], before, strict=True)
        )
        # What fits into both buffers goes on for a while, and what is read after the sleep takes its time.
        assert blocked > blocked_ns
        assert busy >= client > blocked_ns
        _, kind, count, total, longest, signal = asked(
            cursor, "SELECT * FROM sys.dm_exec_session_wait_stats"
        )[0]
        assert (kind, signal) == ("ASYNC_NETWORK_IO", 0)
        assert longest == 2_000 if sleep_s > 2 else longest <= 2_000
        assert total == pytest.approx(blocked / 1e6, abs=1)
        assert count >= max(1, sleep_s / 2)


def test_cancelled_query_keeps_connection_usable(port):
    with by_python_tds(port) as cursor:
        cursor.execute("SELECT * FROM fathom_rows(1000000, 1000)")
        cursor.fetchone()
        cursor.cancel()
        assert asked(cursor, "SELECT * FROM fathom_rows(2, 3)") == [(0, "abc"), (1, "bcd")]
