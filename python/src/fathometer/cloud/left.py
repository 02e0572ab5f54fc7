"""What is left of a lab in its cloud, by the tag that everything of it bears.

The clouds' own commands are asked, as what a crash of OpenTofu or Terraform left is in no state.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from fathometer.cloud.planned import LAB_TAG

_LONGEST_S: Final = 300


@dataclass(frozen=True)
class Left:
    """What was found. `problem` says why it could not be looked for (None: it was)."""

    things: tuple[str, ...] = ()
    problem: str | None = None


def look(cloud: str, tag: str | None, settings: dict[str, Any]) -> Left:
    """Asks the cloud."""
    if tag is None:
        return Left(problem=f"nothing of this lab says its tag {LAB_TAG}")
    commands = commands_for(cloud, tag, settings)
    if not commands:
        return Left(problem=f"how to list what bears a tag in the cloud `{cloud}` is not known here")
    things: dict[str, None] = {}
    for command in commands:
        if shutil.which(command[0]) is None:
            return Left(problem=f"`{command[0]}` is not installed; look yourself: {shlex.join(command)}")
        try:
            done = subprocess.run(  # noqa: S603 - one of the commands below
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LONGEST_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Left(problem=f"{shlex.join(command)}: {error}")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return Left(problem=f"{shlex.join(command)}: {last}")
        things |= dict.fromkeys(word for word in done.stdout.split() if word != "None")
    return Left(tuple(things))


def nothing_left(cloud: str) -> str:
    """What may be said where nothing was found."""
    if cloud == "gcp":
        return "no host of it is left, nothing in its state; what else bears its label was not looked for"
    return "nothing of it is left"


def commands_for(cloud: str, tag: str, settings: dict[str, Any]) -> list[list[str]]:
    """What lists it, one thing a word; of Google's things the hosts alone, as labels have no common list."""
    if cloud == "azure":
        # Where OpenTofu made it; `az` by itself asks the subscription that it was last told to.
        subscription = os.environ.get("ARM_SUBSCRIPTION_ID")
        query = ["--query", "[].id", "-o", "tsv", *(["--subscription", subscription] if subscription else [])]
        return [["az", k, "list", "--tag", f"{LAB_TAG}={tag}", *query] for k in ("group", "resource")]
    if cloud == "aws":
        regions = [settings[name] for name in ("region", "other_region") if settings.get(name)]
        query = ["--query", "ResourceTagMappingList[].ResourceARN", "--output", "text"]
        call = ["aws", "resourcegroupstaggingapi", "get-resources"]
        tags = ["--tag-filters", f"Key={LAB_TAG},Values={tag}", *query]
        return [[*call, *tags, "--region", str(region)] for region in regions] or [[*call, *tags]]
    if cloud == "gcp":
        words = (
            f"gcloud compute instances list --filter=labels.{LAB_TAG}={tag} --format=value(selfLink)".split()
        )
        return [[*words, f"--project={settings['project']}"] if "project" in settings else words]
    return []
