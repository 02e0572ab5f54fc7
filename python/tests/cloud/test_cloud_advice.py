"""What errors advise can be called as it stands."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import find
from fathometer.cloud.measure import _must_fit, _of_lab, _say_unlike
from fathometer.cloud.page import may_replace
from fathometer.cloud.prices import Price
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from fathometer.study import plan as planning
from fathometer.study.journal import Journal
from fathometer.study.places import PortTakenError
from fathometer.study.read import read_study
from support.lab_of_namespaces import LIKE


def test_advised_up_command_includes_infra(tmp_path):
    (tmp_path / "infra/azure/own").mkdir(parents=True)
    (tmp_path / "infra/azure/own/main.tf").write_text("# Why?\n")
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.begin(find(tmp_path / "infra", "azure-own"), "tofu")
    work = Work(place, "azure-own", yes=True)
    assert work.command("up").endswith(f"--infra {tmp_path}/infra`")
    assert "--infra" not in work.command("down")


def test_broken_state_advises_exact_down_command(tmp_path):
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.begin(find(None, "azure-zones"), "tofu")
    place.state_file.mkdir()
    with pytest.raises(
        FathometerError,
        match=rf"`fathom cloud down azure-zones --directory {place.directory}` asks the cloud",
    ):
        Work(place, "azure-zones", yes=True).broken_state()


@pytest.mark.parametrize(("taken", "other"), [(7007, 7008), (7008, 7009), (21, 23), (65_535, 7007)])
def test_taken_port_advises_up_with_another_port(tmp_path, taken, other):
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.begin(find(None, "azure-zones"), "tofu")
    work = Work(place, "azure-zones", yes=True)
    advised = _of_lab(work, PortTakenError("start a reflector", "it is taken", "end that", taken)).remedy
    up = f"`fathom cloud up azure-zones --var port={other} --directory {place.directory}`"
    assert advised.startswith(f"end that. Another port: {up}, then ")
    # It is no matter of words, nor of a lab that has no such variable.
    error = FathometerError("start a reflector", "Address already in use", "end that")
    assert _of_lab(work, error) is error
    for file in place.root.glob("*.tf"):
        file.unlink()
    taken_port = PortTakenError("start a reflector", "it is taken", "end that", taken)
    assert _of_lab(work, taken_port) is taken_port


@pytest.mark.parametrize(
    ("studies", "before"),
    [
        ([], None),
        ([("started", "x")], "x"),
        ([("started", "x"), ("done", None)], "x"),
        ([("started", "x"), ("done", None), ("started", None)], "x"),
        # What was measured last was meant to be the usual.
        ([("started", "x"), ("done", None), ("started", None), ("done", None)], None),
        ([("started", "x"), ("done", None), ("started", None), ("done", None), ("started", "y")], "y"),
    ],
)
def test_like_hint_comes_from_last_study(tmp_path, capsys, studies, before):
    """One of long ago was called the one before, for ever."""
    place = LabPlace(tmp_path / "lab")
    place.make()
    place.begin(find(None, "azure-zones"), "tofu")
    for kind, like in studies:
        place.note(f"study.{kind}", output="o", like=like)
    _say_unlike(Work(place, "azure-zones", yes=True), None)
    said = capsys.readouterr().err
    assert (f"--like {before} measures what the one before did" in said) == (before is not None)
    assert ("a new study" in said) == (before is not None)


def test_only_remaining_runs_must_fit_lab_lifetime(made, tmp_path, monkeypatch):
    """One that was all but done, or was called for its report, was asked about as if it began anew; where
    nobody could answer, it did not go on.
    """
    file, output = tmp_path / "study.toml", tmp_path / "recordings"
    file.write_text(
        LIKE.replace('name = "like"', 'name = "like"\nrepetitions = 3').replace("count = 40", "for = '1h'")
    )
    output.mkdir()
    made.note("settings", expires=(datetime.now(UTC) + timedelta(hours=2)).isoformat())
    made.note("apply.started")
    made.note("apply.done")
    work = Work(made, "azure-nat", yes=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(FathometerError, match="nobody answered"):
        _must_fit(work, file, output, quick=False)
    journal = Journal(output)
    first, *others = planning.plan(read_study(file))
    for run in others:
        journal.note("run.finished", run=str(run.directory))
    _must_fit(work, file, output, quick=False)
    made.note("settings", expires=datetime.now(UTC).isoformat())
    made.note("apply.started")
    with pytest.raises(FathometerError, match="nobody answered"):
        _must_fit(work, file, output, quick=False)
    journal.note("run.finished", run=str(first.directory))
    journal.close()
    _must_fit(work, file, output, quick=False)


def test_unknown_price_is_not_zero():
    price = str(Price(0.0, 0.0, "2026-11-23", ("terraform_data",)))
    assert "0.00" not in price
    assert "not known" in price
    assert "terraform_data" in price
    assert str(Price(0.0, 0.0, "2026-11-23", ())).startswith("0.00 $ an hour")


def test_a_report_is_not_to_replace_a_directory(tmp_path):
    (tmp_path / "page.html").mkdir()
    work = Work(LabPlace(tmp_path / "lab"), "azure-zones", yes=True)
    with pytest.raises(FathometerError, match=r"page\.html is a directory; move it elsewhere"):
        may_replace(work, tmp_path / "page.html")
