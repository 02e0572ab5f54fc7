"""From what Terraform or OpenTofu says of a lab (`output -json`) to a study's file: its hosts and paths, and
what another study measures.
"""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathometer.errors import FathometerError
from fathometer.study.model import DEFAULT_PORT
from fathometer.study.read import parse, read_study, read_text
from fathometer.study.shape import Format, Name, Port, Text
from fathometer.study.toml_text import toml_text

OUTPUT: Final = "fathometer"
"""The output by which every root of `infra/` describes its lab."""
MAX_BYTES: Final = 4 << 20
"""More is no lab's description."""
_READ: Final = "read a lab's outputs"
_APPLY: Final = "give what `terraform output -json` prints in a root of infra/ after `terraform apply`"
_USUAL: Final = {"name": "ten-a-second", "every": "100ms", "size": 64, "for": "25s", "warm-up": 10}
"""What is measured where no other study says it: six paths, twenty times in turn, take less than an hour."""
_SSH_PORT: Final = 22
_LABS_OWN: Final = ("format", "name", "host", "scenario", "vary")
"""What a study takes from the lab, and the rest from the study that it is like."""

_Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]*$", max_length=253)]
"""An address or a name, and nothing that a shell or `ssh` would take for something else."""
_User = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=64)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Jump(_Part):
    address: _Address
    user: _User


class _Host(_Part):
    name: Name
    address: _Address
    user: _User


class _Path(_Part):
    label: Name
    source: Name = Field(alias="from")
    to: Name
    via: Text | None = None
    address: _Address | None = None
    port: Port = DEFAULT_PORT
    tags: dict[Name, Text | None] = Field(default_factory=dict)


class Lab(_Part):
    """A lab as its root's output has it."""

    format: Format
    lab: Name
    jump: _Jump | None = None
    """The one host with a public address, by which SSH goes to the others; None: it goes there directly."""
    hosts: tuple[_Host, ...] = Field(min_length=1)
    scenarios: tuple[_Path, ...] = Field(min_length=1)


def read_lab(data: bytes, where: str) -> Lab:
    """The lab of what `output -json` printed, of all outputs or of that one; raises `FathometerError`."""
    if len(data) > MAX_BYTES:
        raise FathometerError(_READ, f"{where} is larger than {MAX_BYTES >> 20} MiB", _APPLY)
    try:
        outputs = json.loads(data)
    except (ValueError, RecursionError):
        raise FathometerError(_READ, f"{where} is no JSON", _APPLY) from None
    lab: object = outputs
    if isinstance(outputs, dict) and "format" not in outputs:
        if OUTPUT not in outputs:
            raise FathometerError(_READ, f"{where} has no output `{OUTPUT}`", _APPLY)
        output = outputs[OUTPUT]
        lab = output.get("value") if isinstance(output, dict) else output
    try:
        return Lab.model_validate_json(json.dumps(lab))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in (OUTPUT, *first["loc"]))
        raise FathometerError(_READ, f"{where}: `{place}`: {first['msg']}", _APPLY) from None


def study_text(
    lab: Lab, like: Path | None, key: str | None, directory: Path, known_hosts: str | None = None
) -> str:
    """A study of the lab, to be put into `directory`; raises `FathometerError` where it would be none."""
    at_ssh = next((path for path in lab.scenarios if path.port == _SSH_PORT), None)
    if at_ssh is not None:
        raise FathometerError(
            "make a study of a lab",
            f"{lab.lab}: the path {at_ssh.label} is to be measured at port {_SSH_PORT}, which is SSH's: by it"
            " the hosts are reached, and a reflector finds it taken",
            f"give the lab another (its variable `port`: {DEFAULT_PORT}), apply that, and give its outputs",
        )
    tables: dict[str, Any] = {"format": 1, "name": lab.lab}
    tables |= {"probe": [_USUAL]} if like is None else _measured(like, directory)
    tables["host"] = [_host(lab, host, key, known_hosts) for host in lab.hosts]
    tables["scenario"] = [_scenario(path) for path in lab.scenarios]
    text = toml_text(tables)
    study, problems = parse(text, directory)
    if study is None or problems:
        what = problems[0].what
        raise FathometerError("make a study of a lab", f"{lab.lab}: {what}", problems[0].remedy)
    return text


def _measured(like: Path, directory: Path) -> Mapping[str, object]:
    """What a study measures, and how often and when. Its policies' files are named from `directory`."""
    read_study(like)
    tables = {name: value for name, value in tomllib.loads(read_text(like)).items() if name not in _LABS_OWN}
    for policy in tables.get("policy", ()):
        policy["file"] = os.path.relpath(like.parent / policy["file"], directory)
    return tables


def _host(lab: Lab, host: _Host, key: str | None, known_hosts: str | None) -> Mapping[str, object]:
    ssh = {"address": host.address, "user": host.user}
    if key is not None:
        ssh["key"] = key
    if known_hosts is not None:
        ssh["known-hosts"] = known_hosts
    if lab.jump is not None:
        ssh["jump"] = _jump(lab.jump)
    return {"name": host.name, "ssh": ssh}


def _jump(jump: _Jump) -> str:
    # `ssh` wants brackets around an address of IPv6.
    address = f"[{jump.address}]" if ":" in jump.address else jump.address
    return f"{jump.user}@{address}"


def _scenario(path: _Path) -> Mapping[str, object]:
    scenario: dict[str, object] = {"label": path.label, "from": path.source, "to": path.to}
    if path.via is not None:
        scenario["via"] = path.via
    if path.address is not None:
        scenario["address"] = path.address
    if path.port != DEFAULT_PORT:
        scenario["port"] = path.port
    # An output writes null where a region has no zones.
    tags = {name: value for name, value in path.tags.items() if value is not None}
    return {**scenario, "tags": tags} if tags else scenario


def known_hosts_commands(lab: Lab, key: str | None) -> list[str]:
    """What makes the keys of new hosts known to `ssh`, which a study does for nobody."""
    addresses = [host.address for host in lab.hosts]
    if lab.jump is None:
        return [f"{shlex.join(['ssh-keyscan', *addresses])} >> ~/.ssh/known_hosts"]
    identity = ["-i", key] if key is not None else []
    # Brackets belong into `jump` alone: here they would be a part of the name.
    to = f"{lab.jump.user}@{lab.jump.address}"
    through = shlex.join(["ssh", *identity, to, "ssh-keyscan", *addresses])
    return [
        f"{shlex.join(['ssh-keyscan', lab.jump.address])} >> ~/.ssh/known_hosts",
        f"{through} >> ~/.ssh/known_hosts",
    ]
