"""Where the time of a database's queries went, in words."""

from typing import Final

from fathometer.findings.render.table import facts, findings

_MEAN: Final = "of a query's {wall:duration} in the mean"
_PART: Final = "{part:within} were the {party}"
_OF: Final = "({queries:count query|queries})"
_OVER: Final = "{b_ns:duration} over {b} and {a_ns:duration} over {a}"
findings(
    {
        "query time": (70, f"{_MEAN}, {_PART}: most of it {_OF}"),
        "query time likely": (60, f"{_MEAN}, {_PART}, which seems to be most of it {_OF}"),
        "query time open": (
            50,
            f"{_MEAN} no part is most of it for sure; {{open:duration}} may be one's or another's {_OF}",
        ),
        "queries failed": (72, "{failed} of {of:count query|queries} failed"),
        "query over another path": (
            74,
            f"the same query ({{asked}}) takes {_OVER} in the median: {{ratio:times}} as long",
        ),
    }
)
facts(
    {
        "query part": "the {party}: {part:within}",
        "query asked": "asked: {asked}",
        "query failure": "{why}: {times:count query|queries}",
        "query sent again": "in {queries:count query|queries} this end sent {segments:count segment} again",
        "query connections": "of {connections:count connection} side by side the medians lie between "
        "{least:duration} (connection {first}) and {most:duration} (connection {last})",
        "query not split": "{times:count query|queries} with bounds alone: {why}",
    }
)
