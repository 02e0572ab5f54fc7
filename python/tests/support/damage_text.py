"""Text as a tool writes it, made into what none writes."""

import os
import re
import time
import unicodedata

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("FATHOM_FUZZ_SECONDS", "0"))
"""For how long each of these tests goes on, beyond what `make test` has time for."""
TOKENS = (
    *(b"-1", b"0", b"1e999999", b"1e400", b"-0.0", b"nan", b"inf", b"1.2.3", b"9223372036854775807"),
    *(b"9223372036854775808", b"18446744073709551616", b"10000000000000000000", b"9" * 400, b"9" * 5_000),
    *(
        b"",
        b" ",
        b"\n" * 300,
        b"\t",
        b",",
        b";",
        b'"',
        b"'",
        b"\0",
        b"\r",
        b"\x1b[31m",
        b"\xff\xfe",
        b"\xed\xa0\x80",
    ),
    *(b"\xe2\x80\xa8", b"null", b"true", b"{}", b"[]", b"[" * 300, b'{"a":' * 300, b'"text"', b"[[1,2],[3]]"),
    *(b"icmp_seq=2000000000", b"time=", b"packets transmitted, 0 received", b"CONNECTION DROP", b"=", b":"),
)
_NUMBER = re.compile(rb"\d[\d.]*")
_WORD = re.compile(rb"[A-Za-z_]{2,}")


def each_of(texts, check, examples):
    """Checks what was changed by chance: so many in `make test`, else for `SECONDS`."""

    @settings(
        max_examples=1_000 if SECONDS else examples,
        derandomize=not SECONDS,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged(texts))
    def each(data):
        check(data)

    end = time.monotonic() + SECONDS
    each()
    while time.monotonic() < end:
        each()


STEERS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode that do something to a terminal or a line. What is not assigned only looks odd."""


def told_well(line):
    """Whether it is an error as people may be shown it."""
    return len(line) < 1_500 and not any(unicodedata.category(letter) in STEERS for letter in line)


@st.composite
def damaged(draw, texts):
    """One of `texts` with a few places changed: numbers, words, lines, bytes."""
    data = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 5))):
        data = _once(draw, data)
    return data


def _once(draw, data):
    kind = draw(st.sampled_from(("number", "word", "insert", "cut", "double", "flip", "lines")))
    token = draw(st.sampled_from(TOKENS))
    if kind in {"number", "word"}:
        found = list((_NUMBER if kind == "number" else _WORD).finditer(data))
        if not found:
            return data + token
        place = found[draw(st.integers(0, len(found) - 1))]
        return data[: place.start()] + token + data[place.end() :]
    at = draw(st.integers(0, len(data)))
    length = draw(st.integers(0, 200))
    match kind:
        case "insert":
            return data[:at] + token + data[at:]
        case "cut":
            return data[:at] + data[at + length :]
        case "double":
            return data[: at + length] + data[at : at + length] * 3 + data[at + length :]
        case "flip":
            return data[:at] + bytes(b ^ 1 << length % 8 for b in data[at : at + 1]) + data[at + 1 :]
    lines = data.splitlines(keepends=True)
    return b"".join(draw(st.permutations(lines))) if len(lines) < 40 else data
