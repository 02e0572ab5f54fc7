"""The place of a lab in its cloud, and the look-up of what is left there by the lab's tag.

The clouds' own commands are asked, as a resource that a crash of the tool left is in no state.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fathometer.cloud.planned import LAB_TAG, Plan
from fathometer.errors import FathometerError

SUBSCRIPTION: Final = "ARM_SUBSCRIPTION_ID"
ACCOUNT: Final = "account"
"""The variable of AWS's labs by which the provider refuses a login of any other account."""
_LOGIN: Final = ["aws", "sts", "get-caller-identity", "--query", "Account", "--output", "text"]
_OWNERS: Final = {"azure": "subscription", "aws": ACCOUNT, "gcp": "project"}
"""The kinds of owner. On AWS and Google it is also the name of the variable."""
_SET_OWNER: Final = {
    "azure": f"set {SUBSCRIPTION}",
    "aws": f"see that `{shlex.join(_LOGIN[:3])}` works, or add --var {ACCOUNT}=ID",
    "gcp": "add --var project=ID",
}
_LONGEST_S: Final = 120
_LOOK: Final = "find out what is left of the lab"


@dataclass(frozen=True)
class Where:
    """The place that a lab is, or was, made in."""

    cloud: str
    owner: str | None = None
    """The subscription, account or project."""
    regions: tuple[str, ...] = ()
    """Those of AWS, whose tags are listed by region."""
    tags: tuple[str, ...] = ()
    """The names that the lab had."""

    def __str__(self) -> str:
        owner = f"the {_OWNERS.get(self.cloud, 'place')} {self.owner}"
        return owner + (f" ({', '.join(self.regions)})" if self.regions else "")

    def joined(self, new: Where) -> Where:
        """Both places: a lab that moved is looked for in each."""
        regions = dict.fromkeys((*self.regions, *new.regions))
        return Where(new.cloud, new.owner, tuple(regions), tuple(dict.fromkeys((*self.tags, *new.tags))))


@dataclass(frozen=True)
class Found:
    """The cloud's answer. It is the only source of the words "nothing of it is left"."""

    where: Where
    things: tuple[str, ...]

    def __str__(self) -> str:
        if self.where.cloud == "gcp":
            return f"no host of it is left in {self.where}; networks and balancers were not looked up"
        return f"nothing of it is left in {self.where}"


def owner_now(cloud: str) -> str | None:
    """The subscription or account that the environment names."""
    if cloud == "azure":
        return os.environ.get(SUBSCRIPTION) or None
    if cloud != "aws":
        return None
    code, account, _ = _said(_LOGIN)
    return account.strip() if code == 0 and account.strip().isdigit() else None


def must_be_same(where: Where) -> None:
    """Raises `FathometerError` where the environment names another owner: there the lab seems gone."""
    now = owner_now(where.cloud)
    if where.owner and now and where.owner.casefold() != now.casefold():
        kind = _OWNERS[where.cloud]
        raise FathometerError(
            "use the lab",
            f"it was made in the {kind} {where.owner}, and the environment names {now}",
            f"set {SUBSCRIPTION}={where.owner}" if where.cloud == "azure" else "use a login of that account",
        )


def place_of(cloud: str, document: Mapping[str, Any], plan: Plan, owner: str | None) -> Where:
    """The place that a plan makes a lab in; `owner`: the one that is known already."""
    variables = document.get("variables") or {}

    def value(name: str) -> str | None:
        text = (variables.get(name) or {}).get("value")
        return str(text) if text else None

    owner = (None if cloud == "azure" else value(_OWNERS.get(cloud, ""))) or owner
    regions: list[str | None] = []
    if cloud == "aws":
        regions = [value("region"), value("other_region"), *(r.values.get("region") for r in plan.after)]
    tags = [resource.tag for resource in plan.after]
    return Where(cloud, owner, *(tuple(dict.fromkeys(v for v in one if v)) for one in (regions, tags)))


def must_be_known(where: Where, operation: str) -> None:
    """Raises `FathometerError` where the owner is unknown, as no look-up would prove anything."""
    if where.owner is None and where.cloud in _OWNERS:
        what = f"the {_OWNERS[where.cloud]} of the lab is unknown"
        raise FathometerError(operation, what, _SET_OWNER[where.cloud])


def look(where: Where) -> Found:
    """Lists what bears the lab's tags; raises `FathometerError` where that cannot be found out."""
    must_be_known(where, _LOOK)
    if not (commands := commands_for(where)):
        what = "how to list what has its tag is unknown here"
        raise FathometerError(_LOOK, what, f"look in the cloud's portal for the tag {LAB_TAG}")
    if where.cloud == "aws" and (login := owner_now("aws")) != where.owner:
        what = f"it was made in the account {where.owner}, and the login's account is {login or 'unknown'}"
        raise FathometerError(_LOOK, what, f"see that `{shlex.join(_LOGIN[:3])}` shows that account")
    things: dict[str, None] = {}
    for command in commands:
        code, out, problem = _said(command)
        if code != 0:
            raise FathometerError(_LOOK, problem or "no answer", f"look yourself: `{shlex.join(command)}`")
        things |= dict.fromkeys(word for word in out.split() if word != "None")
    return Found(where, tuple(things))


def commands_for(where: Where) -> list[list[str]]:
    """The commands that list a lab's resources, a word for each. Google lists only hosts by a label."""
    commands: list[list[str]] = []
    for tag in where.tags:
        if where.cloud == "azure":
            query = ["--query", "[].id", "-o", "tsv", "--subscription", str(where.owner)]
            kinds = ("group", "resource")
            commands += [["az", kind, "list", "--tag", f"{LAB_TAG}={tag}", *query] for kind in kinds]
        elif where.cloud == "aws":
            call = ["aws", "resourcegroupstaggingapi", "get-resources"]
            call += ["--tag-filters", f"Key={LAB_TAG},Values={tag}"]
            call += ["--query", "ResourceTagMappingList[].ResourceARN", "--output", "text"]
            commands += [[*call, "--region", region] for region in where.regions]
        elif where.cloud == "gcp":
            call = ["gcloud", "compute", "instances", "list", f"--project={where.owner}"]
            commands += [[*call, f"--filter=labels.{LAB_TAG}={tag}", "--format=value(selfLink)"]]
    return commands


def _said(command: list[str]) -> tuple[int, str, str]:
    """The exit code of a cloud's command, its output, and its problem in one line."""
    if shutil.which(command[0]) is None:
        return 1, "", f"`{command[0]}` is not installed"
    try:
        done = subprocess.run(  # noqa: S603 - one of the commands above
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_LONGEST_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", str(error)
    return done.returncode, done.stdout, next(iter(done.stderr.strip().splitlines()[-1:]), "")
