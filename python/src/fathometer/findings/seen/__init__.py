"""Findings that ask for nothing but the paths: a module each, with `findings(scenarios)`. Whichever module
lies here is asked; ARCHITECTURE.md ("Where to put") says what else belongs to one.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module

from fathometer.findings.finding import Finding
from fathometer.findings.model import Scenario


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """What each of them sees, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [f for name in names for f in import_module(f"{__name__}.{name}").findings(scenarios)]
