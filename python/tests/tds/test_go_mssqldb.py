"""`fathom echo --tds` and go-mssqldb: packets of the size that it asks for, rows, encryption."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.echo import echo

pytestmark = pytest.mark.acceptance
SOURCE = Path(__file__).parent / "go_client"
LIMIT_S = 300


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The program, built; a visible skip where there is no Go, or nowhere to fetch the library from."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("go is missing: go-mssqldb was not tried")
    program = tmp_path_factory.mktemp("go") / "client"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=SOURCE,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if built.returncode != 0 and re.search(r"dial tcp|proxy|lookup", built.stderr):
        pytest.skip(f"go-mssqldb cannot be fetched: {built.stderr.splitlines()[0]}")
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("packet", [512, 4096, 16_383])
def test_go_mssqldb_gets_its_packet_size_and_rows(client, packet, encrypted):
    with echo("--tds", "0", "--tds-encrypt") as listening:
        ran = subprocess.run(
            [str(client), listening["tds"], str(packet), "true" if encrypted else "disable"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    said, *rows = ran.stdout.splitlines()
    assert said == f"{packet} {'TRUE' if encrypted else 'FALSE'}"
    # What docs/tds.md says of a row.
    letters = ["".join(chr(ord("a") + (n + at) % 26) for at in range(90)) for n in range(700)]
    assert rows == [f"{n} {body}" for n, body in enumerate(letters)]
