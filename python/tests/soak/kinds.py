"""The faults: each does one thing, once, at random, and says what is then true.

`says(...)` names every verdict, with its way where there is one, that would be true of the stalls and ends
that come of it; `unknown` is never wrong. `least`: so many incidents there must be.
"""

import time
from dataclasses import dataclass

from soak.scene import PORT

KINDS = {}
BACK = {"forward": "forward", "backward": "return"}
SOONER = ("--stall-after", "250ms")
MORTAL = ("--user-timeout", "3s")


@dataclass(frozen=True)
class Truth:
    allowed: frozenset
    least: int


def says(*verdicts, least=1):
    return Truth(frozenset(verdicts), least)


def lost(way, least=1):
    """The path, and the way where it names one."""
    ways = ["forward", "return"] if way == "both" else [BACK[way]]
    return says("path_down", *(f"path_down/{w}" for w in ways), least=least)


def kind(function):
    KINDS[function.__name__] = function
    return function


def after(seconds=6):
    """Time for what follows."""
    time.sleep(seconds)


def dropped(s, way, rule):
    """Loss at one end's own network: on arrival at the server, or here."""
    host, end = ("server", "dport") if way == "forward" else ("client", "sport")
    s.filter(host, "input", f"meta l4proto {{ tcp, udp }} th {end} {PORT} {rule} drop")
    return host


@kind
def cut(s):
    s.start(*s.one("options", [(), SOONER]))
    way, lasts = s.one("way", ["forward", "backward", "both"]), s.number("s", 0.8, 6)
    s.event("link-cut", "--path", "p", "--direction", way, "--for", f"{lasts}s")
    after(lasts * 2 + 3)
    return lost(way)


@kind
def cut_for_good(s):
    s.start(*MORTAL)
    way = s.one("way", ["forward", "backward", "both"])
    s.event("link-cut", "--path", "p", "--direction", way)
    s.dead()
    return lost(way)


@kind
def cut_until_the_end_of_the_run(s):
    s.start()
    way = s.one("way", ["forward", "backward", "both"])
    s.event("link-cut", "--path", "p", "--direction", way)
    after(s.number("s", 2, 8))
    s.end()
    return lost(way)


@kind
def some_lost(s):
    s.start(*SOONER)
    way = s.one("way", ["forward", "backward"])
    host = dropped(s, way, f"numgen random mod 100 < {s.one('percent', [20, 40, 60, 75])}")
    after(s.number("s", 8, 14))
    s.filter(host, "input")
    after()
    return lost(way, least=0)


def plain(s):
    """A server that stamps nothing."""
    s.up()
    s.serve_plainly()
    s.measure(*s.one("options", [(), SOONER]), every=s.one("every", ["20ms", "50ms", "150ms", "400ms", "1s"]))


@kind
def some_lost_of_a_plain_server(s):
    """Its kernel acknowledges requests whose echoes it holds back, as one does whose server has stopped."""
    plain(s)
    way = s.one("way", ["forward", "backward"])
    host = dropped(s, way, f"numgen random mod 100 < {s.one('percent', [5, 10, 20, 40])}")
    after(s.number("s", 8, 14))
    s.filter(host, "input")
    after()
    return lost(way, least=0)


@kind
def plain_server_stopped(s):
    plain(s)
    s.stop(s.reflector, s.number("s", 1.2, 5))
    after()
    return says("peer_paused")


@kind
def some_datagrams_lost(s):
    s.start("--udp")
    way = s.one("way", ["forward", "backward"])
    dropped(s, way, f"numgen random mod 100 < {s.one('percent', [20, 40, 60])}")
    after(s.number("s", 5, 8))
    return lost(way, least=0)


@kind
def stamp_packets_cut(s):
    """A stateless reflector repeats the number of each packet: that is no count of those that came."""
    stateless = s.one("stateless", [["--stamp-stateless"], []])
    s.start("--stamp", reflector=["--stamp", *stateless])
    way, lasts = s.one("way", ["forward", "backward"]), s.number("s", 0.8, 5)
    s.event("link-cut", "--path", "p", "--direction", way, "--for", f"{lasts}s")
    after(lasts + 3)
    return lost(way)


@kind
def echoes_lost_and_acknowledgements_not(s):
    s.start(*SOONER)
    host = dropped(s, "backward", "meta length > 80")
    after(s.number("s", 0.5, 4))
    s.filter(host, "input")
    after()
    return lost("backward")


