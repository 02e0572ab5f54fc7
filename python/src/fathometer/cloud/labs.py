"""Which labs there are: the roots of ``infra/``, as ``azure-zones`` for ``azure/zones``.

They are part of the package (``cloud/infra`` has a link to each cloud's directory, which a wheel holds as
files), so that an installed program has them; ``--infra`` names others.
"""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fathometer.errors import ExitCode, FathometerError

_OWN: Final = Path(__file__).with_name("infra")
_LEFT_OUT: Final = shutil.ignore_patterns(".terraform*", "*.tfstate*", "*.tfvars", "*.tfvars.json", "tests")
"""What somebody who calls Terraform there by hand leaves; and what is only for tests."""


@dataclass(frozen=True)
class Root:
    """One lab."""

    name: str
    cloud: str
    """The directory that it is in: ``azure``."""
    directory: Path
    question: str
    """What it answers: the first words of its ``main.tf``."""

    @property
    def infra(self) -> str | None:
        """The `--infra` that has it; None: it is one of ours."""
        where = self.directory.parent.parent.absolute()
        return None if where == _OWN else str(where)

    @property
    def variables(self) -> frozenset[str]:
        """The names that can be given."""
        return variables_of(self.directory)


def variables_of(root: Path) -> frozenset[str]:
    """The names of a root's variables."""
    names: set[str] = set()
    for file in sorted(root.glob("*.tf")):
        names.update(re.findall(r'^variable "([\w-]+)"', file.read_text(encoding="utf-8"), re.MULTILINE))
    return frozenset(names)


def roots(infra: Path | None) -> list[Root]:
    """Every lab of a directory, ours if none is named; raises `FathometerError` where there is none."""
    where = infra or _OWN
    labs = [_root(main.parent) for main in sorted(where.glob("*/*/main.tf")) if main.parts[-3] != "modules"]
    labs = [root for root in labs if root.directory.parent.name != "modules"]
    if not labs:
        raise FathometerError(
            "find the labs", f"{where} has no CLOUD/ROOT/main.tf", "name a directory like infra/ with --infra"
        )
    return labs


def find(infra: Path | None, name: str) -> Root:
    """The lab of a name; raises `FathometerError`."""
    known = roots(infra)
    for root in known:
        if root.name == name:
            return root
    names = ", ".join(root.name for root in known)
    raise FathometerError(
        "find the lab", f'there is no lab "{name}"', f"use one of: {names}", exit_code=ExitCode.USAGE
    )


def copy(root: Root, to: Path) -> None:
    """The whole of its cloud's directory, as roots share modules and files. A lab is removed by the files
    that made it, also when another version of us is installed meanwhile.
    """
    shutil.copytree(root.directory.parent, to, ignore=_LEFT_OUT)
    # A package may be installed where nobody may write, and here files are written beside these.
    for path in (to, *to.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _root(directory: Path) -> Root:
    question, end, _ = _first_words(directory / "main.tf").partition("?")
    cloud = directory.parent.name
    return Root(f"{cloud}-{directory.name}", cloud, directory, question + end)


def _first_words(file: Path) -> str:
    """The comment that a file begins with."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.strip("# ") for line in comment)
