"""Where a lab is: its subscription, account or project, its regions, and its names in tags.

It is noted before anything is made. A later call may have another environment, and what it asks must be the
same cloud. A lab that was made in two regions, or under two names, is looked for in all of them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.planned import Plan, Resource
from fathometer.errors import FathometerError

SUBSCRIPTION: Final = "ARM_SUBSCRIPTION_ID"
_ACCOUNT: Final = ["aws", "sts", "get-caller-identity", "--query", "Account", "--output", "text"]
_SEE_LOGIN: Final = f"see that `{shlex.join(_ACCOUNT[:3])}` works"
_LONGEST_S: Final = 60
_USUAL_NAME: Final = "fathom"
"""The variable `name` of our labs, where nobody said another."""
_IDS: Final = (
    re.compile(r"/subscriptions/([^/]+)/", re.IGNORECASE),
    re.compile(r"arn:[\w-]+:\w+:[^:]*:(\d+):"),
)
"""In which subscription or account a thing is, by its own id."""
_KINDS: Final = {"azure": "subscription", "aws": "account", "gcp": "project"}
ACCOUNT: Final = "account"
"""The variable of AWS's labs by which the provider refuses the login of any other account."""
_OWNERS: Final = {"aws": ACCOUNT, "gcp": "project"}
"""The variable that says whose a lab is."""


@dataclass(frozen=True)
class Where:
    """All that is known of it."""

    cloud: str
    owner: str | None = None
    """The subscription, account or project."""
    regions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people: begins with a blank, and is empty where nothing is known."""
        owner = f" in the {_KINDS[self.cloud]} {self.owner}" if self.owner and self.cloud in _KINDS else ""
        return owner + (f" (asked: {', '.join(self.regions)})" if self.regions else "")


def known(place: LabPlace) -> Where:
    """What the journal says of a lab's place."""
    cloud = str((place.begun or {}).get("cloud"))
    noted = [entry for entry in place.entries if entry.get("kind") == "where"]
    owner = next((str(e["owner"]) for e in reversed(noted) if e.get("owner")), None)
    regions = [str(region) for entry in noted for region in entry.get("regions") or ()]
    tags = [str(entry["tag"]) for entry in noted if entry.get("tag")]
    # A lab of an earlier version noted its tag when it was agreed to.
    tags += [str(e["tag"]) for e in place.entries if e.get("kind") == "approved" and e.get("tag")]
    settings = place.settings
    if not tags and settings:
        tags = _tag_of_ours(place.begun or {}, settings)
    if not noted:
        regions = _regions(cloud, {name: {"value": value} for name, value in settings.items()}, ())
    if cloud == "gcp":
        owner = owner or settings.get("project")
    return Where(cloud, owner, tuple(dict.fromkeys(regions)), tuple(dict.fromkeys(tags)))


