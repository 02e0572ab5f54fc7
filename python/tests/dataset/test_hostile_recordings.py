"""One recording that is not what a recorder writes is refused by name, in one line; the others are shown.

A hostile recording used to end the report of all others (a traceback, or an abort of the renderer).
"""

import json
import zlib

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from support.recordings import START, lognormal_ns, write


def damaged_parquet(directory):
    """A file whose pages are damaged, and whose event states just that size and checksum."""
    path = directory / "samples-00000.parquet"
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(data)
    lines = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "segment.closed":
            line["crc32"] = zlib.crc32(data)
    (directory / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def with_manifest(**fields):
    def spoil(directory):
        path = directory / "recording.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return spoil


def with_event(**fields):
    def spoil(directory):
        line = {"at": "2025-03-20T00:00:01Z", "mono_ns": 1, **fields}
        with (directory / "events.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    return spoil


REFUSED = {
    "pages": damaged_parquet,
    "interval": with_manifest(probe={"mode": "tcp", "size": 64, "interval_ns": 10**30}),
    "infinite": with_manifest(probe={"mode": "tcp", "size": 64, "interval_ns": float("inf")}),
}
SHOWN = {
    "label": with_manifest(label="a\u0000b\u001b[31m\u2028c\ud800<script>"),
    "year": with_event(kind="note", at="9999-12-31T23:59:59Z", text="late"),
    "pause": with_event(kind="pause", host="local", duration_ns=10**25),
    "closed": with_event(
        kind="connection.closed", connection=0, cause="reset", age_ns=float("nan"), evidence={}
    ),
}


@pytest.fixture
def many(tmp_path):
    for number, (name, spoil) in enumerate({**REFUSED, **SHOWN, "sound": lambda _: None}.items()):
        directory = write(tmp_path / "r" / name, lognormal_ns(number, 200), label=name)
        spoil(directory)
    for name, value in (("times", {"sent_ns": lambda seq: START + seq * (1 << 52)}), ("far", {
        "sent_ns": lambda seq: np.full(len(seq), 1 << 62)})):  # fmt: skip
        write(tmp_path / "r" / name, lognormal_ns(9, 200), label=name, columns=value)
    return tmp_path / "r"


def test_each_hostile_recording_is_refused_by_name_and_the_others_are_read(many):
    told = []
    found = open_recordings([many], on_error=told.append, counted=True)
    assert {r.directory.name for r in found} == {*SHOWN, "sound"}
    assert all("\n" not in str(error) for error in told)
    for name in (*REFUSED, "times", "far"):
        assert sum(f"r/{name}" in str(error) for error in told) == 1, (name, list(map(str, told)))
