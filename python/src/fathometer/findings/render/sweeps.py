"""Settings of a database's queries, in words."""

from fathometer.findings.render.table import findings

_AS_LONG = "takes {ratio:times} as long as with {first}, in the median"
findings({"query setting": (64, f"the same query ({{asked}}) with {{setting}} {_AS_LONG}")})
