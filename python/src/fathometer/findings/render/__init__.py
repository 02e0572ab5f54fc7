"""The one place where findings, incidents and advice become sentences. What is here reads structure and is
read by nobody but people: no code decides by what it returns.
"""

import pkgutil
from importlib import import_module

from fathometer.findings.finding import Advice, Finding
from fathometer.findings.render.doubts import doubt, doubt_code
from fathometer.findings.render.facts import fact
from fathometer.findings.render.snippets import Snippet, snippet, spelled
from fathometer.findings.render.table import ADVICE, STATEMENTS, WEIGHTS
from fathometer.findings.render.told import cost, incident, name, remedies, what, when_each, whom

__all__ = [
    "advice",
    "advice_evidence",
    "cost",
    "doubt",
    "doubt_code",
    "evidence",
    "fact",
    "incident",
    "name",
    "remedies",
    "snippet",
    "snippets",
    "spelled",
    "statement",
    "weight",
    "what",
    "when_each",
    "whom",
]
for _room in pkgutil.iter_modules(__path__):
    # Whichever lies here enters its words into the tables.
    import_module(f"{__name__}.{_room.name}")


def statement(finding: Finding) -> str:
    """What was seen, in a sentence without its full stop."""
    # Of a silence both its samples and the warm ones are told: it goes by the path's own name.
    path = finding.terms.get("label", finding.scenario)
    words = STATEMENTS[finding.kind](finding)
    return f"{path}: {words}" if path else words


def evidence(finding: Finding) -> list[str]:
    """What it rests on, a sentence each; growths stand in the statement itself."""
    return [
        *(fact(one) for one in finding.facts if one.code != "growth"),
        *(doubt(code) for code in finding.doubts),
    ]


def advice(one: Advice) -> str:
    """What to change and what that saves, in a sentence without its full stop."""
    return ADVICE[one.topic](one)


def advice_evidence(one: Advice) -> list[str]:
    """What it rests on, a sentence each."""
    return [fact(each) for each in one.facts]


def snippets(one: Advice) -> list[Snippet]:
    """What to write, library by library."""
    return [snippet(recipe) for recipe in one.recipes]


def weight(finding: Finding) -> int:
    """How much a reader loses by missing it: of a kind, and more the surer it is."""
    return WEIGHTS[finding.kind] + {"high": 9, "medium": 4, "low": 0}[finding.confidence]
