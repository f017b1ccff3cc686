"""How much each layer alone changes the outputs: one model with a switch for each layer, so that
it is compiled once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.compression.evaluation import settled
from infuse.compression.forms import Form, Writer
from infuse.compression.insertion import write_forms
from infuse.compression.layers import Layer
from infuse.data.dataset import Feeds
from infuse.data.metrics import Outputs
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.options import CompileOptions
from infuse.profiling.progress import Progress

MOST_EXAMPLES = 64
SHARE = 0.25
"""The part of the time that is left which may go into this."""
SECONDS = 20.0
"""The seconds that may, where time is not limited."""


def with_switches(graph: Graph, forms: Mapping[Layer, Form]) -> tuple[Graph, str]:
    """A copy of a graph with one input more: which layers have their forms, in order, as booleans.

    Both results of each layer are computed from the same activation, and one is chosen.
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    switches = add_switches(copy, len(forms))
    for number, layer in enumerate(forms):
        node = values[layer.node.output].producer
        assert node is not None
        _switch(copy, node, switches, number)
    write_forms(copy, values, forms, {}, are_alone=True)
    return copy, switches.name


def add_switches(graph: Graph, count: int) -> Value:
    """A new input of so many booleans."""
    name = "switches"
    while any(value.name == name for value in graph.inputs):
        name += "'"
    return graph.add_input(name, TensorType(dtypes.bool_, (count,)))


def _switch(graph: Graph, node: Node, switches: Value, number: int) -> None:
    exact = [Value(UNKNOWN, f"{value.name}/exact") for value in node.outputs]
    twin = graph.add_node(Node(node.op, node.inputs, exact, name=f"{node.name}/exact"))
    twin.op.infer_node(twin)
    write = Writer(graph, twin, f"{node.name}/switch")
    switch = write("Gather", switches, constant(np.asarray(number, np.int64)), axis=0)
    for rounded, other in zip(node.outputs, exact):
        readers = list(rounded.uses)
        chosen = write("Where", switch, rounded, other) if readers else rounded
        for user, index in readers:
            user.set_operand(index, chosen)


def sensitivities(
    graph: Graph,
    forms: Mapping[Layer, Form],
    runs: Sequence[Feeds],
    differences: Sequence[float],
    powers: Mapping[str, float],
    *,
    seconds: float = SECONDS,
    threads: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None,
) -> tuple[dict[Layer, float], int]:
    """The power of the change of the outputs over the mean `powers` of each when one layer alone
    has its form, the mean over some of the examples: those with the largest `differences` (one an
    example), as many as `seconds` allow, one at least. And how often the model ran.
    """
    copy, name = with_switches(graph, forms)
    layers = list(forms)
    sums = np.zeros(len(layers))
    order = np.argsort(differences)[::-1][:MOST_EXAMPLES]
    total = len(order) * len(layers)
    with compile_graph(settled(copy), CompileOptions(threads=threads)) as model:
        begin, done = clock(), 0
        for number in order.tolist():
            feeds = dict(runs[number])
            exact = model.run({**feeds, name: np.zeros(len(layers), np.bool_)})
            for place, row in enumerate(np.eye(len(layers), dtype=np.bool_)):
                sums[place] += change(model.run({**feeds, name: row}), exact, powers)
                if progress is not None:
                    progress("sensitivity", done * len(layers) + place + 1, total)
            done += 1
            if (clock() - begin) * (done + 1) / done > seconds:
                break
    return dict(zip(layers, (sums / done).tolist())), done * (1 + len(layers))


def powers_of(outputs: Sequence[Outputs]) -> dict[str, float]:
    """The mean power of each output over examples; of outputs that are no floats the elements."""
    arrays = [name for name, array in outputs[0].items() if isinstance(array, np.ndarray)]
    return {name: float(np.mean([_power(each[name]) for each in outputs])) for name in arrays}


def change(outputs: Outputs, exact: Outputs, powers: Mapping[str, float]) -> float:
    """The power of the change of the output that changes most, over its mean power on all examples
    (of outputs that are no floats the part of the elements that change); infinite where it is not
    finite.
    """
    worst = 0.0
    for name, power in powers.items():
        noise = _noise(outputs[name], exact[name])
        part = noise / power if power > 0 else np.inf if noise else 0.0
        worst = max(worst, part if np.isfinite(part) else np.inf)
    return worst


def _power(array: Array) -> float:
    if array.dtype.kind != "f":
        return float(array.size)
    return float(np.sum(np.square(array, dtype=np.float64)))


def _noise(array: Array, exact: Array) -> float:
    if exact.shape != array.shape:
        return np.inf
    if exact.dtype.kind != "f":
        return float(np.sum(array != exact))
    return _power(array.astype(np.float64) - exact)
