"""Events of connections, as a probe writes them."""


def opened(connection, at_ns, address="192.0.2.1"):
    return {
        "at_ns": at_ns,
        "kind": "connection.opened",
        "connection": connection,
        "target": "192.0.2.7:7",
        "local": f"{address}:{40_000 + connection}",
        "remote": "192.0.2.7:7",
        "connect_ns": 1_000_000,
        "lane": 0,
    }


def closed(connection, at_ns, age_ns, cause="timed_out", **evidence):
    facts = {"sent": 10, "answered": 10, "outstanding": 0, **evidence}
    return {
        "at_ns": at_ns,
        "kind": "connection.closed",
        "connection": connection,
        "cause": cause,
        "age_ns": age_ns,
        "evidence": facts,
    }


def explained(connection, at_ns, verdict, because, **more):
    return {
        "at_ns": at_ns,
        "kind": "connection.explained",
        "connection": connection,
        "about": "closing",
        "verdict": verdict,
        "because": because,
        "fresh": "echoed",
        **more,
    }
