"""Which reflector of another study, or of another host of this one, has a port that a reflector was to have.

A host's jobs say it: each left word of which process it is (`fathom-host`, "On disk"). Of other programs, and
of jobs of other users, nothing is known here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from fathometer.study.model import SshHost
from fathometer.study.ssh.answers import BadAnswer
from fathometer.study.ssh.trouble import by_hand

MOST: Final = 64 << 10
"""Bytes of an answer that are looked at."""
_JOB: Final = re.compile(
    r"\.fathom/studies/([A-Za-z0-9]{1,64})/([A-Za-z0-9][\w.-]{0,63})/jobs/reflector-([a-z]+)-(\d+)", re.ASCII
)
_STAT: Final = re.compile(r"(\d{1,9}) \(.*\) ([A-Za-z])((?: -?\d+)*) ?", re.ASCII)
_START: Final = 18
"""Fields of `/proc/PID/stat` between the state, the third, and the start time, the 22nd (`proc(5)`)."""
_UDP: Final = frozenset({"udp", "stamp"})


@dataclass(frozen=True)
class Holder:
    """A reflector that runs there."""

    study: str
    host: str
    """As that study calls it."""
    protocol: str
    pid: int

    def is_in_the_way_of(self, protocol: str) -> bool:
        """Whether it listens for the same kind of packets."""
        return (self.protocol in _UDP) == (protocol in _UDP)


def read_holders(answer: bytes) -> list[Holder]:
    """The answer to ``shell.reflectors``: those that still run. Raises `BadAnswer`."""
    boot, *lines = [line for line in answer[:MOST].decode(errors="replace").splitlines() if line] or [""]
    unknown = BadAnswer("it does not say which reflectors run there")
    if len(lines) % 3:
        raise unknown
    holders = []
    for job, word, stat in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, process = _JOB.fullmatch(job), _STAT.fullmatch(stat)
        try:
            started = json.loads(word)
            identity = (started["pid"], started["start"], started["boot"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise unknown from None
        fields = process[3].split() if process else []
        if name is None or process is None or len(fields) <= _START:
            raise unknown
        # A number may be another process's by now; one that waits to be collected holds nothing.
        if process[2] not in "ZXx" and identity == (int(process[1]), int(fields[_START]), boot):
            holders.append(Holder(name[1], name[2], name[3], int(process[1])))
    return holders


def remedy(holder: Holder, study: str, ssh: SshHost) -> str:
    """What it is, and exactly how it is ended. `study` is the one that wanted the port."""
    if holder.study == study:
        return (
            f'it is the reflector of host "{holder.host}" of this study, which is the same machine: '
            "give one of the two another `port`"
        )
    kill = f"{by_hand(ssh)} kill {holder.pid}"
    return (
        f"it is the reflector of another study of ours, {holder.study} (process {holder.pid} there): while"
        " that measures, wait for its end, or choose another `port`. If its runner was killed, the same"
        f" `study run` goes on with it, `fathom study stop` with its --output ends it, or `{kill}`"
    )
