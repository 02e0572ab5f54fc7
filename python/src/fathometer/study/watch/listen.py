"""Where the page may be asked for: the address to listen on, and the names by which it may be called."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final

from fathometer.errors import ExitCode, FathometerError

LOOPBACK: Final = "127.0.0.1"
_LISTEN: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]*)):(?P<port>\d{1,5})")
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+))(?::\d{1,5})?")


def listening(text: str) -> tuple[str, int]:
    """Address and port of ``:8080``, ``192.0.2.7:8080``, ``[::1]:8080``; loopback where none is named."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise FathometerError(
            "watch a study",
            f'--http "{text}" is no address to listen on',
            "write it as in :8080, or 192.0.2.7:8080 to let others see it",
            exit_code=ExitCode.USAGE,
        )
    return match["six"] or match["name"] or LOOPBACK, int(match["port"])


def own_names() -> frozenset[str]:
    """What this machine is called."""
    return frozenset({"localhost", socket.gethostname().lower()})


def may_be_called(host: str, names: frozenset[str]) -> bool:
    """Whether a ``Host`` header names us: by an address, or by a name of our own.

    A page of another site whose name was made to point here (DNS rebinding) asks by that name, and the
    browser would let it read what we answer. An address cannot be pointed elsewhere. The port may be another
    one, as behind ``ssh -L``.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = (match["six"] or match["name"]).lower()
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
