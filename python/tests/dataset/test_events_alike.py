"""The quick reading of events gives the same results as the whole schema and slow ways of reading."""

import json
import time

import fastjsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathometer.dataset.events import event_of
from fathometer.dataset.format import _read, _shapes, event_validator, parse_utc
from fathometer.reading import parsed
from support.recordings import START, iso

QUICK = settings(max_examples=200, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
SCHEMA = _read("event.schema.json")
WHOLE = fastjsonschema.compile(SCHEMA, use_default=False)
NUMBERS = st.sampled_from([0, 1, -1, 2**32, 2**63 - 1, 2**64 - 1, 2**64, -(2**63) - 1, 10**30, 0.5])
VALUES = st.recursive(
    st.one_of(NUMBERS, st.none(), st.booleans(), st.sampled_from(["local", "stall", "reset", "", "1" * 25])),
    lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(st.text(max_size=3), inside)),
    max_leaves=6,
)


@st.composite
def events(draw):
    """An event of a kind, often with valid values."""
    kind = draw(st.sampled_from([*sorted(_shapes()), "of a later version"]))
    shape = _shapes().get(kind, {"properties": {}})
    event = {"at": iso(START), "kind": kind, "mono_ns": draw(st.sampled_from([0, 7, -1, "x"]))}
    for name, of in shape.get("properties", {}).items():
        fit = {"integer": 3, "string": "text", "boolean": True, "array": [], "object": {}}.get(
            of.get("type"), 1
        )
        fit = of["enum"][0] if "enum" in of else of.get("const", fit)
        if draw(st.integers(0, 9)):
            event[name] = draw(VALUES) if not draw(st.integers(0, 9)) else fit
    return event


def fits(validate, event):
    try:
        validate(event)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


@QUICK
@given(events())
def test_each_kind_is_checked_as_a_whole(event):
    assert fits(event_validator(event["kind"]), event) == fits(WHOLE, event)


def test_the_schema_says_of_each_kind_once():
    assert {"type", "required", "properties", "allOf"} <= SCHEMA.keys()
    assert all(set(b["if"]["properties"]) == {"kind"} and set(b) == {"if", "then"} for b in SCHEMA["allOf"])
    assert len(_shapes()) == len(SCHEMA["allOf"])


@QUICK
@given(VALUES, st.sampled_from([None, 0, 1]))
def test_numbers_of_json_are_bounded_everywhere(value, indent):
    text = json.dumps(value, indent=indent, separators=(",", ":") if indent is None else None)

    def beyond(one):
        if isinstance(one, dict):
            return any(map(beyond, one.values()))
        if isinstance(one, list):
            return any(map(beyond, one))
        return isinstance(one, int) and not isinstance(one, bool) and not -(2**63) <= one < 2**64

    for given_as in (text, text.encode()):
        if beyond(value):
            with pytest.raises(ValueError, match="64 bits"):
                parsed(given_as)
        else:
            assert parsed(given_as) == value


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_of_json_is_bounded(opening):
    closing = {"[": "]", '{"a":': "}"}[opening]
    assert parsed(opening * 64 + "1" + closing * 64)
    with pytest.raises(ValueError, match="levels"):
        parsed(opening * 66 + "1" + closing * 66)
    assert len(parsed("[" + "[],{}," * 200 + "1]")) == 401


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:01+01:00", 10**9),
        ("1970-01-01t00:00:01.5z", 1_500_000_000),
        ("1970-01-01 00:00:01.000000001Z", 1_000_000_001),
        ("1970-01-01T00:00:01-00:30", 1_801 * 10**9),
    ],
)
def test_times_of_one_second_keep_their_zones(text, ns):
    assert [parse_utc(text) for _ in range(2)] == [ns, ns]


@pytest.mark.acceptance
def test_reading_an_event_costs_a_few_decodings():
    """Each event was checked against fifty kinds, which took fifty times as long as decoding it."""
    event = {"at": iso(START), "mono_ns": 1, "connection": 1, "kind": "connection.closed", "cause": "reset"}
    event |= {"errno": 104, "age_ns": 3, "evidence": {"sent": 9, "answered": 9, "outstanding": 0}}
    line = json.dumps(event).encode() + b"\n"

    def cost(read):
        took = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(5_000):
                read(line)
            took.append(time.process_time() - began)
        return min(took)

    assert cost(event_of) < 15 * cost(json.loads)
