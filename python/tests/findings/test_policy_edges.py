"""What is said of applications at the edges: rows that are lost, shares near their ends, one run."""

import json

import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.truth import read
from fathometer.findings.analyse import analyse
from fathometer.findings.policies import Compared, PolicyComparison, compared
from fathometer.findings.policy_words import _percent, told, verdict
from fathometer.report.strip import verdicts
from fathometer.report.write import NOTHING_ASKED
from support.recordings import START, iso, lognormal_ns, write

SECOND = 1_000_000_000


def application(directory, name, answered, due, failed=0, round_=1):
    """Rows of so many requests, and the end of a client that had more: the others' rows are lost."""
    result = {
        "due": due,
        "answered": due - failed,
        "failed": failed,
        "ambiguous": 0,
        "shed": 0,
        "fallback": 0,
    }
    failures = [
        {"at_ns": START + n * SECOND, "kind": "request.ended", "request": answered + n, "outcome": "failed"}
        | {"waited_ns": 5 * SECOND, "tries": 1}
        for n in range(failed)
    ]
    events = [*failures, {"at_ns": START + due * SECOND, "kind": "client.ended", "result": result}]
    probe = {"mode": "tcp-client", "size": 64, "interval_ns": SECOND, "policy": {"name": name}}
    path = {"from": "here", "to": "there", "via": None}
    path["tags"] = {"policy": name, "round": str(round_), "study": "s"}
    manifest = {"probe": probe, "path": path}
    write(directory / f"{name}-{round_}", lognormal_ns(1, answered), label=f"way-{name}", events=events,
          manifest=manifest)  # fmt: skip


def test_missing_rows_are_not_failed_requests(tmp_path):
    """Where rows had no room on the disk, their requests counted as not served, and the policy came last. Nor
    are they left out of what it is compared by: of 62 that are known 2 failed, and of all 100 too.
    """
    for round_ in range(1, 5):
        application(tmp_path, "lossy", 60, 100, failed=2, round_=round_)
        application(tmp_path, "whole", 80, 100, failed=20, round_=round_)
        application(tmp_path, "other", 90, 100, failed=10, round_=round_)
    analysis = analyse(open_recordings([tmp_path]))
    (comparison,) = compared(analysis.applications)
    figures = {p.name: p.figures["unserved"].mean for p in comparison.policies}
    assert figures == {"other": pytest.approx(10 / 100), "whole": pytest.approx(20 / 100)}
    assert comparison.left_out == 4
    (served,) = [v for v in verdicts(analysis, NOTHING_ASKED) if v.head == "Requests served"]
    assert "the end of 152 not known" in served.details
    # By hand: 128 of 1,200 failed, and of 152 nobody knows.
    assert served.answer == "76.7 % to 89.3 %"


def test_a_share_has_no_interval_beyond_one(tmp_path):
    for round_, failed in ((1, 5), (2, 95)):
        application(tmp_path, "wild", 100 - failed, 100, failed=failed, round_=round_)
        application(tmp_path, "calm", 100, 100, round_=round_)
    (comparison,) = compared(analyse(open_recordings([tmp_path])).applications)
    unserved = {p.name: p.figures["unserved"] for p in comparison.policies}
    assert (unserved["wild"].low, unserved["wild"].high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "100 %"), (0.5, "50.00 %"), (0.99995, "99.9950 %"), (1 - 2e-7, "99.999980 %"), (0.0, "0.00 %")],
)
def test_partial_share_never_shows_as_100_percent(value, text):
    """One request of ten million was not served, and "100.0000 %" were."""
    assert _percent(value) == text


def test_application_without_rows_is_not_known(tmp_path):
    application(tmp_path, "lost", 0, 100)
    analysis = analyse(open_recordings([tmp_path]))
    assert "100 not known" in told(analysis.applications[0])
    (served,) = [v for v in verdicts(analysis, NOTHING_ASKED) if v.head == "Requests served"]
    assert served.answer == "not known"


def test_nothing_to_rank_by_is_said():
    policy = Compared("a", {}, None, None, 1, 0, {})
    assert "nothing to rank" in verdict(PolicyComparison("way", "failed", "unserved", True, (policy, policy)))


@pytest.mark.parametrize(
    ("lasts", "ns"),
    [("1m 30s", 90 * SECOND), ("2.5s", 5 * SECOND // 2), ("0s", 0), ("soon", None), ("3 s x", None)],
)
def test_truth_event_duration_is_parsed_strictly(tmp_path, lasts, ns):
    """A reader of its own took the numbers that it knew out of any text: "soon" lasted 0 ns, "3 s x" 3 s."""
    lines = [
        {"at": iso(START), "kind": "truth.started", "place": "fabric"},
        {"at": iso(START), "kind": "event.began", "place": "db", "event": "reflector-restart"}
        | {"parameters": {"down_ns": lasts}},
    ]
    (tmp_path / "truth.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    truth = read(tmp_path / "truth.jsonl")
    assert (truth and truth.happened[0].lasts_ns) == ns if ns is not None else truth is None
