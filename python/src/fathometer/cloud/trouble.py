"""What errors of OpenTofu, Terraform and the clouds mean, and what can be done. Their own words are shown,
besides.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

_OTHER: Final = "see what the cloud says of it"


@cache
def _known() -> list[tuple[re.Pattern[str], str]]:
    text = Path(__file__).with_name("trouble.toml").read_text(encoding="utf-8")
    return [(re.compile(one["find"]), str(one["advice"])) for one in tomllib.loads(text)["trouble"]]


def advice(
    words: str,
    directory: str = "the lab's directory",
    down: str = "`fathom cloud down`",
    upgrade: str = "`terraform init -upgrade`",
) -> str:
    """What to do about an error, by its words; `directory` is the lab's, `down` removes it, and `upgrade`
    takes the provider that is there now.
    """
    found = next((what for pattern, what in _known() if pattern.search(words)), _OTHER)
    return found.format(directory=directory, down=down, upgrade=upgrade)


def is_of_another_provider(words: str) -> bool:
    """Whether an error says that the provider is another than the one that the lab was made with."""
    return any(pattern.search(words) for pattern, what in _known() if "{upgrade}" in what)
