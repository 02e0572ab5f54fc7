#!/usr/bin/env python3
"""Real libraries and our models of them, side by side through the same events; see docs/clients.md."""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import reasons
from lab import PORT, ROOT, UnusableError, fathom, lab

HERE = Path(__file__).resolve().parent
BUILT = ROOT / "target" / "clients"
BEGIN = 35
"""When the first request is due, in seconds since the fabric began."""
LASTS = 80
DEADLINE = 5
"""How long a caller waits, in seconds; the policies in policies/ say the same."""
APPLICATIONS = {"steady": 4, "pauses": 0.1111}
"""Requests a second. The second pauses for longer than the firewall remembers, and less than node-postgres
keeps a connection (10 s).
"""
SETTINGS = ("default", "advised")
ENDS = ("answered", "failed", "ambiguous")


def sh(*command, cwd=None):
    """A step of the build, whose output shows only where it fails."""
    done = subprocess.run([str(w) for w in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnusableError(f"{command[0]}: {done.stdout}{done.stderr}")


def tool(name, why):
    """A program of this machine."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin")
    if not found:
        raise UnusableError(f"{name} is missing: {why}")
    return found


def build(language):
    """Builds a client, outside of the sources."""
    place = BUILT / language
    place.mkdir(parents=True, exist_ok=True)
    if language == "go":
        sh(
            tool("go", "the clients of pgx are written in Go"),
            "build",
            "-o",
            place / "client",
            ".",
            cwd=HERE / "go",
        )
    elif language == "java":
        mvn = tool("mvn", "the client of HikariCP is built by Maven")
        goals = ("package", "dependency:copy-dependencies", f"-DoutputDirectory={place / 'lib'}")
        sh(mvn, "-q", "-B", "-f", HERE / "java" / "pom.xml", *goals)
    elif language == "python":
        sh(sys.executable, "-m", "venv", place)
        sh(place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
           "-r", HERE / "python" / "requirements.txt")  # fmt: skip
    else:
        for name in ("client.js", "package.json", "package-lock.json"):
            shutil.copy(HERE / "node" / name, place / name)
        sh(tool("npm", "the client of node-postgres is installed by npm"), "ci", "--silent", cwd=place)


LIBRARIES = {
    "pgxpool": ("go", [BUILT / "go" / "client", "-library", "pgxpool"]),
    "database-sql": ("go", [BUILT / "go" / "client", "-library", "database-sql"]),
    "sqlalchemy": ("python", [BUILT / "python" / "bin" / "python", HERE / "python" / "client.py"]),
    "hikaricp": ("java", ["java", "-cp", f"{BUILT}/java/classes:{BUILT}/java/lib/*", "Client"]),
    "node-postgres": ("node", ["node", BUILT / "node" / "client.js"]),
}


@dataclass
class Case:
    """One application: a library or our model of it, its settings, and what became of each request."""

    application: str
    library: str
    settings: str
    output: Path
    process: subprocess.Popen | None = None

    @property
    def rate(self):
        """Requests a second."""
        return APPLICATIONS[self.application]

    @property
    def host(self):
        """Where it runs."""
        return f"app-{self.settings}"


def due_count(rate):
    """How many requests are due: the n-th at n / rate."""
    n = 0
    while n / rate < LASTS:
        n += 1
    return n


def start_client(made, case):
    """A library. It begins with the others, at a moment that it is told."""
    begin = round((made.began + BEGIN) * 1000)
    values = {"host": made.plan.address, "port": PORT, "rate": case.rate, "for": LASTS, "deadline": DEADLINE,
              "idle-limit": made.plan.idle_limit, "settings": case.settings, "begin": begin}  # fmt: skip
    words = [word for name, value in values.items() for word in (f"--{name}", value)]
    with case.output.open("w") as out, case.output.with_suffix(".err").open("w") as err:
        command = made.on(case.host, *LIBRARIES[case.library][1], *words)
        case.process = made.programs.start(command, stdout=out, stderr=err)


def start_model(made, case):
    """Our model of the library: it begins at once."""
    policy = HERE / "policies" / f"{case.library}-{case.settings}.toml"
    words = [fathom(), "probe", made.plan.address, "--as-client", policy, "--rate", case.rate,
             "--for", f"{LASTS}s", "--json", "--quiet", "--record", case.output.with_suffix("")]  # fmt: skip
    with case.output.open("w") as out, case.output.with_suffix(".err").open("w") as err:
        case.process = made.programs.start(made.on(case.host, *words), stdout=out, stderr=err)


def checked(case):
    """The lines of a client, held against the law: each request that was due has exactly one end."""
    what = f"{case.application} {case.library} {case.settings}"
    lines = [json.loads(line) for line in case.output.read_text().splitlines()]
    if not lines or "due" not in lines[-1]:
        raise AssertionError(
            f"{what}: it did not end in order: {case.output.with_suffix('.err').read_text()}"
        )
    rows, total = sorted(lines[:-1], key=lambda row: row["n"]), lines[-1]
    if [row["n"] for row in rows] != list(range(due_count(case.rate))):
        raise AssertionError(f"{what}: a request has no end, or more than one")
    for end in ENDS:
        if total[end] != sum(row["end"] == end for row in rows):
            raise AssertionError(f"{what}: the sum of what was {end} is another than its rows")
    if total["due"] != sum(total[end] for end in ENDS):
        raise AssertionError(f"{what}: {total['due']} were due, and the ends are others")
    return rows, total


def modelled(case):
    """The same of our model, from what it printed and the events of its recording."""
    what = f"the model of {case.application} {case.library} {case.settings}"
    text = case.output.read_text()
    if not text:
        raise AssertionError(f"{what}: {case.output.with_suffix('.err').read_text()}")
    total = json.loads(text)
    if total["due"] != sum(total[end] for end in ENDS) or total["due"] != due_count(case.rate):
        raise AssertionError(f"{what}: {total['due']} were due, and the ends are others")
    events = case.output.with_suffix("") / "events.jsonl"
    ended = [json.loads(line) for line in events.read_text().splitlines() if '"request.ended"' in line]
    return {row["request"] for row in ended if row["outcome"] in ("failed", "ambiguous")}, total


def phase(n, rate, outage, plan):
    """What a request that was due then met first: an idle connection alone, the restart, or the cut."""
    at = BEGIN + n / rate
    if outage[0] - DEADLINE < at < outage[1] + 2 * DEADLINE:
        return "restart"
    return "cut" if plan.cut - DEADLINE < at < plan.cut + plan.cut_lasts + 2 * DEADLINE else "idle"


def phases(numbers, rate, outage, plan):
    """How many of these requests met what."""
    met = [phase(n, rate, outage, plan) for n in numbers]
    return {name: met.count(name) for name in ("idle", "restart", "cut")}


def compare(made, clients, models, outage):
    """A row for each library and its settings."""
    rows = []
    for client, model in zip(clients, models, strict=True):
        ended, total = checked(client)
        lost_there, total_there = modelled(model)
        lost = [row["n"] for row in ended if row["end"] != "answered"]
        difference = len(lost) - len(lost_there)
        key = (client.application, client.library, client.settings)
        rows.append({
            "application": client.application, "library": client.library, "settings": client.settings,
            "version": total["version"], "applied": total["applied"],
            "due": total["due"], **{end: total[end] for end in ENDS},
            "longest_wait_ns": max(row["waited_ns"] for row in ended),
            "lost": phases(lost, client.rate, outage, made.plan),
            "model": {"failed": total_there["failed"], "ambiguous": total_there["ambiguous"],
                      "longest_wait_ns": total_there["waited_ns"]["max"],
                      "lost": phases(lost_there, client.rate, outage, made.plan)},
            "difference": difference,
            "why": reasons.WHY.get(key, "not explained") if abs(difference) > 1 else None,
        })  # fmt: skip
    return rows


def show(rows, outage):
    """The table, for people."""
    print(
        f"nothing listened for {outage[1] - outage[0]:.1f} s; lost = failed + ambiguous, as idle/restart/cut"
    )
    head = ("application", "library", "settings", "due", "answered", "failed", "ambiguous", "longest wait",
            "lost", "model", "difference")  # fmt: skip
    table = [head]
    for row in rows:
        lost, there = ("/".join(str(n) for n in side["lost"].values()) for side in (row, row["model"]))
        table.append((
            row["application"], row["library"], row["settings"], str(row["due"]), str(row["answered"]),
            str(row["failed"]), str(row["ambiguous"]), f"{row['longest_wait_ns'] / 1e9:.2f} s",
            lost, there, f"{row['difference']:+d}",
        ))  # fmt: skip
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row["why"]:
            print(f"{row['application']} {row['library']} {row['settings']}: {row['why']}")


def measure(libraries):
    """One run of all of them through the scenario. Its rows, and from when to when nothing listened."""
    with lab() as made:
        keepalive = int(made.plan.idle_limit / 2)
        made.set_keepalive("app-advised", keepalive, 1)
        cases = [
            (application, library, settings)
            for application in APPLICATIONS for library in libraries for settings in SETTINGS
        ]  # fmt: skip
        clients = [Case(*case, made.directory / f"{'-'.join(case)}.jsonl") for case in cases]
        models = [Case(*case, made.directory / f"{'-'.join(case)}-model.json") for case in cases]
        for case in clients:
            start_client(made, case)
        if time.time() > made.began + BEGIN - 1:
            raise UnusableError("this machine is too busy: the programs were not started in time")
        made.sleep_until(BEGIN - 0.1)
        for case in models:
            start_model(made, case)
        outage = made.restart()
        made.sleep_until(BEGIN + LASTS + DEADLINE)
        for case in clients + models:
            try:
                case.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{case.output.stem} does not end") from None
        return compare(made, clients, models, outage), outage


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--library", action="append", choices=list(LIBRARIES), help="only this one")
    parser.add_argument("--no-build", action="store_true", help="the clients are built already")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    libraries = options.library or list(LIBRARIES)
    try:
        fathom()
        if not options.no_build:
            for language in dict.fromkeys(LIBRARIES[library][0] for library in libraries):
                print(f"building the client in {language} ...", file=sys.stderr)
                build(language)
        rows, outage = measure(libraries)
    except UnusableError as error:
        print(error, file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"the law of ends is broken: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps({"format": 1, "outage_s": list(outage), "rows": rows}))
    else:
        show(rows, outage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
