"""A journal that is not as this version wrote it: of a newer one, or without its end."""

from datetime import UTC, datetime

import pytest

from fathometer import __version__
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.running import note_end
from fathometer.study.journal import JOURNAL

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize("fathom", [{}, {"fathom": "9.1.0"}], ids=["unsaid", "said"])
def test_newer_journal_format_is_refused(made, listed, tmp_path, fathom):
    """Its entries were taken for what they mean here, and `down` went by them (a stranger)."""
    newer = LabPlace(tmp_path / "newer")
    newer.make()
    newer.note("cloud.begun", format=99, id="9", lab="azure-zones", tool="tofu", **fathom)
    of = " of fathom 9.1.0" if fathom else ""
    words = (
        f"{newer.directory}/journal.jsonl has format 99{of}, and this is fathom {__version__}, which knows"
    )
    lines = listed("list", "--directory", newer.directory, code=1).splitlines()
    assert [line for line in lines if line.startswith("azure-nat  made")]
    (line,) = [line for line in lines if words in line]
    assert line.startswith("newer  cannot be read: ")
    assert "use the fathom that began the lab, or a newer one" in line
    before = (newer.directory / JOURNAL).read_bytes()
    for verb in ("plan", "up", "run", "down"):
        refusal = listed(verb, "azure-zones", "--directory", newer.directory, code=1)
        assert words in refusal
        assert (newer.directory / JOURNAL).read_bytes() == before
    assert LabPlace(made.directory).begun is not None


@pytest.fixture
def cut(tmp_path, listed):  # noqa: ARG001 - whose register it is not in
    """The place of a lab that no register knows, whose journal has its first lines alone."""
    place = LabPlace(tmp_path / "cut")
    place.make()
    place.note("cloud.begun", cloud="azure", root="zones", id="3", tool="tofu", lab="azure-zones")
    place.note("plan.done")
    place.root.mkdir(parents=True)
    return place


def test_truncated_journal_leaves_lab_contents_unknown(cut, listed):
    """It was listed as "nothing was made yet", and `down` took its directory away (a stranger)."""
    # They are written directly before a making begins.
    cut.set({"name": "mine", "expires": "2020-01-01T00:00:00Z"})
    here = ("--directory", cut.directory)
    (line,) = [one for one in listed("list", *here).splitlines() if one.startswith("azure-zones  what")]
    assert "what exists is not known, as its journal does not have that its making began" in line
    assert "its hosts were ended at 2020-01-01 00:00 UTC" in line
    # Its tag is known by its settings, and so the cloud can be asked.
    listed.az("[ $1 = group ] || echo /subscriptions/0-1/left")
    said = listed("down", "azure-zones", *here, code=1)
    assert "with the tag fathom-lab=mine-zones" in said
    assert "    /subscriptions/0-1/left" in said
    # An empty answer proves nothing where nobody knows in which subscription it was made.
    listed.az("exit 0")
    said = listed("down", "azure-zones", *here, code=1)
    assert "in which subscription it was made is not known" in said
    assert cut.directory.exists()


def test_expiry_from_settings_is_noted(cut):
    """By its journal nothing of it was ever made, and so no look was taken whether its hosts run."""
    cut.set({"expires": "2020-01-01T00:00:00Z"})
    note_end(cut, NOW)
    assert cut.last("hosts.ended")["at"] == "2020-01-01T00:00:00+00:00"


def test_unregistered_lab_cites_journal_for_nothing_made(cut, listed, tmp_path):
    here = ("--directory", cut.directory)
    words = f"no entry in {tmp_path}/state/fathom/labs says so, but by its journal nothing was made yet"
    for _ in range(2):
        assert f"azure-zones  {words}" in listed("list", *here)
    said = listed("down", "azure-zones", *here)
    assert "by its journal nothing of it was ever made, which no entry in" in said
