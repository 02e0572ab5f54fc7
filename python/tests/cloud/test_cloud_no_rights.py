"""A directory that cannot be written or looked into is an error with what to do, and no traceback."""

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import find
from fathometer.errors import FathometerError
from fathometer.study.lock import LOCK, locked


def test_a_lock_that_cannot_be_written_is_named(tmp_path):
    # Root may write everywhere, but opens no directory for writing.
    (tmp_path / LOCK).mkdir()
    with (
        pytest.raises(
            FathometerError, match=r"cannot work: .*\.lock: Is a directory; see that you may write"
        ),
        locked(tmp_path, "work"),
    ):
        pass


def test_inaccessible_lab_journal_gives_remedy(tmp_path):
    # As of a directory that others may not look into, which root may: the kernel refuses the question.
    with pytest.raises(FathometerError, match=r"cannot read the lab's journal: .*that you may look into it"):
        LabPlace(tmp_path / ("x" * 300))


def test_blocked_lab_file_copy_gives_remedy(tmp_path):
    place = LabPlace(tmp_path)
    place.note("cloud.begun", id="1", lab="azure-zones", tool="tofu", cloud="azure", root="zones")
    (tmp_path / "labs.new").write_text("in the way")
    with pytest.raises(
        FathometerError, match=r"cannot begin the lab: .*File exists; see to room and rights there"
    ):
        place.begin(find(None, "azure-zones"), "tofu")
