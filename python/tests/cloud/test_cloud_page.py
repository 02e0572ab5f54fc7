"""Which file the report of `fathom cloud run` replaces, and whether somebody is asked before."""

import io

import pytest

from fathometer.cloud.journal import LabPlace
from fathometer.cloud.measure import run
from fathometer.cloud.page import may_replace, page_of, writing
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError


class Somebody:
    """Calls it for one lab, and answers what they are asked."""

    def __init__(self, directory, monkeypatch):
        self.output = directory / "recordings"
        self.page = page_of(self.output)
        self.place = LabPlace(directory / "lab")
        self.place.make()
        self.place.note("apply.done")
        self.stdin = lambda answers: monkeypatch.setattr("sys.stdin", io.StringIO(answers))

    def work(self, answers=""):
        """A call: it has what the journal says, and no more."""
        self.stdin(answers)
        return Work(LabPlace(self.place.directory), "own-lab", yes=False)

    def begin(self, answers=""):
        may_replace(self.work(answers), self.page)

    def write(self, text, answers="", code=0):
        with writing(self.work(answers), self.page):
            self.page.write_text(text)
            if code:
                raise SystemExit(code)


@pytest.fixture
def somebody(tmp_path, monkeypatch):
    return Somebody(tmp_path, monkeypatch)


def is_asked(call, *words):
    with pytest.raises(FathometerError, match="nobody answered"):
        call(*words)
    return True


def test_foreign_file_is_replaced_after_confirmation(somebody):
    """Asked before anything is measured, which takes an hour; and once."""
    somebody.page.write_text("thesis")
    with pytest.raises(FathometerError, match="nobody answered"):
        run(somebody.work(), somebody.output, None, None, (), quick=False, report=True)
    with pytest.raises(
        FathometerError, match=rf"{somebody.page} is there; move it elsewhere, or name another --output"
    ):
        somebody.begin("n\n")
    somebody.begin("y\n")
    assert somebody.page.read_text() == "thesis"
    # Whatever became of that study, it is the file that was agreed to.
    somebody.begin()
    somebody.write("report")
    somebody.page.write_text("thesis")
    assert is_asked(somebody.begin)


def test_file_saved_before_first_report_needs_confirmation(somebody):
    """The name was noted before there was a report. When the study had failed, whatever was saved by that
    name was replaced unasked.
    """
    somebody.begin()
    somebody.page.write_text("thesis")
    assert is_asked(somebody.begin)
    assert is_asked(somebody.write, "report")
    assert somebody.page.read_text() == "thesis"
    # Nor does one that could not be written count, nor what lies there then.
    with pytest.raises(ZeroDivisionError), writing(somebody.work("y\n"), somebody.page):
        raise ZeroDivisionError
    assert not LabPlace(somebody.place.directory).has("report.written")


def test_file_changed_after_approval_needs_confirmation(somebody):
    somebody.page.write_text("thesis")
    somebody.begin("y\n")
    somebody.page.write_text("thesis, second edition")
    assert is_asked(somebody.write, "report")
    assert somebody.page.read_text() == "thesis, second edition"


def test_own_report_is_replaced_unasked_until_edited(somebody):
    for text in ("first", "second"):
        somebody.begin()
        somebody.write(text)
    # One that was put back is no less its own.
    somebody.page.write_text("first")
    somebody.begin()
    somebody.page.write_text("first, with my notes")
    assert is_asked(somebody.begin)
    # A report that names what is damaged ends with an exit code, and is written.
    with pytest.raises(SystemExit):
        somebody.write("third", "y\n", code=1)
    somebody.begin()


def test_replaced_symlink_needs_new_confirmation(somebody):
    somebody.page.symlink_to(somebody.page.with_name("gone"))
    assert is_asked(somebody.begin)
    somebody.begin("y\n")
    somebody.begin()
    somebody.page.unlink()
    somebody.page.write_text("thesis")
    assert is_asked(somebody.begin)
