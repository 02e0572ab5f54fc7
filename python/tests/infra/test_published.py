"""Every path of `../shared/reference/published.toml` has a root that builds it."""

import calendar
import functools
import json
import re
import tomllib
from ipaddress import ip_address, ip_network

import pytest

from fathometer.study.outputs import read_lab, study_text
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

# What each article measured there, as a study that goes with the root (`--like`), and what the docs call the
# article in the root's line.
STUDIES = {
    "azure_latency_1": ("Azure Latency", {"zones": "eleven-hours"}),
    "azure_latency_2": (
        "Azure Latency",
        {"zones": "zones-and-balancers", "balancer": "zones-and-balancers", "atlantic": "connection-methods"},
    ),
    "hub_and_spoke": ("hub and spoke playground", {"hub-and-spoke": "hub-and-spoke"}),
    "sql_server": ("SQL Server article", {"balancer": "psping-sizes"}),
    "accelerated_networking": ("Accelerated Networking", {"placement": "accelerated-networking"}),
}
# Rows that want another than the rest of their article.
OTHERS = {
    ("sql_server", "async_network_io_s"): "tds-packet-size-lab",
    ("accelerated_networking", "without_ppg"): "proximity-placement",
    ("accelerated_networking", "with_ppg"): "proximity-placement",
}
DATED = re.compile(rf"\b\d{{1,2}} (?:{'|'.join(calendar.month_name[1:])}) 20\d\d\b")

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


def test_published_paths_match_known_paths():
    assert set(published()) == set(PATHS)


@functools.cache
def docs():
    """Of docs/cloud.md: the cells of each root's line, the studies that go with it, and all of the text."""
    text = (ROOT / "docs/cloud.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    lines = {row[0].strip("`"): row for row in rows if len(row) == 6}
    studies = {row[0].strip("`"): row[2].split(", ") for row in rows if len(row) == 3}
    return lines, studies, text


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("root", "article", "row"),
    [of_root("azure", PATHS[key][0], PATHS[key][0], *key) for key in PATHS],
)
def test_every_published_row_has_root_study_and_docs(root, article, row, tmp_path):
    lines, studies, text = docs()
    name, of_roots = STUDIES[article]
    cells = lines[root]
    question, takes, costs = cells[1], cells[4], cells[5]
    # What it answers, and whose question that is; how long it takes; what it costs an hour.
    assert "?" in question
    assert name in question
    assert re.fullmatch(r"(up to )?\d+ min, (\d+ h )?\d+ min( side by side)?", takes)
    assert re.fullmatch(r"\d+\.\d\d to \d+\.\d\d \$", costs)
    assert DATED.search(text.partition("## What it costs")[2].partition("| an hour |")[0])
    # How it is removed.
    assert "Each lab is removed by `fathom cloud down azure-ROOT`" in text
    # The study that goes with it, made of what the lab says of itself, has the row's path.
    study = OTHERS.get((article, row), of_roots[root])
    assert study in studies[root]
    lab = read_lab(json.dumps(lab_of("azure", root).outputs).encode(), root)
    made = tmp_path / "study.toml"
    made.write_text(study_text(lab, ROOT / f"studies/{study}.toml", None, tmp_path))
    measured = read_study(made)
    assert PATHS[article, row][1] in [scenario.label for scenario in measured.scenario]
    assert measured.probe or measured.query
    assert read_study(ROOT / f"studies/{study}.toml").repetitions == measured.repetitions


@pytest.mark.acceptance
@pytest.mark.parametrize("root", [of_root("azure", "placement")])
def test_published_throughput_has_its_own_study(root, tmp_path):
    """2.01 against 2.82 Gbit/s, of the same pairs as the round trips."""
    assert "accelerated-networking-throughput" in docs()[1][root]
    lab = read_lab(json.dumps(lab_of("azure", root).outputs).encode(), root)
    made = tmp_path / "study.toml"
    like = ROOT / "studies/accelerated-networking-throughput.toml"
    made.write_text(study_text(lab, like, None, tmp_path))
    measured = read_study(made)
    assert {probe.mode for probe in measured.probe} == {"throughput"}
    assert {"an-off", "an-on"} <= {scenario.label for scenario in measured.scenario}


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "root", [of_root("azure", root) for root in sorted({root for root, _ in PATHS.values()})]
)
def test_a_root_builds_what_was_published(root):
    told = lab_of("azure", root).outputs["fathometer"]["value"]
    labels = {s["label"] for s in told["scenarios"]}
    assert {label for of, label in PATHS.values() if of == root} <= labels


@pytest.mark.acceptance
@pytest.mark.parametrize("root", [of_root("azure", "all")])
def test_all_root_builds_exactly_published_paths(root):
    told = lab_of("azure", root).outputs["fathometer"]["value"]
    labels = [s["label"] for s in told["scenarios"]]
    assert sorted(labels) == sorted({IN_ALL.get(label, label) for _, label in PATHS.values()})
    # From one client: all but the pairs, and the way from the region near by.
    assert {s["from"] for s in told["scenarios"] if not s["label"].startswith("an-")} == {"client", "near"}
    # The emulated network has no pair of hosts of its own for the group.
    study = read_study(ROOT / "studies/azure-all.toml")
    assert {s.label for s in study.scenario} == set(labels) - {"an-on-group"}


@pytest.mark.acceptance
@pytest.mark.parametrize("root", [of_root("azure", root) for root in roots("azure")])
def test_jump_network_peers_with_every_host_network(root):
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
