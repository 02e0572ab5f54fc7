"""That nothing is left of a lab is said where that was looked at, and nowhere else."""

import json
import shutil

import pytest

from fathometer.cloud import register
from fathometer.cloud.journal import LabPlace, removed
from fathometer.cloud.labs import find
from fathometer.cloud.twice import must_not_be_there
from fathometer.cloud.where import Where, known
from fathometer.cloud.work import Work
from fathometer.errors import FathometerError
from fathometer.study.journal import JOURNAL

NOTHING = "nothing of it is left"
THINGS = {"version": 4, "resources": [{"mode": "managed"}, {"mode": "data"}, {"mode": "managed"}]}


def entries_of(lab_id):
    return [entry for entry in register.entries()[0] if entry.id == lab_id]


@pytest.mark.parametrize("name", ["terraform.tfstate", "errored.tfstate"])
def test_missing_journal_keeps_registered_state(made, listed, name):
    """The cloud was asked alone, perhaps the wrong one, and its "nothing" was believed."""
    (made.directory / JOURNAL).unlink()
    state = made.root / name
    made.state_file.rename(state)
    state.write_text(json.dumps(THINGS))
    listed.az("exit 0")
    down = ("down", "azure-nat", "--directory", made.directory)
    for words in ((), ("--by-state",)):
        said = listed(*down, *words, code=1)
        assert (
            f"{made.directory / JOURNAL} is gone, and {state} names 2 things in the subscription 0-1" in said
        )
        assert f"`terraform -chdir={made.root} destroy`" in said
        assert (f"`terraform -chdir={made.root} state push {name}`" in said) == (name == "errored.tfstate")
        assert NOTHING not in said
    (line,) = [one for one in listed("list", code=1).splitlines() if one.startswith("azure-nat  the journal")]
    assert f"{state} is there" in line
    assert "may go on costing" in line
    # By hand, as it tells.
    state.write_text('{"version": 4, "resources": []}')
    assert f"{NOTHING} in the subscription 0-1" in listed(*down)
    assert entries_of(made.id) == []


def test_missing_journal_keeps_unregistered_state(made, listed):
    (made.directory / JOURNAL).unlink()
    register.forget(made)
    assert "names 1 thing; put back" in listed("down", "azure-nat", "--directory", made.directory, code=1)


def test_torn_state_without_journal_queries_cloud(made, listed):
    (made.directory / JOURNAL).unlink()
    made.state_file.write_text('{"resour')
    listed.az("[ $1 = group ] || echo /subscriptions/0-1/left")
    down = ("down", "azure-nat", "--directory", made.directory)
    said = listed(*down, code=1)
    assert f"{made.state_file} is torn" in said
    assert "    /subscriptions/0-1/left" in said
    listed.az("exit 0")
    theirs = [{"mode": "managed", "instances": [{"attributes": {"labels": {"fathom-lab": "own-nat"}}}]}]
    made.state_file.write_text(json.dumps({"version": 4, "resources": theirs}))
    assert f"{made.state_file} names 1 thing of another lab, own-nat in the" in listed(*down, code=1)
    made.state_file.write_text("{}")
    assert NOTHING in listed(*down)


KEPT = pytest.mark.parametrize("kept", [True, False], ids=["directory", "gone"])


@KEPT
def test_unknown_account_keeps_stateless_lab(aws_lab, listed, kept):
    """`aws` was missing when it was made, and the login of today may be another's."""
    place, down = aws_lab(None)
    if not kept:
        shutil.rmtree(place.directory)
    listed.az('[ "$1" = sts ] && echo 222222222222; exit 0', name="aws")
    for _ in range(2):
        said = down(1)
        assert "in which account it was made is not known" in said
        assert "the account 222222222222, which was asked, has nothing of it" in said
        (entry,) = entries_of(place.id)
        assert f"remove {f'{place.directory} and ' if kept else ''}{entry.file}" in said
        assert NOTHING not in said.replace(f"that {NOTHING}", "")
        assert (place.directory / JOURNAL).exists() == kept
        assert kept or f"aws-zones  {place.directory} is gone" in listed("list", code=1)
    # What is there is listed all the same.
    listed.az('[ "$1" = sts ] && echo 222222222222 || echo arn:aws:ec2:eu-west-2:2:left', name="aws")
    assert "    arn:aws:ec2:eu-west-2:2:left" in down(1)


