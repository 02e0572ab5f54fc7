"""Recordings with a few things changed by chance: bits, ends, files, values of JSON, columns."""

import json
import os
import shutil
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.format import _read
from support.growing import head, message
from support.hostile_recordings import TEXT
from support.recordings import START, iso

ODD = (
    *(None, True, False, -1, 0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30),
    *(
        -(2**63),
        1e308,
        -1.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        TEXT,
        "a" * 5_000,
        "\ud800",
        "\0",
        "-",
        "1",
    ),
    *("2025-03-20T00:00:01Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "tcp", "connect", "stamp"),
    *([], {}, [1], [[]], {"a": 1}, [None] * 2_000, ["a" * 100] * 20, "../../x", "samples-00000.parquet"),
)
NUMBERS = (0, 1, -1, 2**31, 2**40, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))


def deep(levels):
    """Lists in lists."""
    return json.loads("[" * levels + "]" * levels)


def events_of_every_kind():
    """One of each kind, with what the schema demands."""
    every = []
    for n, rule in enumerate(_read("event.schema.json")["allOf"]):
        kind, then = rule["if"]["properties"]["kind"]["const"], rule["then"]
        if kind in {"segment.closed", "recording.started", "recording.ended"}:
            continue
        fields = {
            name: _plain(then["properties"].get(name, {})) for name in then["required"] if name != "mono_ns"
        }
        every.append({"at_ns": START + (n + 5) * 1_000_000_000, "kind": kind, "connection": 0, **fields})
    return every


def _plain(shape):
    if "enum" in shape:
        return shape["enum"][0]
    kind = shape.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    plain = {
        "integer": 1_000_000,
        "boolean": True,
        "string": "word",
        "array": [],
        "object": {},
        "number": 1.5,
    }
    return plain.get(kind, 0)


def mutated(random, directory):
    """Changes a recording in one to three ways, and says which."""
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choice(CHANGES)
        done.append(change.__name__)
        try:
            change(random, directory)
        except (
            OSError,
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
            pa.ArrowException,
        ) as error:
            done.append(f"({type(error).__name__})")  # An earlier change left nothing to change.
    return " ".join(done)


def _a_file(random, directory):
    return random.choice(sorted(p for p in directory.iterdir() if p.is_file()))


def bits(random, directory):
    path = _a_file(random, directory)
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 2, 30))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def sealed_bits(random, directory):
    """In Parquet whose event states just that checksum."""
    path = random.choice(sorted(directory.glob("*.parquet")))
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 3, 30))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    _state(directory, path.name, bytes=len(data), crc32=zlib.crc32(data))


def cut(random, directory):
    path = _a_file(random, directory)
    os.truncate(path, random.randrange(path.stat().st_size + 1))


def grown(random, directory):
    """A file with a hole at its end."""
    path = _a_file(random, directory)
    os.truncate(path, path.stat().st_size + random.choice((1, 100, 1 << 20, 1 << 28)))


def swapped(random, directory):
    a, b = _a_file(random, directory), _a_file(random, directory)
    first = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(first)


def gone(random, directory):
    _a_file(random, directory).unlink()


def renamed(random, directory):
    path = _a_file(random, directory)
    names = (
        "samples-00000.arrows",
        "samples-00007.parquet",
        "samples-99999999.arrows",
        "events.jsonl",
        "x.tmp",
    )
    path.rename(directory / random.choice(names))


def doubled(random, directory):
    path = _a_file(random, directory)
    shutil.copy(
        path, directory / random.choice(("samples-00001.arrows", "samples-00001.parquet", ".reserve"))
    )


def no_file(random, directory):
    """A pipe, a directory, a link to nowhere, to itself or to a device."""
    path = _a_file(random, directory)
    path.unlink()
    match random.randrange(5):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("/nowhere/at/all")
        case 3:
            path.symlink_to(path)
        case 4:
            path.symlink_to("/dev/zero")


def manifest(random, directory):
    path = directory / "recording.json"
    value = json.loads(path.read_text())
    for _ in range(random.choice((1, 2, 6))):
        _spoil(random, value)
    path.write_text(json.dumps(value))


