"""Graphs of one kernel, lowered and run in Python for processors that this machine need not be."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Array, Graph
from infuse.ir.types import TensorType
from infuse.lowering.choice import Chooser, Key
from infuse.ops.core.base import REGISTRY
from infuse.targets import Target
from infuse.testing.samples import rows
from tests.pure.test_axes import node_of
from tests.support.lowered import LoweredRun, run_lowered
from tests.support.program_memory import UnknownSizeError

TARGETS = (
    *("x86-64", "x86-64-v3", "x86-64-v4+avx512_vnni+avx512_bf16", "aarch64+bf16"),
    "x86-64-v4+avx512_vnni+avx512_bf16+amx_tile+amx_bf16+amx_int8",
)


@dataclass(frozen=True)
class Case:
    """A graph, its inputs that are not random, and how many of its kernels have a meaning."""

    graph: Graph
    feeds: dict[str, Array] = field(default_factory=dict)
    calls: int = 1
    precision: str = "fp32"

    def run(self, target: str) -> LoweredRun:
        return run(self.graph, target, self.precision, feeds=self.feeds)


def run(
    graph: Graph,
    target: str,
    precision: str,
    forced: Callable[[Key], str | None] | None = None,
    feeds: Mapping[str, np.ndarray] | None = None,
) -> LoweredRun:
    """A graph on random inputs, but for those that are named."""
    rng, resolved = np.random.default_rng(1), Target.resolve(target)
    drawn = dict(feeds or {})
    for value in graph.inputs:
        if value.name in drawn:
            continue
        shape, kind = [int(str(n)) for n in value.shape], value.dtype.numpy
        if value.dtype.bytes == 1 or value.dtype.numpy.kind in "iu":
            drawn[value.name] = rng.integers(0, 128, shape).astype(kind)
        else:
            drawn[value.name] = rng.standard_normal(shape, dtype=np.float32).astype(kind)
    chooser = Chooser(resolved.machine, forced=forced)
    return run_lowered(graph, resolved, drawn, precision=precision, chooser=chooser)


def run_all(graph: Graph, target: str, precision: str, **how: Mapping[str, np.ndarray]) -> set[int]:
    """How many calls agreed, with every form that the kernel has."""
    keys: list[Key] = []
    counts = {run(graph, target, precision, lambda key: keys.append(key), **how).calls}
    for form in keys[0].names if keys else ():
        counts.add(run(graph, target, precision, lambda _, form=form: form, **how).calls)
    return counts


def sampled(kind: str) -> Iterator[Case]:
    """The samples of an operator; once with all inputs as operands, once with constants where the
    sample has them.
    """
    op = next(op for (_, name), op in sorted(REGISTRY.items()) if name == kind)
    for row in rows(op, np.random.default_rng(2)):
        nothing = (False,) * len(row.inputs)
        for fixed in dict.fromkeys((row.fixed, nothing)):
            node = node_of(replace(row, fixed=fixed))
            if not all(isinstance(v.type, TensorType) for v in node.outputs):
                continue
            assert node.graph is not None
            for i, value in enumerate(node.outputs):
                node.graph.add_output(value, f"y{i}")
            feeds = {v.name: row.inputs[int(v.name[1:])] for v in node.graph.inputs}
            yield Case(node.graph, feeds)


def calls(kind: str, target: str) -> int:
    """How many calls of kernels the samples of an operator have, where they are native and all
    sizes have values.
    """
    count = 0
    for each in sampled(kind):
        with suppress(UnknownSizeError, UnsupportedOperatorError):
            count += each.run(target).calls
    return count
