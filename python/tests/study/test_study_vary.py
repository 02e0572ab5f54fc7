"""Factors of a study: what `[[vary]]` makes of hosts and scenarios, and what is wrong with one."""

import pytest

from fathometer.study.read import parse

HEAD = "format = 1\nname = 'f'\nrepetitions = 20\n[[probe]]\ncount = 5\n"
AN = "[[vary]]\nfactor = 'an'\nlevels = ['off', 'on']\n"
MTU = "[[vary]]\nfactor = 'mtu'\nlevels = [1500, 4000, 9000]\n"
HERE = "[[host]]\nname = 'here'\nlocal = true\n"


def scenario(label, **keys):
    more = "".join(
        f"{k.replace('_', '-')} = {v}\n" for k, v in {"from": "'here'", "to": "'here'", **keys}.items()
    )
    return f"[[scenario]]\nlabel = '{label}'\n{more}"


def read(text):
    study, problems = parse(text)
    assert problems == []
    return study


def said(text):
    study, problems = parse(text)
    assert study is None or problems
    return [(p.line, f"{p.what}; {p.remedy}") for p in problems]


def test_each_combination_is_a_tagged_scenario():
    study = read(HEAD + AN + MTU + HERE + scenario("{an}-{mtu}") + scenario("plain"))
    assert [s.label for s in study.scenario] == [
        *("off-1500", "off-4000", "off-9000", "on-1500", "on-4000", "on-9000", "plain")
    ]  # fmt: skip
    assert study.scenario[4].tags == {"an": "on", "mtu": "4000", "vary": "{an}-{mtu}"}
    assert study.scenario[-1].tags == {}


def test_unnamed_factors_are_appended_to_label():
    study = read(HEAD + AN + HERE + scenario("pair", via="'networking {an}'", tags="{ region = 'uksouth' }"))
    assert [(s.label, s.via) for s in study.scenario] == [
        ("pair-an-off", "networking off"),
        ("pair-an-on", "networking on"),
    ]
    assert study.scenario[0].tags == {"region": "uksouth", "an": "off", "vary": "pair-an-{an}"}


def test_hosts_and_numbers_are_filled_in_too():
    hosts = "[[host]]\nname = 'h-{mtu}'\nssh = { address = '10.0.0.{mtu}', port = '{mtu}' }\n"
    study = read(
        HEAD + MTU + hosts + scenario("x", **{"from": "'h-{mtu}'", "to": "'h-{mtu}'", "port": "'{mtu}'"})
    )
    assert [(h.name, h.ssh.address, h.ssh.port) for h in study.host][1:] == [
        ("h-4000", "10.0.0.4000", 4000),
        ("h-9000", "10.0.0.9000", 9000),
    ]
    assert (study.scenario[0].source, study.scenario[0].port) == ("h-1500", 1500)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (HEAD + AN + HERE + scenario("a"), 7, 'no scenario names the factor "an"; write {an} in one'),
        (HEAD + AN + HERE + scenario("{ab}"), 12, 'there is no factor "ab"; known are an'),
        (HEAD + AN + AN + HERE + scenario("{an}"), 10, 'two factors are called "an"'),
        (
            HEAD + AN.replace("'on'", "'off'") + HERE + scenario("{an}"),
            6,
            "has a level twice; name each once",
        ),
        (
            HEAD + AN.replace("'on'", "'o n'") + HERE + scenario("{an}"),
            8,
            '`vary.levels`: a level cannot be "o n"; use letters',
        ),
        (HEAD + AN.replace(", 'on'", "") + HERE + scenario("{an}"), 6, "has no two levels, off alone;"),
        (
            HEAD + AN.replace("'on'", "1.5") + HERE + scenario("{an}"),
            8,
            "`vary.levels`: a level cannot be 1.5; a level is a text or a whole number",
        ),
        (
            HEAD + AN.replace("'on'", "true") + HERE + scenario("{an}"),
            8,
            "`vary.levels`: a level cannot be true; a level is a text or a whole number",
        ),
        (
            HEAD + AN.replace("'off', 'on'", "99999999999999999999") + HERE + scenario("{an}"),
            8,
            "`vary.levels`: a level cannot be 99999999999999999999; a whole number is from 0 to",
        ),
        (
            HEAD + AN.replace("'off', 'on'", ", ".join(map(str, range(65)))) + HERE + scenario("{an}"),
            8,
            "`vary.levels` has 65 values; write at most 64 levels",
        ),
        # Of the second of two that were made of one: where it was written.
        (HEAD + AN + HERE + scenario("x") + scenario("{an}", to="'{an}'"), 19, 'host is called "off"'),
        (HEAD + HERE + scenario("{an}"), 10, "cannot be"),
    ],
)
def test_factor_mistake_is_reported_at_its_line(text, line, words):
    problems = said(text)
    assert (line, True) == (problems[0][0], words in problems[0][1]), problems
    # A level that is wrong is told once, and not once for each kind that it may be.
    assert len(problems) == 1 or "levels" not in words


@pytest.mark.parametrize(("factors", "levels", "number"), [(3, 11, "1,331"), (6, 30, "729,000,000")])
def test_too_many_combinations_are_refused(factors, levels, number):
    """Before any is made: of six factors with 30 levels no memory holds them."""
    many = "".join(f"[[vary]]\nfactor = 'f{n}'\nlevels = {list(range(levels))}\n" for n in range(factors))
    label = "".join(f"{{f{n}}}" for n in range(factors))
    ((_, words),) = said(HEAD + many + HERE + scenario(label))
    assert f"{number} combinations are more than 1,000" in words
