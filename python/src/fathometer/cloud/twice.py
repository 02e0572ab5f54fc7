"""Nothing is made a second time, or in the way of another lab of the same name: what is there already is this
lab's, that of another directory, or somebody else's.
"""

from __future__ import annotations

from typing import Final

from fathometer.clean import cleaned
from fathometer.cloud import left, register, where
from fathometer.cloud.labs import variables_of
from fathometer.cloud.work import Work, command_for
from fathometer.counts import are, count
from fathometer.errors import FathometerError

_MAKE: Final = "make the lab"


def must_have_its_name_alone(work: Work, asked: where.Where) -> None:
    """Raises `FathometerError` where a lab in another directory has the names that this one's things would
    have. Of one whose directory is gone the cloud tells more (`must_not_be_there`).
    """
    other = next((one for one in _of_its_name(work, asked) if not _is_gone(one)), None)
    if other is not None:
        down, up = (command_for(verb, other.lab, other.directory) for verb in ("down", "up"))
        raise FathometerError(
            _MAKE,
            f"a lab of this name is there{other.where.words}, begun in {other.directory}",
            f"{up} goes on with it, and {down} removes it{_other_name(work)}",
        )


def _must_have_no_lost_one(work: Work, asked: where.Where, problem: str) -> None:
    """Raises `FathometerError` where the cloud could not be asked, and a lab of this name was made whose
    directory is gone.
    """
    other = next(iter(_of_its_name(work, asked)), None)
    if other is not None:
        raise FathometerError(
            _MAKE,
            f"a lab of this name was made{other.where.words}, {other.directory} does not hold it any more,"
            f" and whether it is still there could not be found out: {problem}",
            f"then {work.command('up')} again; {command_for('down', other.lab, other.directory)} asks for"
            f" that one{_other_name(work)}",
        )


def _of_its_name(work: Work, asked: where.Where) -> list[register.Entry]:
    """Other labs of which something may exist. One that was begun has its name already, whoever else has."""
    return [] if register.may_exist(work.place) else register.of_name(asked, but=work.place.id)


def _is_gone(entry: register.Entry) -> bool:
    try:
        return entry.is_gone
    except FathometerError:
        # Nobody can look into it.
        return False


def _other_name(work: Work) -> str:
    return "; or begin this one with another name: --var name=NAME" * (
        "name" in variables_of(work.place.root)
    )


def must_not_be_there(work: Work, asked: where.Where) -> None:
    """What bears the lab's tag before anything is made is somebody else's. Where an earlier call began to
    make it and there is no state, it is that call's, and would be paid for twice.
    """
    place = work.place
    what = work.broken_state() or work.emptied_state()
    if what is None:
        return
    begun, made = register.may_exist(place), register.where(place)
    if begun:
        asked = where.both(made, asked)
    longest = count(left.LONGEST_S // 60, "minute")
    work.say(f"asking the cloud what bears the lab's tag (up to {longest} for each question)")
    answer = left.look(asked)
    number = len(answer.things)
    if not begun:
        if answer.problem is not None:
            _must_have_no_lost_one(work, asked, answer.problem)
            work.say(f"whether another lab has its name could not be found out: {answer.problem}")
        if answer.things:
            raise FathometerError(
                _MAKE,
                f"{count(number, 'thing')} {are(number)} there already of a lab of this name, which is not"
                f" this one{asked.words}: {cleaned(answer.things[0])}",
                "it may be somebody else's: begin with another name, --var name=NAME",
            )
        return
    words = f"it was begun, {place.state_file} {what}"
    if answer.problem is not None and place.begun_in_vain:
        return
    if answer.problem is not None:
        raise FathometerError(
            _MAKE,
            f"{words}, and whether something was made could not be found out: {answer.problem}",
            f"then {work.command('up')} again; where you see yourself that nothing of it is there, begin anew"
            " with --directory DIR",
        )
    if answer.things:
        raise FathometerError(
            _MAKE,
            f"{words}, and of what bears its tag {count(number, 'thing')} {are(number)} there{asked.words}: "
            f"{cleaned(answer.things[0])}",
            f"{work.command('down')} lists what is left of it",
        )
    if not place.begun_in_vain:
        # What is made where nobody looked is paid for twice.
        where.must_prove(made, _MAKE, f"{work.command('up')} again", "begin anew with --directory DIR")
