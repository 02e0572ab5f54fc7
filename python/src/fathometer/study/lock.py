"""One runner a study."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError

LOCK: Final = ".lock"


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Holds a study's directory, so that two of us do not run it at once; the file names who does."""
    with (output / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FathometerError(
                "run a study", f"{output} is being run already", "wait for it, or `fathom study stop` it"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
