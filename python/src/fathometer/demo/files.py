"""The demo's study and network: package data, played slower or faster."""

from __future__ import annotations

import re
import socket
from importlib import resources
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.words import duration_ns, duration_text

STUDY: Final = "study.toml"
REGION: Final = "region.toml"
LOOPBACK: Final = "loopback.toml"
LENGTH_NS: Final = 90_000_000_000
"""How long the study measures as it is written."""
QUICK_NS: Final = 24_000_000_000
SHORTEST_NS: Final = 20_000_000_000
"""Below this a freeze is hardly longer than a stall must be."""

_SCALED: Final = re.compile(r'^(at|brownout|freeze|redirect|for|user-timeout)( = )"(\w+)"', re.MULTILINE)
"""What belongs to the story: when it happens and how long it takes, but not how far apart hosts are."""


def paced(text: str, length_ns: int) -> str:
    """A file's text with its story in `length_ns` instead of 90 s."""

    def scaled(match: re.Match[str]) -> str:
        ns = duration_ns(match[3]) * length_ns // LENGTH_NS
        # Whole milliseconds, as nobody reads more.
        return f'{match[1]}{match[2]}"{duration_text(max(1, ns // 1_000_000) * 1_000_000)}"'

    return _SCALED.sub(scaled, text)


def write_region(directory: Path, length_ns: int) -> Path:
    """Writes study and network, which can be run by hand from there, too; tells the study's path."""
    for name in (REGION, STUDY):
        _write(directory / name, paced(_text(name), length_ns))
    return directory / STUDY


def write_loopback(directory: Path, length_ns: int) -> Path:
    """Writes the study of loopback, on a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    text = paced(_text(LOOPBACK), length_ns).replace("port = 7007", f"port = {port}")
    _write(directory / LOOPBACK, text)
    return directory / LOOPBACK


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FathometerError(
            "run the demo", f"{path}: {error.strerror}", "choose another --output"
        ) from None
