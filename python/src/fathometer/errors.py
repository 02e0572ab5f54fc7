"""The one error that users meet, and the exit codes.

| code | meaning |
|---|---|
| 0 | it did what was asked |
| 1 | it could not: a recording is damaged or missing, an input is not understood, a check found something |
| 2 | the command line cannot be used as it stands |
| 3 | `fathom report`: a goal is not met, or a path became worse than in the baseline |
| 4 | `fathom report`: no goal is known to be missed, but one cannot be decided or a path not be compared |

The first three are those of the Rust binary (``crates/fathom/src/exit.rs``), which hands some of its commands
to us.
"""

from __future__ import annotations

from enum import IntEnum

from fathometer.clean import cleaned


class ExitCode(IntEnum):
    """How a command ended; see the table above."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISSED = 3
    UNDECIDED = 4


class FathometerError(Exception):
    """Something that the user can mend: the operation, the object and the remedy, told in one line.

    Foreign exceptions (of DuckDB, Arrow, the operating system) are turned into this one where they arise;
    whatever else reaches ``cli.main`` is a bug of ours.

    Attributes:
        operation: what was being done, as a verb phrase: ``open recording``.
        object: what it was done to, with what is wrong with it: ``/data/run1: recording.json is missing``.
        remedy: what the user can do about it.
        exit_code: ``USAGE`` where the command line is at fault, else ``FAILED``.
    """

    def __init__(
        self,
        operation: str,
        object: str,  # noqa: A002 - the word of our house rule
        remedy: str,
        *,
        exit_code: ExitCode = ExitCode.FAILED,
    ) -> None:
        super().__init__(operation, object, remedy)
        self.operation = operation
        self.object = object
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        line = f"cannot {self.operation}: {self.object}; {self.remedy}"
        return cleaned(" ".join(line.split()))
