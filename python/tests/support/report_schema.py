"""The schema of the report's JSON."""

import json
from functools import cache

import fastjsonschema

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


@cache
def _compiled(strictly):
    # Compiled once: that takes longer than to make most of the reports.
    return fastjsonschema.compile(strict(SCHEMA) if strictly else SCHEMA)


def keeps_to_schema(told, *, strictly=True):
    """Raises where a report's JSON is not as the schema has it; `strictly`: or has what it does not name."""
    _compiled(strictly)(told)
