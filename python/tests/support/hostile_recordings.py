"""Recordings that no recorder writes."""

import json
import os
import zlib

import numpy as np

from support.recordings import START, lognormal_ns, write

TEXT = (
    "esc\x1b]0;owned\x07\x1b[31m c1\x9b31m del\x7f ends\r\n\u2028\u0085 turned\u202e\u2066 "
    "<img src=x onerror=alert(1)>|*s*"
)
"""What a terminal, a browser and Markdown would obey."""
OBEYED = ("\x1b", "\x07", "\x7f", "\x9b", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\r")


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


def with_text(text):
    """A manifest of just this."""

    def spoil(directory):
        (directory / "recording.json").write_bytes(text)

    return spoil


def endless(directory):
    """A manifest of a gigabyte, of which nothing is on the disk."""
    os.truncate(directory / "recording.json", 1 << 30)


def piped(directory):
    """A manifest that nobody writes to."""
    (directory / "recording.json").unlink()
    os.mkfifo(directory / "recording.json")


REFUSED = {
    "pages": damaged_parquet,
    "interval": with_manifest(probe={"mode": "tcp", "size": 64, "interval_ns": 10**30}),
    "infinite": with_manifest(probe={"mode": "tcp", "size": 64, "interval_ns": float("inf")}),
    "deep": with_text(b'{"format_version": 1, "label": ' + b"[" * 50_000),
    "nested": with_manifest(host=json.loads('{"a":' * 200 + "1" + "}" * 200)),
    "list": with_text(b"[1, 2, 3]"),
    "text": with_text(b"\xff\xfe\x00nothing"),
    "endless": endless,
    "piped": piped,
    "label": with_manifest(label={"a": 1}),
}
"""Each must be named and left out."""
SHOWN = {
    "words": with_manifest(label=TEXT + "\ud800\0"),
    "year": with_event(kind="note", at="9999-12-31T23:59:59Z", text="late"),
    "pause": with_event(kind="pause", host="local", duration_ns=10**25),
    "closed": with_event(
        kind="connection.closed", connection=0, cause="reset", age_ns=float("nan"), evidence={}
    ),
    "odd": with_event(kind=["note"], text={"a": []}),
    "notice": with_event(
        kind="maintenance", cloud="aws", what="x", state="scheduled", notice=json.loads("[" * 90 + "]" * 90)
    ),
}
"""What is wrong with these concerns a line or a word: the rest is used."""
TIMES = {
    "times": {"sent_ns": lambda seq: START + seq * (1 << 52)},
    "far": {"sent_ns": lambda seq: np.full(len(seq), 1 << 62)},
    "before": {"sent_ns": lambda seq: -1 - seq},
}
"""Columns of samples that are refused, too."""


def refused(directory, name):
    """Writes one that must be refused, by the name of what is wrong with it."""
    if name in TIMES:
        return write(directory, lognormal_ns(9, 200), label=name, columns=TIMES[name])
    write(directory, lognormal_ns(9, 200), label=name)
    REFUSED[name](directory)
    return directory


def dangerous(text):
    """What of a text a terminal would obey."""
    return sorted({c for c in text if c in OBEYED or ("\ud800" <= c <= "\udfff")})
