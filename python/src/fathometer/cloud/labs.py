"""The labs that can be made: the roots of ``infra/``, as ``azure-zones`` for ``azure/zones``.

They are part of the package (``cloud/infra`` links to each cloud's directory, which a wheel holds as files).
``--infra`` names others.
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
"""Files that Terraform leaves when it is called there by hand, and tests."""


@dataclass(frozen=True)
class Root:
    """One lab."""

    name: str
    cloud: str
    """The directory that it is in: ``azure``."""
    directory: Path
    question: str
    """The question that it answers: the first words of its ``main.tf``."""

    @property
    def infra(self) -> str | None:
        """The `--infra` directory that has it; None for our own."""
        directory = self.directory.parent.parent.absolute()
        return None if directory == _OWN else str(directory)

    @property
    def variables(self) -> frozenset[str]:
        """The names of its variables."""
        texts = [file.read_text(encoding="utf-8") for file in self.directory.glob("*.tf")]
        return frozenset(re.findall(r'^variable "([\w-]+)"', "\n".join(texts), re.MULTILINE))


def roots(infra: Path | None) -> list[Root]:
    """The labs of a directory, by default of our own; raises `FathometerError` for one without labs."""
    directory = infra or _OWN
    labs = [_root(main.parent) for main in sorted(directory.glob("*/*/main.tf"))]
    labs = [root for root in labs if "modules" not in root.directory.parts[-2:]]
    if not labs:
        what = f"{directory} has no CLOUD/ROOT/main.tf"
        raise FathometerError("find the labs", what, "name a directory like infra/ with --infra")
    return labs


def find(infra: Path | None, name: str) -> Root:
    """The lab of a name; raises `FathometerError`."""
    known = {root.name: root for root in roots(infra)}
    if name not in known:
        use = f"use one of: {', '.join(known)}"
        raise FathometerError("find the lab", f'"{name}" is unknown', use, exit_code=ExitCode.USAGE)
    return known[name]


def copy(root: Root, to: Path) -> None:
    """Copies the cloud's whole directory, as roots share modules. A lab is removed by the files that made it,
    also after an update of this program.
    """
    shutil.copytree(root.directory.parent, to, ignore=_LEFT_OUT)
    # An installed package may be read-only.
    for path in (to, *to.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _root(directory: Path) -> Root:
    lines = (directory / "main.tf").read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    question, end, _ = " ".join(line.strip("# ") for line in comment).partition("?")
    cloud = directory.parent.name
    return Root(f"{cloud}-{directory.name}", cloud, directory, question + end)
