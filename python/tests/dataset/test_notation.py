"""No notation is mistaken for another: commas by the whole column, local times that exist twice."""

import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathometer.dataset import importers
from fathometer.dataset.importers import Options
from fathometer.dataset.notation import COMMA, POINT, decide
from fathometer.errors import ExitCode, FathometerError

QUICK = settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
VALUES = st.lists(st.decimals(0, 99_999, places=3, allow_nan=False), min_size=1, max_size=20)
BERLIN = ZoneInfo("Europe/Berlin")
GERMAN = str.maketrans(",.", ".,")


@QUICK
@given(VALUES, st.integers(0, 4), st.booleans())
def test_decision_is_never_wrong(values, decimals, comma):
    """A column in one notation is read in it, or left open."""
    english = [f"{value:,.{decimals}f}" for value in values]
    texts = [text.translate(GERMAN) for text in english] if comma else english
    notation = decide(texts)
    if not any("," in text for text in texts):
        return  # Points alone are as programs write them.
    if notation.decimal is None:
        assert [notation.plain(text) for text in texts] == texts
        return
    assert [float(notation.plain(text)) for text in texts] == [float(t.replace(",", "")) for t in english]


@pytest.mark.parametrize(
    ("column", "decimal", "plain"),
    [
        (["1,25", "1,250"], COMMA, ["1.25", "1.250"]),
        (["1,250", "0.5"], POINT, ["1250", "0.5"]),
        (["1,250", "12,345"], None, ["1,250", "12,345"]),
        (["1.250,5", "1.250"], COMMA, ["1250.5", "1250"]),
        (["1,234,567", "1,250"], POINT, ["1234567", "1250"]),
        (["0,345", "12,345"], COMMA, ["0.345", "12.345"]),
        (["1250,500"], COMMA, ["1250.500"]),
        (["1,5e-3", "12,345"], COMMA, ["1.5e-3", "12.345"]),
        # Two notations in one column: each unambiguous number counts for itself.
        (["178.924995", "49,5", "-3"], None, ["178.924995", "49.5", "-3"]),
        (["14.10.2016", "10.0.0.9", "timeout", "2,5"], COMMA, ["14.10.2016", "10.0.0.9", "timeout", "2.5"]),
    ],
)
def test_column_decides_what_commas_mean(column, decimal, plain):
    notation = decide(column)
    assert notation.decimal == decimal
    assert [notation.plain(text) for text in column] == plain


def table(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    settled = Options(time="when", rtt="rtt", unit="ms", delimiter=";", **options)
    return importers.read(tmp_path / "t.csv", settled, tool="csv").series[0]


ROWS = "when;rtt{}\n1476479820;{}\n1476479821;{}\n"


def test_import_tells_what_a_comma_means(tmp_path):
    series = table(tmp_path, ROWS.format("", "1,25", "12,345"))
    assert series.rtt_ns.tolist() == [1_250_000, 12_345_000]
    assert any("a decimal point: 12,345 is read as 12.345" in note for note in series.notes)


def test_other_columns_decide_where_one_does_not(tmp_path):
    series = table(tmp_path, ROWS.format(";jitter", "1,250;0,5", "12,345;0,25"))
    assert series.rtt_ns.tolist() == [1_250_000, 12_345_000]
    series = table(tmp_path, ROWS.format(";jitter", "1,250;0.5", "12,345;0.25"))
    assert series.rtt_ns.tolist() == [1_250_000_000, 12_345_000_000]


def test_open_comma_asks_for_the_sign(tmp_path):
    text = ROWS.format("", "1,250", "12,345")
    with pytest.raises(
        FathometerError, match=r"rtt: 1,250 can be 1\.250 or 1250; .*--decimal comma"
    ) as asked:
        table(tmp_path, text)
    assert asked.value.exit_code == ExitCode.USAGE
    assert table(tmp_path, text, decimal=COMMA).rtt_ns.tolist() == [1_250_000, 12_345_000]
    assert table(tmp_path, text, decimal=POINT).rtt_ns.tolist() == [1_250_000_000, 12_345_000_000]


def dated(tmp_path, times, zone=BERLIN, offset=None):
    text = "when;rtt\n" + "".join(f"{t};1\n" for t in times)
    return table(tmp_path, text, zone=zone, offset=offset)


@pytest.mark.parametrize(("hours", "utc"), [(2, "00:30"), (1, "01:30")])
def test_hour_that_exists_twice_asks_for_offset(tmp_path, hours, utc):
    times = ["2026-10-25 01:59:00", "2026-10-25 02:30:00", "2026-10-25 03:10:00"]
    says = r"line 3 is '2026-10-25 02:30:00', which exists twice .*--utc-offset \+02:00 or \+01:00"
    with pytest.raises(FathometerError, match=says) as asked:
        dated(tmp_path, times)
    assert asked.value.exit_code == ExitCode.USAGE
    series = dated(tmp_path, times, offset=datetime.timedelta(hours=hours))
    meant = datetime.datetime.fromisoformat(f"2026-10-25T{utc}:00+00:00")
    assert series.sent_ns[1] == int(meant.timestamp()) * 10**9


def test_step_back_tells_the_two_hours_apart(tmp_path):
    """A run through the night in steps of ten minutes, as a logger in local time writes it."""
    began = datetime.datetime(2026, 10, 24, 23, 0, tzinfo=datetime.UTC)
    moments = [began + datetime.timedelta(minutes=10 * n) for n in range(24)]
    series = dated(tmp_path, [f"{m.astimezone(BERLIN):%Y-%m-%d %H:%M:%S}" for m in moments])
    assert series.sent_ns.tolist() == [int(m.timestamp()) * 10**9 for m in moments]
    assert any("daylight saving ends between" in note for note in series.notes)


def test_unordered_times_in_the_double_hour_ask(tmp_path):
    with pytest.raises(FathometerError, match="exists twice"):
        dated(tmp_path, ["2026-10-25 02:30:01", "2026-10-25 02:30:00", "2026-10-25 02:31:00"])


def test_hour_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FathometerError, match=r"does not exist in Europe/Berlin.*--utc-offset"):
        dated(tmp_path, ["2026-03-29 01:59:00", "2026-03-29 02:30:00"])


@pytest.mark.parametrize("text", ["2026-06-15 12:00:00", "2026-01-15 12:00:00", "2026-10-25 04:00:00"])
def test_other_times_need_no_offset(tmp_path, text):
    meant = datetime.datetime.fromisoformat(text).replace(tzinfo=BERLIN)
    assert dated(tmp_path, [text]).sent_ns[0] == int(meant.timestamp()) * 10**9
