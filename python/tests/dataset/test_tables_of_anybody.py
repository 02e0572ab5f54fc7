"""Tables with what no table should have: told in one line, never guessed at and never lost in silence."""

import numpy as np
import pytest

from fathometer.dataset.importers import Options, read
from fathometer.errors import FathometerError


def table(tmp_path, text, unit="us"):
    file = tmp_path / "t.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(file, Options(time="time", rtt="rtt", unit=unit), tool="csv")


@pytest.mark.parametrize(
    ("unit", "cell"),
    [
        ("us", "18446744073709551617000"),
        ("us", "9300000000000000000"),
        ("s", "9300000000.5"),
        ("ns", "9223372036854775808"),
        ("us", "-9300000000000000000"),
        ("us", "9" * 400),
        ("us", "1e30"),
    ],
)
def test_oversized_number_names_its_row(tmp_path, unit, cell):
    """18446744073709551617000 us became 1.00 ms, as numbers were kept modulo 2^64; others became negative."""
    with pytest.raises(FathometerError, match=r"row 2 is .* more than 292 years") as caught:
        table(tmp_path, f"time,rtt\n1,100\n2,{cell}\n", unit)
    assert len(str(caught.value)) < 400


def test_the_largest_number_that_fits_is_kept(tmp_path):
    (series,) = table(tmp_path, f"time,rtt\n1,{2**63 - 1}\n", "ns").series
    assert series.rtt_ns.tolist() == [2**63 - 1]


def test_rows_with_another_number_of_cells_are_counted(tmp_path):
    """Of 300 rows 100 had a cell too many: there were 200 samples, and no word of the others."""
    rows = "".join(f"{i},{100 + i}{',5' if i % 3 == 0 else ''}\n" for i in range(300))
    (series,) = table(tmp_path, "time,rtt\n" + rows).series
    assert series.sent_ns.size == 200
    assert "left out: 100 rows with another number of cells than 2" in series.notes


@pytest.mark.parametrize(
    "content", [b"time,rtt\n1,100\n2,1\xff0\n", b"time,rtt,note\n1,100,x\n2,100,caf\xe9\n"]
)
def test_what_is_no_text_is_one_line(tmp_path, content):
    """Python printed "Exception ignored", and what could not be decoded."""
    with pytest.raises(FathometerError, match="line 3 of its table is no UTF-8"):
        table(tmp_path, content)


@pytest.mark.parametrize("date", ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "1600-01-01T00:00:00Z"])
def test_unrepresentable_date_names_its_line(tmp_path, date):
    """It was an OverflowError that asked for the tool's version."""
    with pytest.raises(FathometerError, match=r"line 3 is .* the years 1677 to 2262"):
        table(tmp_path, f"time,rtt\n2026-01-01 00:00:00,1\n{date},1\n")


def test_dates_that_it_can_hold_are_kept(tmp_path):
    (series,) = table(tmp_path, "time,rtt\n1970-01-01T00:00:01Z,1\n2262-01-01T00:00:00Z,1\n").series
    assert series.sent_ns[0] == 10**9
    assert np.all(np.diff(series.sent_ns) > 0)
