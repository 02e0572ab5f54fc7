"""Ratios of contenders within the rounds of benches/peers.py: their quartiles, and the interval (95 %) that a bootstrap over the
rounds gives their median, held against what is aimed at."""

import collections
import dataclasses
import statistics

from shared import interval

KEYS = ("p50", "p99", "p99_9", "mean", "per_s")
LABELS = {"p50": "p50", "p99": "p99", "p99_9": "p99.9", "mean": "mean", "per_s": "per s"}
BEST, FLOOR, OURS = "best peer", "floor", "fathom"
TO_PEERS = {"p50": 1.0, "p99": 1.05, "p99_9": 1.2, "per_s": 1.0}
TO_FLOOR = {"p50": 1.03}
"""Aims: a ratio of times is to be no more, one of rates no less."""


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Of one contender's figure to another's, in the rounds that have both."""

    of: str
    to: str
    key: str
    rounds: int
    median: float
    quartiles: tuple[float, float]
    interval: tuple[float, float] | None
    aim: float | None

    def verdict(self):
        """Whether the interval lies on one side of the aim; None: nothing is aimed at."""
        if self.aim is None:
            return None
        if self.interval is None:
            return "too few rounds"
        low, high = self.interval
        if self.key == "per_s":
            low, high = -high, -low
        aim = -self.aim if self.key == "per_s" else self.aim
        return "within" if high <= aim else "beyond" if low > aim else "not resolved"

    def line(self):
        low, high = self.quartiles
        within = f"{self.interval[0]:.3f}-{self.interval[1]:.3f}" if self.interval else "-"
        aim = f"{'≥' if self.key == 'per_s' else '≤'} {self.aim:.2f}" if self.aim is not None else ""
        cells = f"{self.median:6.3f}  {low:.3f}-{high:.3f}  {within:<11}  {aim:<6}  {self.verdict() or ''}"
        return f"  {LABELS[self.key]:<6} {f'{self.of} to {self.to}':<22} {cells}".rstrip()

    def told(self):
        return dataclasses.asdict(self) | {"verdict": self.verdict()}


def ratio(of, to, key, pairs, aim=None):
    """None: fewer than two rounds have both."""
    values = [mine / other for mine, other in pairs if mine and other]
    if len(values) < 2:
        return None
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(of, to, key, len(values), middle, (low, high), interval(values), aim)


def best_of(results, peers, key, coarse):
    """The best peer's figure of each round, and how often which was it. One that prints too coarsely is no measure."""
    able = [name for name in peers if (name, key) not in coarse]
    best, who = [], collections.Counter()
    for at in range(len(results[OURS])):
        there = [(getattr(results[name][at], key), name) for name in able]
        there = [pair for pair in there if pair[0]]
        value, name = (max if key == "per_s" else min)(there, default=(None, None))
        best.append(value)
        who.update([name] if name else [])
    return best, dict(who)


def all_of(results, peers, coarse):
    """Each ratio, ours first; and who the best peers were."""
    ratios, who = [], {}

    def column(name, key):
        return [getattr(result, key) for result in results[name]]

    def add(of, to, key, values, aim=None):
        found = ratio(of, to, key, zip(column(of, key), values, strict=True), aim)
        ratios.extend([found] if found else [])

    peers = [name for name in peers if name in results]
    for key in KEYS:
        if OURS in results and peers:
            best, who[key] = best_of(results, peers, key, coarse)
            add(OURS, BEST, key, best, TO_PEERS.get(key))
            for name in peers:
                aim = None if (name, key) in coarse else TO_PEERS.get(key)
                add(OURS, name, key, column(name, key), aim)
        if FLOOR in results:
            for name in results:
                if name != FLOOR:
                    aim = TO_FLOOR.get(key) if name == OURS else None
                    add(name, FLOOR, key, column(FLOOR, key), aim)
    return ratios, who


def tell(ratios, who):
    print(f"  {'':<29} {'median':>6}  {'quartiles':<11}  {'95 %':<11}  {'aim':<6}  the interval is")
    for found in ratios:
        print(found.line())
    for key, names in who.items():
        if len(names) > 1:
            often = ", ".join(
                f"{name} {count}" for name, count in sorted(names.items(), key=lambda one: -one[1])
            )
            print(f"  best peer by {LABELS[key]}, rounds: {often}")
