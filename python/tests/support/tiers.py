"""One test in both tiers: few repetitions or rows in `make test`, many in `make acceptance`."""

import pytest


def repeated(name, few, many):
    """Parametrizes a law over random repetitions by their number."""
    return pytest.mark.parametrize(name, [few, pytest.param(many, marks=pytest.mark.acceptance)])


def rows(every, quick):
    """The rows of a table; those that are not quick are for `make acceptance`."""
    assert set(quick) <= set(every)
    return [
        row
        if row in quick
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.acceptance)
        for row in every
    ]
