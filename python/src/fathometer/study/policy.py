"""A policy in a study: an application that is run on each scenario, as ``fathom probe --as-client``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from fathometer.study.shape import Duration, Name, StudyTable, Text


class Policy(StudyTable):
    """An application under a policy; what a `Probe` says of itself too is said here of applications."""

    name: Name
    file: Text
    """The policy's file (docs/policies.md), from the study file's directory."""
    for_ns: Duration = Field(alias="for")
    rate: float = Field(default=1.0, ge=0.001, le=100_000, allow_inf_nan=False)
    """Requests a second, whatever becomes of those before."""

    mode: ClassVar[Literal["tcp-client"]] = "tcp-client"
    protocol: ClassVar[Literal["tcp"]] = "tcp"
    count: ClassVar[None] = None
    sizes: ClassVar[None] = None

    @property
    def interval_ns(self) -> int:
        """From one request to the next, as `fathom` has it."""
        return round(1e9 / self.rate)

    @property
    def per_second(self) -> float:
        """Requests."""
        return self.rate

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """Its file says how large a request is."""
        return (0,)
