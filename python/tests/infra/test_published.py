"""Every path of `../shared/reference/published.toml` has a root that builds it."""

import tomllib
from ipaddress import ip_address, ip_network

import pytest

from fathometer.study.read import read_study
from support.programs import ROOT
from support.terraform import lab_of, of_root, roots

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

# What the root for all of Azure calls a path that two articles have: it is there once.
IN_ALL = {
    "same-network-zone-1": "same-zone-group",
    "same-network-zone-2": "cross-zone-1-2",
    "same-network-zone-3": "cross-zone-1-3",
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


@pytest.mark.parametrize(
    "root", [of_root("azure", root) for root in sorted({root for root, _ in PATHS.values()})]
)
def test_a_root_builds_what_was_published(root):
    told = lab_of("azure", root).outputs["fathometer"]["value"]
    labels = {s["label"] for s in told["scenarios"]}
    assert {label for of, label in PATHS.values() if of == root} <= labels


@pytest.mark.parametrize("root", [of_root("azure", "all")])
def test_one_root_builds_all_that_was_published_and_nothing_else(root):
    told = lab_of("azure", root).outputs["fathometer"]["value"]
    labels = [s["label"] for s in told["scenarios"]]
    assert sorted(labels) == sorted({IN_ALL.get(label, label) for _, label in PATHS.values()})
    # From one client: all but the pairs, and the way from the region near by.
    assert {s["from"] for s in told["scenarios"] if not s["label"].startswith("an-")} == {"client", "near"}
    # The emulated network has no pair of hosts of its own for the group.
    study = read_study(ROOT / "studies/azure-all.toml")
    assert {s.label for s in study.scenario} == set(labels) - {"an-on-group"}


@pytest.mark.parametrize("root", [of_root("azure", root) for root in roots("azure")])
def test_the_jump_hosts_network_is_joined_to_every_network_with_hosts(root):
    resources, _ = lab_of("azure", root).planned(public_jump=True)
    of = lambda kind: [r for r in resources.values() if r.kind == f"azurerm_{kind}"]  # noqa: E731
    networks = {n["name"]: ip_network(n["address_space"][0]) for n in of("virtual_network")}
    joined = {
        frozenset((p["virtual_network_name"], p["name"].removeprefix(f"{p['virtual_network_name']}-")))
        for p in of("virtual_network_peering")
    }
    where = {}
    for interface in of("network_interface"):
        address = ip_address(interface["ip_configuration"][0]["private_ip_address"])
        (where[interface["name"]],) = [name for name, network in networks.items() if address in network]
    jump = where.pop("fathom-jump")
    apart = {n for n in where.values() if n != jump and frozenset((jump, n)) not in joined}
    assert apart == set()
