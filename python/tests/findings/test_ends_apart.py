"""Ends of connections are one incident only where one cause fits each of them."""

from dataclasses import replace

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.finding import ns
from fathometer.findings.incidents import incidents, numbered
from support.found import SECOND, death, shift, stall
from support.recordings import START, lognormal_ns, write


def end(path, at, could_be="", how="reset", silent=0.0, connection=0):
    """An end that is not explained."""
    one = death(path, at, silent=silent, connection=connection, cause="unknown")
    return replace(one, terms={"how": how, "could be": could_be})


def folded(*findings):
    return [(i.paths, i.cause) for i in incidents(numbered(findings))]


def test_ends_without_common_cause_stay_separate():
    either = "flow_forgotten peer_down"
    assert folded(end("a", 0, either), end("b", 0.1, "peer_down path_down")) == [(("a", "b"), "unknown")]
    apart = folded(end("a", 0, either), end("b", 0.1, "path_down idle_expired"))
    assert apart == [(("a",), "unknown"), (("b",), "unknown")]
    # Each two of these three may have one cause; all three may not.
    three = folded(
        end("a", 0, either), end("b", 0.1, "peer_down path_down"), end("c", 0.2, "path_down idle_expired")
    )
    assert [paths for paths, _ in three] == [("a", "b"), ("c",)]
    # Two probes that gave up for what came had two reasons.
    ours = [end(path, 0, how="local_error") for path in "ab"]
    assert [paths for paths, _ in folded(*ours)] == [("a",), ("b",)]


def test_cause_excluded_by_one_end_is_dropped():
    """Fifteen servers that were wrong in fifteen ways: "the reflector did not run", for all of them."""
    hung = replace(stall("b", 0.05, 6), terms={"end": "open", "announced": ""})
    assert folded(end("a", 0, "flow_forgotten peer_down"), hung) == [
        (("a",), "unknown"),
        (("b",), "peer_paused"),
    ]
    # It fell silent with the other, and that may be why it ended.
    silent = end("a", 0, "peer_paused path_down", how="timed_out", silent=30)
    assert folded(silent, hung) == [(("a", "b"), "peer_paused")]
    excluded = end("a", 0, "flow_forgotten path_down", how="timed_out", silent=30)
    assert folded(excluded, hung) == [(("a", "b"), "unknown")]


def test_shift_elsewhere_joins_only_explained_ends():
    ends = [end("a", 0, "flow_forgotten peer_down"), shift("a", 0.3)]
    assert folded(*ends, shift("b", 0.5)) == [(("a",), "unknown"), (("b",), "path changed")]
    known = replace(death("a", 0), quantities=death("a", 0).quantities | {"silent": ns(SECOND)})
    assert [paths for paths, _ in folded(known, shift("a", 0.3), shift("b", 0.5))] == [("a", "b")]


@pytest.mark.parametrize(("ages", "claimed"), [((60, 60), False), ((60, 3_000), True)])
def test_common_age_rules_out_coincidence(tmp_path, ages, claimed):
    """ "One cause is likelier than chance" stood beside "an age or idle limit is the better explanation"."""
    second = 1_000_000_000
    for n, age in enumerate(ages):
        died = START + 3_200 * second + n * 4 * second
        events = [
            {"at_ns": died - age * second, "kind": "connection.opened", "connection": 0, "target": "t"},
            {
                "at_ns": died,
                "kind": "connection.closed",
                "connection": 0,
                "cause": "reset",
                "age_ns": age * second,
                "evidence": {"sent": 9, "answered": 9, "outstanding": 0},
            },
        ]
        write(tmp_path / f"r{n}", lognormal_ns(n, 4_000), label=f"p{n}", events=events)
    kinds = [f.kind for f in analyse(open_recordings([tmp_path])).findings]
    assert kinds.count("death") == 2
    assert ("coincidence" in kinds) == claimed
