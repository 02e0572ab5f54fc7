"""What the tables of a study file are made of: durations, sizes, names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from fathometer.study.words import (
    DURATION_PATTERN,
    RATE_PATTERN,
    SIZE_PATTERN,
    bits_per_s,
    duration_ns,
    size_bytes,
)


def _rate(text: object) -> str:
    bits_per_s(text)
    return str(text)


Duration = Annotated[
    int,
    BeforeValidator(duration_ns),
    WithJsonSchema(
        {"type": "string", "pattern": DURATION_PATTERN, "description": "as in 500ms, 1s, 1m30s, 11h"}
    ),
]
Size = Annotated[
    int,
    BeforeValidator(size_bytes),
    Field(ge=1, le=16 << 20),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "integer", "minimum": 1, "maximum": 16 << 20},
                {"type": "string", "pattern": SIZE_PATTERN},
            ],
            "description": "bytes each way, as in 64, 1KiB, 1MB; at most 16MiB",
        }
    ),
]
Memory = Annotated[
    int,
    BeforeValidator(size_bytes),
    Field(ge=16 << 20, le=1 << 50),
    WithJsonSchema(
        {"type": "string", "pattern": SIZE_PATTERN, "description": "as in 256MiB, 1GiB; at least 16MiB"}
    ),
]
Rate = Annotated[
    str,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "pattern": RATE_PATTERN, "description": "as in 200Mbit, 1Gbit, max"}),
]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
"""A name that can be a directory's."""
FilledName = Annotated[
    Name,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z0-9{][A-Za-z0-9_.{}-]*$",
            "description": "a name; factors of [[vary]] in braces",
        }
    ),
]
"""A name that may have factors in it, which are filled in before it is one."""


def _no_bool(value: object) -> object:
    """Of Python's numbers `true` is 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("literal_error", "Input should be 1", {"expected": "1"})
    return value


Format = Annotated[Literal[1], BeforeValidator(_no_bool)]
"""Of a file whose format has one version so far."""
Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]*$")]
Port = Annotated[int, Field(ge=1, le=65_535)]


class StudyTable(BaseModel):
    """A table of a study file: its keys are those that are named, and no others."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda n: n.replace("_", "-")
    )
