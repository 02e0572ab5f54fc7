"""Several things at the same moments, of which one that fails ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable

from fathometer.errors import FathometerError


async def together(works: Iterable[Coroutine[object, object, None]]) -> None:
    """Does them all; raises the first `FathometerError` of them by itself, and not as one of a group."""
    failed: FathometerError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except* FathometerError as several:
        error: BaseException = several
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, FathometerError):
            failed = error
    # Not in there: what is raised there becomes one of a group in Python 3.11.2, which is Debian 12's.
    if failed is not None:
        raise failed
