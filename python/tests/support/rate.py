"""Acceptance tests that depend on time report a rate: how many runs of a measurement were right."""

from collections.abc import Callable


def assert_rate(bound: int, runs: int, measurement: Callable[[], None]) -> None:
    """Runs a measurement several times and prints how many runs were right; fewer than the bound fail.

    For `make acceptance` alone: a test of `make test` is right every time.
    """
    wrong = []
    for _ in range(runs):
        try:
            measurement()
        except AssertionError as error:
            wrong.append(error)
    right = runs - len(wrong)
    print(f"RATE {right} of {runs} (bound {bound})")
    assert right >= bound, f"right in {right} of {runs} runs; the bound is {bound}: {wrong[0]}"
