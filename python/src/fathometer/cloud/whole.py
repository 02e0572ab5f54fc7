"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Writes a file that only its owner reads, and that is on disk when this returns. Raises `OSError`; what
    was there before is there then, and nothing else.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        # Anybody may have made a file of that name, or a link, where others write too.
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        with new.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
