"""What `fathom echo --tds` counted as SQL Server does, in the report: in its JSON as the run itself said it,
and on the page beside path and client.
"""

import json
import subprocess

from fathometer.findings.words import duration, within
from support.command_line import run
from support.echo import echo
from support.programs import LIMIT, fathom
from support.report_schema import keeps_to_schema


def test_report_server_count_matches_the_run(tmp_path):
    kept = tmp_path / "kept"
    with echo("--tds", "0", "--tds-send-buffer", "64KiB") as listening:
        words = [fathom(), "sql", f"mssql://reader@{listening['tds']}/d?sslmode=disable", "--quiet", "--json"]
        words += ["--packet-size", "4096,16384", "--count", "4", "--rows", "300", "--row-bytes", "4000"]
        words += ["--think", "200us", "--record", str(kept / "r")]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert ran.returncode == 0, ran.stderr
    settings = json.loads(ran.stdout)["settings"]
    file = tmp_path / "report.json"
    told = run("report", kept, "--json-file", file, "--markdown", "-")
    assert told.returncode == 0, told.stderr
    value = json.loads(file.read_text())
    keeps_to_schema(value)
    by_size = sorted(value["databases"], key=lambda row: "16,384" in row["asked"])
    assert [row["server_counted"] for row in by_size] == [one["server_counted"] for one in settings]
    section = told.stdout.split("## Databases, the server's own count\n")[1].split("\n## ")[0]
    for row in by_size:
        of = row["server_counted"]
        (line,) = [line for line in section.splitlines() if row["asked"] in line]
        assert f"| {duration(of['ns'])}" in line
        for party in ("path", "client"):
            bounds = of[f"{party}_ns"]
            assert f"| {within(bounds['low'], bounds['high'], ' … ')} |" in line