@KEPT
def test_unidentified_login_keeps_stateless_lab(aws_lab, listed, kept):
    place, down = aws_lab("111111111111")
    if not kept:
        shutil.rmtree(place.directory)
    listed.az('[ "$1" != sts ]', name="aws")
    said = down(1)
    assert "it was made in the account 111111111111, and which account the login is of could not be" in said
    assert "see that `aws sts get-caller-identity` works" in said
    assert place.directory.exists() == kept
    assert kept or f"aws-zones  {place.directory} is gone" in listed("list", code=1)
    listed.az('[ "$1" = sts ] && echo 111111111111; exit 0', name="aws")
    assert f"{NOTHING} in the account 111111111111" in down(0)
    assert not place.directory.exists()


@pytest.mark.parametrize(
    ("owner", "today", "words"),
    [
        (None, "222222222222", "in which account .* begin anew with --directory DIR"),
        ("111111111111", "", "which account the login is of .* `aws sts get-caller-identity` works"),
    ],
)
def test_up_refuses_when_empty_answer_proves_nothing(aws_lab, listed, owner, today, words):
    """What an earlier call made would be paid for twice."""
    place, _ = aws_lab(owner)
    listed.az(f'[ "$1" != sts ] || echo {today}', name="aws")
    with pytest.raises(FathometerError, match=f"cannot make the lab: .*{words}"):
        must_not_be_there(Work(place, "aws-zones", yes=True), known(place))


def test_restored_older_journal_keeps_lab(made, listed):
    """It is of before the making, as somebody put it back from a copy; the state is gone."""
    journal = made.directory / JOURNAL
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    made.state_file.unlink()
    down = ("down", "azure-nat", "--directory", made.directory)
    listed.az('echo "$*" >> "$XDG_STATE_HOME/asked"; [ "$1" = group ] || echo /subscriptions/0-1/left')
    for _ in range(2):
        said = listed(*down, code=1)
        assert "    /subscriptions/0-1/left" in said
        assert NOTHING not in said
    listed.az("exit 0")
    assert f"{NOTHING} in the subscription 0-1" in listed(*down)
    assert entries_of(made.id) == []


def test_earlier_interrupted_removal_does_not_cover_later_lab(made, listed):
    """That one's directory was being taken away when it crashed; this one's is gone as a whole."""
    shutil.rmtree(made.directory)
    removed(made.directory).mkdir()
    listed.az("[ $1 = group ] || echo /subscriptions/0-1/left")
    down = ("down", "azure-nat", "--directory", made.directory)
    assert "    /subscriptions/0-1/left" in listed(*down, code=1)
    listed.az("exit 0")
    assert f"{NOTHING} in the subscription 0-1" in listed(*down)


def test_up_begins_nothing_beside_a_state(made, tmp_path):
    (made.directory / JOURNAL).unlink()
    (tmp_path / "infra/azure/nat").mkdir(parents=True)
    (tmp_path / "infra/azure/nat/main.tf").write_text("# Why?\n")
    with pytest.raises(FathometerError, match=r"its journal is gone, and .*terraform\.tfstate is there"):
        LabPlace(made.directory).begin(find(tmp_path / "infra", "azure-nat"), "tofu")


def test_register_keeps_every_known_tag(made, listed):  # noqa: ARG001 - it registers it
    made.note("where", owner="0-1", regions=[], tag="other-nat")
    register.note(made, may_exist=False)
    older = LabPlace(made.directory)
    older.entries = older.entries[:1]
    assert register.where(older) == Where("azure", "0-1", (), ("fathom-nat", "other-nat"))
