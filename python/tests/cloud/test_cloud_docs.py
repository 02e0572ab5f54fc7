"""What docs/cloud.md tells a reader to do: its three commands lead to the report, and what to do about words
of a cloud's is what `fathom cloud` says, too.
"""

import re
import shlex

import pytest

from fathometer.cloud.tool import advice
from fathometer.dataset import open_recordings
from support.programs import ROOT

DOCS = (ROOT / "docs/cloud.md").read_text()
BEGINS = "Then three commands:\n\n"
TROUBLE = "## When something goes wrong"


def commands():
    """The three, without what is said beside them."""
    lines = DOCS.partition(BEGINS)[2].partition("\n\n")[0].splitlines()
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.acceptance
def test_three_commands_lead_from_nothing_to_the_report(person):
    up, run, down = commands()
    assert [one[:4] for one in (up, run, down)] == [
        ["fathom", "cloud", v, "azure-zones"] for v in ("up", "run", "down")
    ]
    # What is another for each reader: the own address, and the binary. Two words are added: the user that
    # hosts have here, and one that cuts a study of 51 minutes short.
    here = {
        "198.51.100.7/32": "203.0.113.1/32",
        "target/x86_64-unknown-linux-musl/dist/fathom": person.binary,
    }
    called = [[here.get(word, word) for word in one[2:]] for one in (up, run, down)]
    assert {*here} <= {*up, *run}
    said = person(*called[0], "--var", "user=root", answer="y\ny\n")
    assert "costs " in said
    assert "5 things are there" in said
    person(*called[1], "--quick", "--fathom", person.binary)
    page = person.home / "azure-zones.html"
    assert "same-zone" in page.read_text()
    assert len(open_recordings([person.recordings])) > 0
    assert "nothing of it is left in the subscription 0" in person(*called[2], answer="y\n")
    assert person.traces()["things"] == []
    assert page.exists()


SAYS = {
    "QuotaExceeded": "more processors in that region",
    "SkuNotAvailable": "size",
    "MissingSubscriptionRegistration": "Microsoft.Compute, Microsoft.Network and Microsoft.DevTestLab",
    "AWS account ID not allowed": "the login is of another account than the lab",
    "AuthorizationFailed": "that is meant",
    "does not match any of the checksums": "is another than the one that this lab was made with",
}
"""By a row's first words: what both the row and the program tell of them."""


def rows_of_the_table():
    """The words of each row, and what it says of them."""
    table = DOCS.partition(TROUBLE)[2].partition("## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    for words, what in rows:
        # That one is no cloud's: the study knows it by its kind.
        if "Address already in use" not in words:
            yield (
                [word.rstrip(".") for word in re.findall(r"`([^`]+)`", words) if word != "cores"],
                what.strip(),
            )


def test_docs_error_table_lists_every_known_error():
    assert [words[0] for words, _ in rows_of_the_table()] == [*SAYS]


@pytest.mark.parametrize(("words", "what"), [*rows_of_the_table()])
def test_docs_error_advice_matches_program(words, what):
    assert SAYS[words[0]] in what
    for word in words:
        # As Azure says it of a quota, and the tool of a provider.
        more = " 5.2.0 is no longer available" if word.endswith("version") else ": so many cores"
        assert SAYS[words[0]] in advice(f"Error: {word}{more}")
