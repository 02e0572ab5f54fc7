"""The schema of the report's JSON."""

import json

from support.programs import ROOT

SCHEMA = json.loads((ROOT / "schema" / "report.schema.json").read_text())


def strict(schema):
    """Nothing but what the schema names: a field that we write is a field that we describe."""
    if isinstance(schema, dict):
        made = {k: strict(v) for k, v in schema.items()}
        if "properties" in made and made.get("type") == "object":
            made.setdefault("additionalProperties", False)
        return made
    return [strict(x) for x in schema] if isinstance(schema, list) else schema