@kind
def large_lost(s):
    s.start(*MORTAL, "--size", "4KiB")
    way = s.one("way", ["forward", "backward"])
    dropped(s, way, "meta length > 1000")
    s.dead()
    return lost(way)


@kind
def own_filter(s):
    s.start()
    s.filter("client", "output", f"tcp dport {PORT} drop")
    after(s.number("s", 1, 4))
    s.filter("client", "output")
    after()
    return lost("forward")


@kind
def slower(s):
    s.start()
    added = s.number("s", 0.5, 3)
    s.event("path-change", "--path", "p", "--added", f"{int(added * 1000)}ms", "--for", "5s")
    after(8 + 2 * added)
    return lost("both", least=0)


@kind
def nothing(s):
    s.start(more=', jitter = { distribution = "pareto", scale = "200us", shape = 2.5 }, duplicate = "1%"')
    after(s.number("s", 6, 12))
    return says(least=0)


@kind
def reflector_stopped(s):
    s.start()
    s.stop(s.reflector, s.number("s", 0.6, 5))
    after()
    return says("peer_paused")


@kind
def probe_stopped(s):
    s.start()
    s.stop(s.probe, s.number("s", 0.6, 5))
    after()
    return says("local_paused", least=0)


@kind
def server_stands_still(s):
    s.start()
    lasts = s.number("s", 0.6, 5)
    s.event("host-pause", "--host", "server", "--for", f"{lasts}s")
    after(lasts + 5)
    return says("peer_paused")


@kind
def stopped_within_a_cut(s):
    s.start()
    way, lasts = s.one("way", ["forward", "backward"]), s.number("cut_s", 3, 6)
    s.event("link-cut", "--path", "p", "--direction", way, "--for", f"{lasts}s")
    s.stop(s.reflector, s.number("s", 0.3, lasts / 2 - 0.2))
    after(2 * lasts + 3)
    return lost(way)


@kind
def killed(s):
    s.start()
    s.kill()
    after(s.one("gap_s", [0.1, 1, 4]))
    s.reflect()
    after()
    return says("peer_down")


@kind
def restarted_after_the_end(s):
    s.start(*MORTAL)
    way = s.one("way", ["forward", "backward", "both"])
    s.event("link-cut", "--path", "p", "--direction", way, "--for", "14s")
    s.dead()
    s.kill()
    s.reflect()
    after(14)
    return lost(way)


@kind
def flushed(s):
    unknown = s.one("unknown", ["drop", "reset", "admit"])
    s.start(*MORTAL, box=f'unknown = "{unknown}"')
    s.event("flush-flows", "--middlebox", "box")
    after(10)
    flow = ["flow_forgotten", "flow_forgotten/forward", "flow_forgotten/return"]
    return says(*flow, least=unknown != "admit")


@kind
def idle(s):
    expiry = s.one("expiry", ["silent", "reset"])
    s.start(*MORTAL, box=f'idle = "2s"\non-expiry = "{expiry}"\nunknown = "drop"', every="3s")
    after(20)
    verdicts = ["idle_expired", "flow_forgotten"]
    return says(*verdicts, *(f"{v}/{way}" for v in verdicts for way in ("forward", "return")))


@kind
def reset(s):
    s.start()
    s.filter("server", "input", f"tcp dport {PORT} tcp flags & syn == 0 reject with tcp reset")
    s.dead()
    s.filter("server", "input")
    after()
    return says("flow_forgotten")


@kind
def destroyed_here(s):
    s.start()
    s.call("fabric", "exec", "--name", s.name, "client", "--", "ss", "-K", "dport", "=", f":{PORT}")
    s.dead()
    return says()


@kind
def migrated(s):
    s.start(*MORTAL)
    then = s.one("then", ["direct", "silent", "reset"])
    freeze, redirect = s.number("freeze_s", 0.6, 4), s.number("redirect_s", 1, 3)
    lengths = ["--freeze", f"{freeze}s", "--redirect", f"{redirect}s", "--redirect-added", "2ms"]
    brownout = ["--brownout", "1s", "--brownout-added", "1ms"]
    s.event("live-migration", "--host", "server", *brownout, *lengths, "--then", then)
    after(1 + freeze + redirect + 8)
    flow = ["flow_forgotten", "flow_forgotten/forward", "flow_forgotten/return"]
    return says("peer_paused", *(flow if then != "direct" else []))
