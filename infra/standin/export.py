#!/usr/bin/env python3
"""Keeps of a real provider's schemas what the labs use, in schemas.json:
`terraform providers schema -json | export.py MODULE@VERSION RELEASE`. How the real provider is built is in README.md.
"""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = "hashicorp/azurerm"
WORDS = ("description", "description_kind", "deprecation_message")


def used() -> set[str]:
    """The types of resources that stand in the labs' files."""
    texts = (path.read_text() for path in (HERE.parent / "azure").rglob("*.tf"))
    return {name for text in texts for name in re.findall(r'^resource "(\w+)"', text, re.MULTILINE)}


def without_words(value: object) -> object:
    if isinstance(value, list):
        return [without_words(v) for v in value]
    if isinstance(value, dict):
        # A word as a key is text for people, unless an attribute has that name.
        return {k: without_words(v) for k, v in value.items() if k not in WORDS or isinstance(v, dict)}
    return value


def main() -> None:
    module, release = sys.argv[1:]
    given = json.load(sys.stdin)["provider_schemas"]
    (real,) = (schema for address, schema in given.items() if address.endswith(SOURCE))
    kept = {
        "source": SOURCE,
        "version": release,
        "module": module,
        "licence": "MPL-2.0",
        "exported": datetime.now(UTC).date().isoformat(),
        "provider": real["provider"],
        "resource_schemas": {name: real["resource_schemas"][name] for name in sorted(used())},
    }
    (HERE / "schemas.json").write_text(json.dumps(without_words(kept), indent=1) + "\n")


if __name__ == "__main__":
    main()
