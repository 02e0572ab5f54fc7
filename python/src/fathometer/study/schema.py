"""The study file's JSON Schema, for editors. ``schema/study.schema.json`` is this, checked in.

python -m fathometer.study.schema > schema/study.schema.json
"""

from __future__ import annotations

import json
import sys

from fathometer.study.model import Study


def study_schema() -> str:
    """The schema as text, as it is checked in."""
    schema = Study.model_json_schema(by_alias=True)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "anyOf": [{"required": [name]} for name in ("probe", "policy", "limit", "query")],
        "title": "A study of Fathometer, format 1 (TOML)",
        "description": "Shape only: `fathom study check` finds names that do not exist and rates that are "
        "too high. See docs/studies.md.",
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(study_schema())
