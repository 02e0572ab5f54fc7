"""Which binary a host gets: by the machine that its ELF header names, and the host's own (``uname -m``)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError

_MACHINES: Final = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
"""``e_machine`` (System V ABI, chapter 4, and its supplements) by ``uname -m`` there."""
_PT_INTERP: Final = 3
"""The program header that asks for a dynamic loader; a static binary has none."""
_SAME: Final = {"i386": "i686", "i586": "i686", "armv8l": "armv7l", "arm64": "aarch64", "amd64": "x86_64"}


@dataclass(frozen=True)
class Binary:
    """A ``fathom`` that can be copied."""

    path: Path
    machine: str
    """As ``uname -m`` has it."""
    static: bool
    sha256: str


def read_binary(path: Path) -> Binary:
    """What a file is by its ELF header (System V ABI, "ELF header" and "Program header"); raises
    `FathometerError`.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FathometerError("copy a binary", f"{path}: {error.strerror}", "check --remote-binary") from None
    if raw[:4] != b"\x7fELF" or len(raw) < 64:
        raise FathometerError("copy a binary", f"{path} is no Linux program", "check --remote-binary")
    order = "<" if raw[5] == 1 else ">"
    wide = raw[4] == 2
    (machine,) = struct.unpack_from(f"{order}H", raw, 18)
    try:
        static = _PT_INTERP not in _program_headers(raw, order, wide)
    except struct.error:
        raise FathometerError("copy a binary", f"{path} is cut short", "build it anew") from None
    name = _MACHINES.get(machine, f"machine {machine}")
    return Binary(path, name, static, hashlib.sha256(raw).hexdigest())


def _program_headers(raw: bytes, order: str, wide: bool) -> list[int]:
    offset = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", raw, 32 if wide else 28)[0]
    size, count = struct.unpack_from(f"{order}HH", raw, 54 if wide else 42)
    return [struct.unpack_from(f"{order}I", raw, offset + i * size)[0] for i in range(count)]


def binaries(named: Iterable[Path], running: Path) -> dict[str, Binary]:
    """The binaries by machine: those that were named, else the one that runs here, which must be static then;
    one that was named is taken as it is.
    """
    given = [read_binary(path) for path in named]
    if not given:
        own = read_binary(running)
        if not own.static:
            raise FathometerError(
                "copy a binary",
                f"{running} is not static, and may not run on another host",
                "name a static one with --remote-binary (`make dist` builds it)",
            )
        given = [own]
    by_architecture: dict[str, Binary] = {}
    for binary in given:
        if binary.machine in by_architecture:
            raise FathometerError(
                "copy a binary",
                f"{by_architecture[binary.machine].path} and {binary.path} are both for {binary.machine}",
                "name one --remote-binary for each machine",
            )
        by_architecture[binary.machine] = binary
    return by_architecture


def binary_for(host: str, machine: str, given: dict[str, Binary]) -> Binary:
    """The one for a host's machine; raises `FathometerError` with both machines' names."""
    fitting = given.get(_SAME.get(machine, machine))
    if fitting is None:
        have = ", ".join(f"{b.path} is for {b.machine}" for b in given.values())
        raise FathometerError(
            "copy a binary",
            f'host "{host}" is a machine of {machine}, and {have}',
            "name one for it, too, with --remote-binary",
        )
    return fitting
