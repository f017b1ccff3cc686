"""What the results say of each network, and of all together."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.figures_page import NAMES
from benchmarks.light.networks import NETWORKS, Light
from benchmarks.zoo import OURS

DENSE, CHAINS, DEPTHWISE, ATTENTION, MOVES, REST = (
    "dense",
    "chains",
    "depthwise",
    "attention",
    "moves",
    "rest",
)
KERNELS = {
    DENSE: ("gemm", "gemm_made", "winograd", "conv"),
    CHAINS: ("chain", "pooled_chain"),
    DEPTHWISE: ("depthwise",),
    ATTENTION: ("matmul", "attention", "softmax"),
    MOVES: ("copy_nd", "interleave_planes", "transpose", "reorder", "concat"),
}
"""Which kernels are of which class, without what stands between angle brackets."""
NORMS = ("LayerNormalization", "Softmax")
"""Layers of transformers: of class ATTENTION, whatever kernel computes them."""


class Pair(NamedTuple):
    """A network with fewer MACs than another one, which takes longer."""

    fewer: "Network"
    faster: "Network"


@dataclass(frozen=True)
class Network:
    """A row of the results, read by the page; texts are in the units that it shows."""

    name: str
    row: dict[str, Any]

    @property
    def light(self) -> Light:
        """What is published of it."""
        return NETWORKS[self.name]

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return self.light.title

    def ms(self, threads: int = 1, engine: str = OURS) -> float:
        """Milliseconds of one call: the median over turns of the least of a turn; NaN where the
        engine failed.
        """
        seconds = self.row["seconds"].get(str(threads), {}).get(engine)
        return 1e3 * seconds if seconds else math.nan

    def ratio(self, threads: int) -> tuple[float, str]:
        """The time of the fastest other engine over Infuse's, and its name."""
        others = self.row["seconds"][str(threads)].keys() - {OURS}
        peer = min(others, key=lambda name: self.ms(threads, name))
        return self.ms(threads, peer) / self.ms(threads), NAMES[peer]

    def roof(self, threads: int = 1) -> float:
        """The least time that the machine needs over Infuse's."""
        return float(self.row["bound"][str(threads)]) / (self.ms(threads) / 1e3)

    @property
    def macs(self) -> float:
        """Millions of multiplications with accumulation."""
        return float(self.row["counts"]["macs"]) / 1e6

    @property
    def parameters(self) -> float:
        """Millions."""
        return float(self.row["counts"]["parameters"]) / 1e6

    @property
    def access(self) -> float:
        """Megabytes that its layers read and write, one by one."""
        return float(self.row["counts"]["read"] + self.row["counts"]["written"]) / 1e6

    @property
    def calls(self) -> float:
        """Megabytes that the kernel calls read and write, in which layers are fused."""
        return float(self.row["compiled"]["access"]) / 1e6

    @property
    def rate(self) -> float:
        """Thousands of millions of MACs in a second, in one thread."""
        return self.macs / self.ms()

    @property
    def peak(self) -> float:
        """The rate at which the machine's arithmetic would bound it in one thread."""
        return float(self.row["counts"]["flops"] / 2e9 / self.row["bound"]["1"])

    @property
    def macs_by(self) -> dict[str, float]:
        """The part of its MACs by kind of layer, in percent."""
        return self._parts("macs")

    @property
    def access_by(self) -> dict[str, float]:
        """The part of its layers' memory access by kind of layer, in percent."""
        return self._parts("access")

    def _parts(self, what: str) -> dict[str, float]:
        total = sum(part[what] for part in self.row["parts"].values())
        return {name: 100 * part[what] / total for name, part in self.row["parts"].items()}

    @property
    def time_by(self) -> dict[str, float]:
        """The part of Infuse's time by class of kernel, in percent."""
        times = dict.fromkeys((*KERNELS, REST), 0.0)
        for kernel in self.row["kernels"]:
            times[class_of(kernel)] += kernel["least_ms"]
        total = sum(times.values())
        return {name: 100 * time / total for name, time in times.items()}


def class_of(kernel: dict[str, Any]) -> str:
    """The class of a row of a profile."""
    if kernel["label"] in NORMS:
        return ATTENTION
    if kernel["label"] == "Concat":
        return MOVES
    name = kernel["kernel"].partition("<")[0]
    return next((key for key, names in KERNELS.items() if name in names), REST)


def networks(results: dict[str, Any]) -> list[Network]:
    """All networks that were measured, in the order of `NETWORKS`."""
    rows = {row["network"]: row for row in results["rows"]}
    return [Network(name, rows[name]) for name in NETWORKS if name in rows]


def front(of: Sequence[Network]) -> list[Network]:
    """The networks that no other one beats in accuracy and in time of one thread, the fastest
    first.
    """
    found: list[Network] = []
    for network in sorted(of, key=lambda n: n.ms()):
        if not found or network.light.top1 > found[-1].light.top1:
            found.append(network)
    return found


def contradictions(of: Sequence[Network], most: int) -> list[Pair]:
    """The pairs in which MACs mislead furthest, each network in one of them at most."""
    pairs = [
        Pair(fewer, faster)
        for fewer in of
        for faster in of
        if fewer.macs < faster.macs and fewer.ms() > faster.ms()
    ]
    chosen: list[Pair] = []
    seen: set[str] = set()
    for pair in sorted(pairs, key=lambda pair: -pair.faster.rate / pair.fewer.rate):
        names = {network.name for network in pair}
        if not names & seen:
            chosen.append(pair)
            seen |= names
    return chosen[:most]


def rank_correlation(
    of: Sequence[Network],
    first: Callable[[Network], float],
    second: Callable[[Network], float],
) -> float:
    """How alike two figures order the networks: 1 the same, 0 not at all (Spearman's)."""
    one, other = _ranks([first(n) for n in of]), _ranks([second(n) for n in of])
    count = len(of)
    apart = sum((a - b) ** 2 for a, b in zip(one, other))
    return 1 - 6 * apart / (count * (count**2 - 1))


def _ranks(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0] * len(values)
    for rank, place in enumerate(order):
        ranks[place] = rank
    return ranks
