"""Every path of `../shared/reference/published.toml` has a root that builds it."""

import tomllib

import pytest

from support.programs import ROOT
from support.terraform import lab_of

PUBLISHED = ROOT.parent / "shared/reference/published.toml"

# By article and what it calls a path: the root, and the label there.
PATHS = {
    ("azure_latency_1", "same-zone"): ("zones", "same-zone"),
    ("azure_latency_1", "cross-zone"): ("zones", "cross-zone-1-2"),
    ("azure_latency_1", "cross-region"): ("zones", "cross-region"),
    ("azure_latency_2", "same-host"): ("zones", "same-host"),
    ("azure_latency_2", "same-zone"): ("zones", "same-zone"),
    ("azure_latency_2", "cross-zone"): ("zones", "cross-zone-1-2"),
    ("azure_latency_2", "cross-region"): ("zones", "cross-region"),
    ("azure_latency_2", "same-zone-lb"): ("balancer", "same-zone-lb"),
    ("azure_latency_2", "cross-zone-lb"): ("balancer", "cross-zone-lb"),
    ("azure_latency_2", "transatlantic"): ("atlantic", "transatlantic-peering"),
    ("azure_latency_2", "transatlantic-lb"): ("atlantic", "transatlantic-lb"),
    ("azure_latency_2", "transatlantic-private-endpoint"): ("atlantic", "transatlantic-private-endpoint"),
    **{
        ("hub_and_spoke", f"{theirs}-{zone}"): ("hub-and-spoke", f"{ours}-zone-{zone}")
        for theirs, ours in {
            "same-vnet-ppg": "same-network",
            "peered-vnets": "peering",
            "hub-vpn-gateway": "vpn",
            "hub-firewall": "firewall",
        }.items()
        for zone in (1, 2, 3)
    },
    # Directly and by the virtual address; and the waits, of a server behind either.
    ("sql_server", "vip_overhead_max_ms"): ("balancer", "same-zone-lb"),
    ("sql_server", "async_network_io_s"): ("balancer", "same-zone"),
    ("accelerated_networking", "off"): ("placement", "an-off"),
    ("accelerated_networking", "on"): ("placement", "an-on"),
    ("accelerated_networking", "without_ppg"): ("placement", "an-on"),
    ("accelerated_networking", "with_ppg"): ("placement", "an-on-group"),
}


def published():
    """What the articles call their paths."""
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} is missing: it lies beside the repository, and not in it")
    articles = tomllib.loads(PUBLISHED.read_text())["article"]
    for name, article in articles.items():
        for row in article.get("rows", ()):
            yield name, row["scenario"]
        for key, values in article.items():
            if "zones" in article and isinstance(values, list) and key != "zones":
                yield from ((name, f"{key}-{zone}") for zone in article["zones"])
    sql, fast = articles["sql_server"], articles["accelerated_networking"]
    yield from (("sql_server", key) for key in ("vip_overhead_max_ms", "async_network_io_s") if key in sql)
    for key in ("latency_us", "throughput_gbps", "ppg_and_an_ms_as_printed"):
        yield from (("accelerated_networking", level) for level in fast[key])


def test_every_published_path_is_one_of_these_and_each_of_these_was_published():
    assert set(published()) == set(PATHS)


@pytest.mark.parametrize("root", sorted({root for root, _ in PATHS.values()}))
def test_a_root_builds_what_was_published(root):
    told = lab_of("azure", root).outputs["fathometer"]["value"]
    labels = {s["label"] for s in told["scenarios"]}
    assert {label for of, label in PATHS.values() if of == root} <= labels
