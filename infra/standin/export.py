#!/usr/bin/env python3
"""Keeps of a real provider's schemas what a cloud's labs use, in schemas/PROVIDER.json:
`terraform providers schema -json | export.py CLOUD MODULE@VERSION RELEASE`, where CLOUD is azure, aws or gcp. How the
real provider is built is in README.md.
"""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
PROVIDERS = {"azure": "azurerm", "aws": "aws", "gcp": "google"}
WORDS = ("description", "description_kind", "deprecation_message")


def used(cloud: str, kind: str) -> set[str]:
    """The types of resources, or of data sources, that stand in the labs' files."""
    texts = (path.read_text() for path in (HERE.parent / cloud).rglob("*.tf"))
    return {name for text in texts for name in re.findall(rf'^{kind} "(\w+)"', text, re.MULTILINE)}


def without_words(value: object) -> object:
    if isinstance(value, list):
        return [without_words(v) for v in value]
    if isinstance(value, dict):
        # A word as a key is text for people, unless an attribute has that name.
        return {k: without_words(v) for k, v in value.items() if k not in WORDS or isinstance(v, dict)}
    return value


def main() -> None:
    cloud, module, release = sys.argv[1:]
    source = f"hashicorp/{PROVIDERS[cloud]}"
    given = json.load(sys.stdin)["provider_schemas"]
    (real,) = (schema for address, schema in given.items() if address.endswith(source))
    kept = {
        "source": source,
        "version": release,
        "module": module,
        "licence": "MPL-2.0",
        "exported": datetime.now(UTC).date().isoformat(),
        "provider": real["provider"],
        "resource_schemas": {name: real["resource_schemas"][name] for name in sorted(used(cloud, "resource"))},
        "data_source_schemas": {name: real["data_source_schemas"][name] for name in sorted(used(cloud, "data"))},
    }
    text = json.dumps(without_words(kept), separators=(",", ":"))
    # A line for each resource: small, and a change can be read.
    text = re.sub(r'(?<=[{,])("(?:provider|\w+_schemas|(?:aws|azurerm|google)_\w+)":\{)', r"\n\1", text)
    (HERE / f"schemas/{PROVIDERS[cloud]}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
