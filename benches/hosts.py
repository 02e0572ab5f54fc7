"""A real PostgreSQL in a host of the fabric, clients at other distances from it, and captures on both: what the benchmarks of
`fathom sql` share."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = f"bench-sql-{os.getpid()}"
SERVER = "10.97.0.1"
PASSWORD = "bench"
NOBODY = 65_534


@contextlib.contextmanager
def fabric(fathom, directory, round_trips_ms):
    """A server, and a client for each of these round trips: c0, c1, …"""
    text = f'format = 1\n[[host]]\nname = "server"\naddress = "{SERVER}"\n'
    for i, ms in enumerate(round_trips_ms):
        text += f'[[host]]\nname = "c{i}"\naddress = "10.97.1.{i + 1}"\n'
        text += f'[[path]]\nlabel = "p{i}"\nfrom = "c{i}"\nto = "server"\nboth = {{ delay = "{round(ms * 5e5)}ns" }}\n'
    scenario = pathlib.Path(directory, "scenario.toml")
    scenario.write_text(text)
    subprocess.run(
        [fathom, "fabric", "up", str(scenario), "--name", NAME],
        check=True,
        capture_output=True,
    )
    try:
        yield
    finally:
        subprocess.run(
            [fathom, "fabric", "down", NAME], check=False, capture_output=True
        )


def on(fathom, host, *words):
    return [fathom, "fabric", "exec", "--name", NAME, host, "--", *words]


@contextlib.contextmanager
def postgres(fathom, directory):
    """On the server, as nobody; gives the port and the postmaster's process."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        sys.exit("no PostgreSQL server is installed (Debian: postgresql)")
    home = pathlib.Path(directory, "postgres")
    home.mkdir()
    (home / "password").write_text(PASSWORD)
    os.chown(home, NOBODY, NOBODY)
    os.chmod(directory, 0o755)
    as_nobody = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--",
    ]
    made = [*as_nobody, str(programs[-1]), "-U", "owner", "-N", "--auth=scram-sha-256"]
    subprocess.run(
        [*made, "--pwfile=password", "-D", "data"],
        cwd=home,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (home / "data/pg_hba.conf").write_text("host all all all scram-sha-256\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = (
        f"port={port}",
        f"listen_addresses={SERVER}",
        "unix_socket_directories=",
        "fsync=off",
        "jit=off",
        "max_parallel_workers=0",
    )
    words = [*as_nobody, str(programs[-1].with_name("postgres")), "-D", "data"]
    for setting in settings:
        words += ["-c", setting]
    log = home / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            on(fathom, "server", *words),
            cwd=home,
            stdout=subprocess.DEVNULL,
            stderr=out,
        ) as started,
    ):
        try:
            until = time.monotonic() + 30
            while "ready to accept connections" not in log.read_text():
                if time.monotonic() > until:
                    sys.exit(log.read_text())
                time.sleep(0.05)
            yield port, int((home / "data/postmaster.pid").read_text().split()[0])
        finally:
            with contextlib.suppress(OSError, ValueError):
                os.kill(
                    int((home / "data/postmaster.pid").read_text().split()[0]),
                    signal.SIGINT,
                )
            started.wait(20)


@contextlib.contextmanager
def captured(fathom, port, hosts, directory):
    """Captures on these hosts while this lasts; gives where."""
    files = [pathlib.Path(directory, f"{host}.packets") for host in hosts]
    wire_py = str(ROOT / "benches/wire.py")
    with contextlib.ExitStack() as stack:
        for host, file in zip(hosts, files, strict=True):
            words = on(fathom, host, sys.executable, wire_py, str(port), str(file))
            process = stack.enter_context(
                subprocess.Popen(words, stdout=subprocess.PIPE)
            )
            stack.callback(process.terminate)
            process.stdout.readline()
        yield files
