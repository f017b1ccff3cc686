"""Graphs of one kernel, lowered and run in Python for processors that this machine need not be."""

from collections.abc import Callable, Mapping

import numpy as np

from infuse.codegen.autotune.selector import Chooser, Key
from infuse.ir.graph import Graph
from infuse.targets import Target
from infuse.testing.lowered import LoweredRun, run_lowered

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4+avx512_vnni+avx512_bf16", "aarch64+bf16")


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