def event_values(random, directory):
    lines = _lines(directory)
    for _ in range(random.choice((1, 4, 20))):
        _spoil(random, random.choice(lines))
    _write(directory, lines)


def event_times(random, directory):
    lines = _lines(directory)
    for _ in range(random.choice((1, 5))):
        at = random.choice((0, START, START + 10**12, 2**62, -(10**18), 253_402_300_799 * 10**9))
        random.choice(lines)["at"] = iso(at)
    _write(directory, lines)


def event_order(random, directory):
    lines = _lines(directory)
    random.shuffle(lines)
    _write(directory, lines)


def many_events(random, directory):
    """One of them thousands of times, on connections of their own or on one."""
    lines = _lines(directory)
    line = random.choice(lines)
    if line["kind"] == "segment.closed":
        return
    own = random.random() < 0.5
    many = [line | ({"connection": n} if own else {}) for n in range(random.choice((300, 3_000)))]
    _write(directory, [*lines[:-1], *many, lines[-1]])


def odd_lines(random, directory):
    """Lines that are no events."""
    odd = (
        b"\n" * 1_000,
        b"{}\n" * 100,
        b"[" * 90_000 + b"\n",
        b"x" * (2 << 20) + b"\n",
        b"\xff\xfe\n",
        b"null\n",
    )
    data = (directory / "events.jsonl").read_bytes().splitlines(keepends=True)
    data.insert(random.randrange(len(data) + 1), random.choice(odd))
    (directory / "events.jsonl").write_bytes(b"".join(data))


def columns(random, directory):
    """Samples with values that no recorder writes, in files that are whole."""
    path = random.choice(sorted([*directory.glob("*.parquet"), *directory.glob("*.arrows")]))
    parquet = path.suffix == ".parquet"
    table = pq.read_table(path) if parquet else pa.ipc.open_stream(path.read_bytes()).read_all()
    for _ in range(random.choice((1, 2))):
        table = _with_odd_column(random, table)
    if not parquet:
        batches = table.combine_chunks().to_batches()
        path.write_bytes(head() + b"".join(map(message, batches)))
        return
    pq.write_table(table, path, compression=random.choice(("zstd", "snappy", "none")), row_group_size=200)
    data = path.read_bytes()
    _state(directory, path.name, bytes=len(data), crc32=zlib.crc32(data), rows=table.num_rows)


def _with_odd_column(random, table):
    at = random.randrange(table.num_columns)
    field = table.schema.field(at)
    whole = np.iinfo(field.type.to_pandas_dtype())
    fits = [n for n in NUMBERS if whole.min <= n <= whole.max]
    values = table.column(at).to_pylist()
    for _ in range(random.choice((1, 10, len(values)))):
        values[random.randrange(len(values))] = random.choice([*fits, *([None] if field.nullable else [])])
    if random.random() < 0.2:
        values = [random.choice(fits)] * len(values)
    return table.set_column(at, field, pa.array(values, field.type))


def _spoil(random, value):
    """Puts something odd somewhere into a tree of JSON."""
    while True:
        if not isinstance(value, (dict, list)) or not value:
            return
        key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        if isinstance(value[key], (dict, list)) and value[key] and random.random() < 0.7:
            value = value[key]
            continue
        if random.random() < 0.1:
            del value[key]
        else:
            value[key] = deep(random.choice((50, 70, 300))) if random.random() < 0.05 else random.choice(ODD)
        return


def _lines(directory):
    return [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]


def _write(directory, lines):
    # Not as a recorder writes it, where it holds what JSON has not.
    (directory / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _state(directory, name, **facts):
    """What the event that lists a segment says of it."""
    lines = _lines(directory)
    for line in lines:
        if line["kind"] == "segment.closed" and line["file"] == name:
            line.update(facts)
    _write(directory, lines)


CHANGES = (
    *(
        bits,
        sealed_bits,
        cut,
        grown,
        swapped,
        gone,
        renamed,
        doubled,
        no_file,
        manifest,
        manifest,
        event_values,
    ),
    *(event_values, event_times, event_order, many_events, odd_lines, columns, columns, columns),
)
