"""What is left of a lab in its cloud, by the tag that everything of it bears.

The clouds' own commands are asked, as what a crash of OpenTofu or Terraform left is in no state.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fathometer.clean import cleaned
from fathometer.cloud.planned import LAB_TAG
from fathometer.cloud.where import Where
from fathometer.cloud.work import Work, tell
from fathometer.counts import are, count
from fathometer.errors import FathometerError

LONGEST_S: Final = 120
FIND_OUT: Final = "find out whether something is left"
_SLOW: Final = {"aws": ", and AWS lists for about an hour what is gone"}
"""Clouds whose list lags behind: https://github.com/boto/boto3/issues/1704."""


@dataclass(frozen=True)
class Left:
    """What was found. `problem` says why it could not be looked for (None: it was)."""

    things: tuple[str, ...] = ()
    problem: str | None = None


def look(where: Where) -> Left:
    """Asks the cloud, for each name that the lab had and in each region."""
    if not where.tags:
        return Left(problem=f"nothing of this lab says its tag {LAB_TAG}")
    commands = [command for tag in where.tags for command in commands_for(where, tag)]
    if not commands:
        return Left(problem=f"how to list what bears a tag in the cloud `{where.cloud}` is not known here")
    if where.cloud == "aws" and not where.regions:
        return Left(
            problem="in which regions it was made is not known; look in each: " + shlex.join(commands[0])
        )
    things: dict[str, None] = {}
    for command in commands:
        if shutil.which(command[0]) is None:
            return Left(problem=f"`{command[0]}` is not installed; look yourself: {shlex.join(command)}")
        try:
            done = subprocess.run(  # noqa: S603 - one of the commands below
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=LONGEST_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Left(problem=f"{shlex.join(command)}: {error}")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return Left(problem=f"{shlex.join(command)}: {last}")
        things |= dict.fromkeys(word for word in done.stdout.split() if word != "None")
    return Left(tuple(things))


def nothing_left(where: Where) -> str:
    """What may be said where nothing was found."""
    if where.cloud == "gcp":
        words = f"no host of it is left{where.words}, nothing in its state"
        return f"{words}; what else bears its label was not looked for"
    return f"nothing of it is left{where.words}"


def commands_for(where: Where, tag: str) -> list[list[str]]:
    """What lists it, one thing a word; of Google's things the hosts alone, as labels have no common list."""
    if where.cloud == "azure":
        # `az` by itself asks the subscription that it was last told to.
        there = ["--subscription", where.owner] if where.owner else []
        query = ["--query", "[].id", "-o", "tsv", *there]
        return [["az", k, "list", "--tag", f"{LAB_TAG}={tag}", *query] for k in ("group", "resource")]
    if where.cloud == "aws":
        query = ["--query", "ResourceTagMappingList[].ResourceARN", "--output", "text"]
        call = ["aws", "resourcegroupstaggingapi", "get-resources"]
        tags = ["--tag-filters", f"Key={LAB_TAG},Values={tag}", *query]
        return [[*call, *tags, "--region", region] for region in where.regions] or [[*call, *tags]]
    if where.cloud == "gcp":
        words = (
            f"gcloud compute instances list --filter=labels.{LAB_TAG}={tag} --format=value(selfLink)".split()
        )
        return [[*words, f"--project={where.owner}"] if where.owner else words]
    return []


def must_be_nothing(work: Work, asked: Where, things: Sequence[str]) -> None:
    """Lists what the cloud has of a lab; raises `FathometerError` where that is anything."""
    if things:
        names = " or ".join(f"fathom-lab={tag}" for tag in asked.tags)
        show(f"with the tag {names}{asked.words}", things)
        raise FathometerError(
            "remove the lab",
            f"{count(len(things), 'thing')} {are(len(things))} left that no state knows",
            f"see whose it is: another lab of the same name bears the same tag{_SLOW.get(asked.cloud, '')}. "
            f"Remove by hand what is this lab's, then {work.command('down')} again",
        )


def show(place: str, names: Iterable[str]) -> None:
    """Lists what is left."""
    tell(f"left, {place}:")
    for name in names:
        tell(f"    {cleaned(name)}")
