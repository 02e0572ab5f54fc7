import numpy as np
import pytest

from fathometer.stats.first import first_against_rest
from fathometer.stats.sweep import sweep

SIZES = np.array([64, 256, 1024, 4096, 16384, 65536, 262144, 1048576], dtype=float)


def test_a_line_is_found_again():
    found = sweep(SIZES, 60 + 0.01 * SIZES)
    assert found.break_at is None
    assert found.lines[0].fixed == pytest.approx(60)
    assert found.lines[0].per_byte == pytest.approx(0.01)
    assert found.at(2048) == pytest.approx(60 + 20.48)


def test_noise_alone_makes_no_break():
    rng = np.random.default_rng(1)
    breaks = sum(
        sweep(SIZES, (60 + 0.01 * SIZES) * np.exp(rng.normal(0, 0.02, 8))).break_at is not None
        for _ in range(200)
    )
    assert breaks <= 10


def test_the_first_congestion_window_is_a_break():
    # Ten segments of 1,448 bytes go at once; more wait for a round trip (RFC 6928).
    sizes = np.array([1024, 2048, 4096, 8192, 14480, 16384, 20480, 28672], dtype=float)
    median = np.where(sizes <= 14480, 500 + 0.001 * sizes, 1000 + 0.001 * sizes)
    found = sweep(sizes, median)
    assert found.break_at == 16384
    assert found.lines[1].fixed == pytest.approx(1000)
    with pytest.raises(ValueError, match="at least 3"):
        sweep(sizes[:2], median[:2])


def test_slow_first_samples_are_detected():
    rng = np.random.default_rng(1)
    rest = np.exp(rng.normal(0, 0.1, 30)) * 100
    found = first_against_rest(rest * 1.8 * np.exp(rng.normal(0, 0.1, 30)), rest)
    assert pytest.approx(found.ratio, rel=0.1) == 1.8
    assert found.p_value < 0.001
    assert found.differs


def test_first_samples_that_are_alike_are_not_blamed():
    rng = np.random.default_rng(2)
    rest = np.full(40, 100.0)
    alarms = sum(first_against_rest(rest * np.exp(rng.normal(0, 0.2, 40)), rest).differs for _ in range(200))
    assert alarms <= 20


def test_few_connections_are_not_generalised():
    assert first_against_rest(np.array([2.0]), np.array([1.0])).differs is None
    assert first_against_rest(np.array([]), np.array([])).connections == 0
