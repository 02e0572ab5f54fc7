"""``--decimal``: the decimal sign of a table. `import`, `changes` and `check` take it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DecimalSign(StrEnum):
    """The decimal sign of numbers such as 1,250."""

    COMMA = "comma"
    POINT = "point"


Decimals = Annotated[
    DecimalSign | None,
    typer.Option(
        "--decimal",
        metavar="SIGN",
        help="What stands before decimals, where the numbers of a table leave it open: comma or point.",
    ),
]


def sign_of(decimal: DecimalSign | None) -> str | None:
    """The sign itself; None: the numbers decide."""
    return None if decimal is None else "," if decimal is DecimalSign.COMMA else "."
