"""A real PostgreSQL of the distribution, started as an unprivileged user on a port of its own."""

import os
import pwd
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from support.programs import LIMIT, fathom, free_port, missing

PASSWORD = "s3cret-w0rd"


def programs():
    """Where Debian, and others, have the server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else missing("a PostgreSQL server (Debian: postgresql)")


@contextmanager
def postgres():
    """The URL of a server that runs meanwhile. The postmaster refuses to run as root."""
    if os.geteuid() != 0:
        missing("root, which starts the server as somebody else,")
    with TemporaryDirectory(prefix="fathometer-postgres-") as home:
        yield from _served(Path(home))


def _served(home):
    bin_, nobody, port = programs(), pwd.getpwnam("nobody"), free_port()
    (home / "password").write_text(PASSWORD)
    (home / "password").chmod(0o644)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": home}
    initdb = [bin_ / "initdb", "-U", "owner", "-N", "--auth=scram-sha-256", "--pwfile=password", "-D", "data"]
    made = subprocess.run(initdb, check=False, capture_output=True, text=True, timeout=LIMIT, **other)
    assert made.returncode == 0, made.stdout + made.stderr
    log = home / "log"
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
    command = [bin_ / "postgres", "-D", "data", *(word for s in settings for word in ("-c", s))]
    with log.open("w") as written:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=written, **other)
    try:
        deadline = time.monotonic() + LIMIT
        while "ready to accept connections" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            assert server.poll() is None, log.read_text()
            # Without this the one that looks takes the processor from the one that starts.
            time.sleep(0.01)
        yield f"postgres://owner@127.0.0.1:{port}/postgres"
    finally:
        server.kill()
        server.wait(LIMIT)


def ask(url, *arguments):
    """Runs `fathom sql`."""
    return subprocess.run(
        [fathom(), "sql", url, "--json", "--quiet", *map(str, arguments)],
        env=os.environ | {"PGPASSWORD": PASSWORD, "FATHOM_CLOUD": "off"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