def _tag_of_ours(begun: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """What a lab bears that is one of ours, as its settings have it: its journal may have lost its end."""
    if begun.get("infra") is not None or "root" not in begun:
        return []
    return [f"{settings.get('name', _USUAL_NAME)}-{begun['root']}"]


def of_plan(before: Where, document: Mapping[str, Any], plan: Plan, *, may_exist: bool) -> Where:
    """Where a plan makes a lab of which something `may_exist` where it was `before`; raises `FathometerError`
    where that was elsewhere.
    """
    variables = document.get("variables") or {}
    # The provider let nobody of another account plan it.
    owner = (variables.get(_OWNERS.get(before.cloud)) or {}).get("value")
    if owner is None and before.cloud != "gcp":
        owner = owner_now(before.cloud)
    # Before anything was made it may still be elsewhere.
    if may_exist:
        _must_be_same(before, owner, "make the lab")
    regions = _regions(before.cloud, variables, plan.after)
    return Where(before.cloud, owner or before.owner, tuple(regions), (plan.tag,) if plan.tag else ())


def both(one: Where, other: Where) -> Where:
    """All of where two of a lab's places are."""
    return Where(
        other.cloud,
        other.owner or one.owner,
        tuple(dict.fromkeys((*one.regions, *other.regions))),
        tuple(dict.fromkeys((*one.tags, *other.tags))),
    )


def note(place: LabPlace, new: Where) -> None:
    """Notes where a lab is about to be made. What was only planned under another name is no part of it."""
    before = known(place)
    if not place.has("where") or (
        new.owner != before.owner
        or not {*new.regions} <= {*before.regions}
        or not {*new.tags} <= {*before.tags}
    ):
        place.note("where", owner=new.owner, regions=list(new.regions), tag=next(iter(new.tags), None))


def kind(cloud: str) -> str:
    """What owns a lab there, for people."""
    return _KINDS.get(cloud, "place")


def note_things(place: LabPlace, things: Iterable[Resource]) -> None:
    """Notes in which subscription or account things are, if nobody said so before."""
    if known(place).owner is not None:
        return
    for thing in things:
        for name in ("id", "arn"):
            text = str(thing.values.get(name) or "")
            in_id = next((match for pattern in _IDS if (match := pattern.match(text))), None)
            if in_id is not None:
                place.note("where", owner=in_id[1], regions=[], tag=None)
                return


def must_be_asked(where: Where, operation: str) -> None:
    """Raises `FathometerError` where the environment names another place than this."""
    _must_be_same(where, owner_now(where.cloud), operation)


def must_prove(made: Where, operation: str, again: str, forget: str) -> None:
    """Raises `FathometerError` where an answer that there is nothing proves nothing: nobody knows in which
    subscription or account a lab was made, or which one was asked. `forget`: what whoever looked does then.
    """
    owns = kind(made.cloud)
    today = owner_now(made.cloud)
    # It may be another by now: a removal takes minutes, and a login may be taken in between.
    _must_be_same(made, today, operation)
    if made.owner is None:
        raise FathometerError(
            operation,
            f"in which {owns} it was made is not known; the {owns} {today or 'of your login'}, which was"
            " asked, has nothing of it",
            f"with a login of each other {owns} that it may be in, {again}; where you see yourself that"
            f" nothing of it is left, {forget}",
        )
    # `az` was told the subscription; `aws` asks whatever its login has.
    if today is None and made.cloud == "aws":
        raise FathometerError(
            operation,
            f"it was made in the {owns} {made.owner}, and which {owns} the login is of could not be found"
            " out",
            f"{_SEE_LOGIN}, then {again}",
        )


def must_be_guarded(where: Where, variables: Collection[str], operation: str, again: str) -> None:
    """Raises `FathometerError` where a tool may work with a login of another account, to which all of a lab
    seems gone: files of an earlier version have no variable by which the provider refuses it.
    """
    if where.cloud != "aws" or where.owner is None or ACCOUNT in variables or owner_now(where.cloud):
        return
    raise FathometerError(
        operation,
        f"it was made in the account {where.owner}, and which account the login is of could not be found out",
        f"{_SEE_LOGIN}, then {again}",
    )


def environment(where: Where) -> dict[str, str]:
    """What a tool needs to work in a lab's place, where nothing else says it."""
    if not where.owner:
        return {}
    if where.cloud == "aws":
        # The settings' own value goes before it. It may have been learnt after these were written.
        return {f"TF_VAR_{ACCOUNT}": where.owner}
    return {SUBSCRIPTION: where.owner} if where.cloud == "azure" and not os.environ.get(SUBSCRIPTION) else {}


def owner_now(cloud: str) -> str | None:
    """The subscription or account that the environment names."""
    if cloud == "azure":
        return os.environ.get(SUBSCRIPTION) or None
    if cloud != "aws" or shutil.which(_ACCOUNT[0]) is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - the command above
            _ACCOUNT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_LONGEST_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    account = done.stdout.strip()
    return account if done.returncode == 0 and account.isdigit() else None


def is_elsewhere(where: Where, owner: str | None) -> bool:
    """Whether a subscription, account or project is known to be another than this one's."""
    return where.owner is not None and owner is not None and where.owner.casefold() != owner.casefold()


def _must_be_same(where: Where, owner: str | None, operation: str) -> None:
    if not is_elsewhere(where, owner):
        return
    kind = _KINDS[where.cloud]
    remedy = {
        "azure": f"set {SUBSCRIPTION}={where.owner}, or unset it",
        "aws": f"use a profile or a login of the account {where.owner}",
    }.get(where.cloud, f"go on with --var project={where.owner}, or begin another with --directory")
    raise FathometerError(
        operation, f"it was made in the {kind} {where.owner}, and the environment names {owner}", remedy
    )


def _regions(cloud: str, variables: Mapping[str, Any], after: Iterable[Resource]) -> list[str]:
    """Those of AWS, whose tags are asked for by region: as variables have them, defaults too, and things."""
    if cloud != "aws":
        return []
    named = [(variables.get(name) or {}).get("value") for name in ("region", "other_region")]
    named += [thing.values.get("region") for thing in after]
    return list(dict.fromkeys(str(region) for region in named if region))
