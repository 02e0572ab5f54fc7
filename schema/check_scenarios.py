"""Holds scenarios against scenario.schema.json, and the schema against mistakes that it must catch.

    .venv/bin/python schema/check_scenarios.py SCENARIO.toml...
"""

import copy
import json
import pathlib
import sys
import tomllib

import fastjsonschema

here = pathlib.Path(__file__).parent
schema = json.loads((here / "scenario.schema.json").read_text())
validate = fastjsonschema.compile(schema)


def fits(document: object) -> bool:
    """Whether the schema lets it through."""
    try:
        validate(document)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


files = [pathlib.Path(name) for name in sys.argv[1:]]
assert files, "name at least one scenario"
for file in files:
    document = tomllib.loads(file.read_text())
    try:
        validate(document)
    except fastjsonschema.JsonSchemaValueException as error:
        sys.exit(f"{file}: {error.message}")
    # A schema that lets everything through would pass too.
    for section in ("host", "path", "middlebox", "event"):
        if section in document:
            wrong = copy.deepcopy(document)
            wrong[section][0]["no-such-key"] = 1
            assert not fits(wrong), f"{file}: an unknown key in {section} passes"
    wrong = copy.deepcopy(document)
    del wrong["host"][0]["name"]
    assert not fits(wrong), f"{file}: a host without a name passes"
print(f"{len(files)} scenarios fit the schema")
