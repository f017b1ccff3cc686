"""Products and convolutions with 80 % of their weights zero in blocks, in float32 and in 8 bits,
beside the same layers with all weights in float32; and whole networks.

`python -m benchmarks.compression_sparse [--sparsity PART] [--threads N] [--rounds N]
[--models FILE …] [--dims batch=1,sequence=128] [--json FILE]`

A layer is timed by its kernels (in 8 bits from bytes to bytes, as layers inside of a network are),
in turns; the ratios are those of the least and of the median times. Networks are compressed by
`infuse compress` from random inputs, so accuracy is not what this measures; their seconds are those
of its report. `blocks` tells whether the compiler took the kernel that leaves out zero blocks.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import infuse
from benchmarks import machine, options, terminal
from benchmarks.inputs import make_inputs
from infuse import dtypes
from infuse.build.staged import lower_graph
from infuse.compression.sparse import Pattern
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor
from infuse.options import CompileOptions
from infuse.profiling.measure import profile_graph
from infuse.targets import Target

PRODUCTS = (
    (128, 768, 3072),
    (128, 3072, 768),
    (128, 768, 768),
    (1, 768, 3072),
    (1, 3072, 768),
)
"""Rows, depth and columns, as in BERT."""
POINTS = (
    (56, 64, 256),
    (56, 256, 64),
    (28, 128, 512),
    (28, 512, 128),
    (14, 256, 1024),
    (14, 1024, 256),
    (7, 512, 2048),
    (7, 2048, 512),
    (56, 24, 144),
    (28, 192, 32),
    (14, 384, 64),
    (7, 960, 160),
    (7, 320, 1280),
)
"""Sides, channels and results of 1 × 1 convolutions, as in ResNet-50 and MobileNetV2."""
WINDOWS = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512))
"""The same of 3 × 3 convolutions."""
CALIBRATION = 4
HEADERS = ("sparse.hpp", "sparse_integer.hpp", "sparse_conv.hpp")
Form = str
FORMS = ("dense", "float32", "int8")


@dataclass(frozen=True)
class Case:
    """A layer: its kind, and the shapes of its operands."""

    name: str
    kind: str
    x: tuple[int, ...]
    weights: tuple[int, ...]

    def matrix(self, rng: np.random.Generator, form: Form, sparsity: float) -> np.ndarray:
        """Weights as they lie in the operator, zero in blocks but for the dense form."""
        columns = self.weights[-1] if self.kind == "MatMul" else self.weights[0]
        depth = int(np.prod(self.weights)) // columns
        matrix = rng.standard_normal((depth, columns), np.float32)
        if form != "dense":
            pattern = Pattern(16, 4 if form == "int8" else 1)
            matrix = matrix * pattern.mask(rng.random(matrix.shape), sparsity)
        if self.kind == "MatMul":
            return np.asarray(matrix)
        channels, *window = self.weights[1:]
        filters = matrix.reshape(*window, channels, columns).transpose(3, 2, 0, 1)
        return np.ascontiguousarray(filters)

    def graph(self, rng: np.random.Generator, form: Form, sparsity: float) -> Graph:
        """The layer alone; in 8 bits from bytes to bytes."""
        graph, weights = Graph(self.name), self.matrix(rng, form, sparsity)
        is_integer = form == "int8"
        x = graph.add_input("x", tensor(dtypes.uint8 if is_integer else dtypes.float32, *self.x))
        w = constant(weights)
        if is_integer:
            axis = 1 if self.kind == "MatMul" else 0
            whole = np.clip(np.rint(weights * 30), -127, 127).astype(np.int8)
            steps = np.full(weights.shape[axis], 0.03, np.float32)
            x = _call(graph, "DequantizeLinear", x, *_scale())
            w = _call(graph, "DequantizeLinear", constant(whole), constant(steps), axis=axis)
        if self.kind == "Conv":  # channels last, as layers before and after have them
            x = _call(graph, "Transpose", x, perm=(0, 3, 1, 2))
            y = _call(graph, "Conv", x, w, pads=(self.weights[-1] // 2,) * 4)
        else:
            y = _call(graph, "MatMul", x, w)
        y = _call(graph, "QuantizeLinear", y, *_scale()) if is_integer else y
        y = _call(graph, "Transpose", y, perm=(0, 2, 3, 1)) if self.kind == "Conv" else y
        graph.add_output(y, "y")
        return infuse.optimize(graph)


def _scale() -> tuple[Value, Value]:
    return constant(np.float32(0.05)), constant(np.uint8(117))


def _call(graph: Graph, kind: str, *operands: Value, **attributes: Any) -> Value:
    result = Value(UNKNOWN, f"v{len(graph)}")
    node = Node(make_operator("", kind, attributes), list(operands), [result], name=kind)
    node.op.infer_node(graph.add_node(node))
    return result


def cases() -> list[Case]:
    """The layers."""
    products = [Case(f"{m} x {k} x {n}", "MatMul", (m, k), (k, n)) for m, k, n in PRODUCTS]
    points = [
        Case(f"1 x 1, {s} x {s}, {c} to {n}", "Conv", (1, s, s, c), (n, c, 1, 1))
        for s, c, n in POINTS
    ]
    windows = [
        Case(f"3 x 3, {s} x {s}, {c} to {n}", "Conv", (1, s, s, c), (n, c, 3, 3))
        for s, c, n in WINDOWS
    ]
    return [*products, *points, *windows]


def measured(case: Case, sparsity: float, threads: int, rounds: int) -> dict[str, Any]:
    """The seconds of the forms of a layer, in turns."""
    rng = np.random.default_rng(0)
    graphs = {form: case.graph(rng, form, sparsity) for form in FORMS}
    feeds = {form: _feeds(rng, graph) for form, graph in graphs.items()}
    times: dict[Form, list[float]] = {form: [] for form in FORMS}
    for _ in range(rounds):
        for form, graph in graphs.items():
            profile = profile_graph(graph, feeds[form], CompileOptions(threads=threads), runs=10)
            steps = profile.step_times()
            times[form].append(sum(t for nodes, t in steps if _multiplies(nodes)))
    row: dict[str, Any] = {"name": case.name, "threads": threads}
    for form in FORMS:
        row[form] = {"least": min(times[form]), "median": float(np.median(times[form]))}
    for form in FORMS[1:]:
        row[form]["speed"] = row["dense"]["least"] / row[form]["least"]
        row[form]["median_speed"] = row["dense"]["median"] / row[form]["median"]
        program = lower_graph(graphs[form], Target.resolve("native"), threads)
        headers = set().union(*(step.function.includes for step in program.steps))
        row[form]["blocks"] = not headers.isdisjoint(HEADERS)
    return row


def _multiplies(nodes: Any) -> bool:
    return any("Conv" in node.kind or "MatMul" in node.kind for node in nodes)


def _feeds(rng: np.random.Generator, graph: Graph) -> dict[str, np.ndarray]:
    (x,) = graph.inputs
    shape = [int(str(size)) for size in x.shape]
    if x.dtype == dtypes.uint8:
        return {"x": rng.integers(0, 256, shape, np.uint8)}
    return {"x": rng.standard_normal(shape, np.float32)}


def network(path: Path, sparsity: float, threads: int, dims: Mapping[str, int]) -> dict[str, Any]:
    """The seconds of a network as `infuse compress` measures them."""
    data = [make_inputs(path, dict(dims), seed) for seed in range(1, CALIBRATION + 1)]
    row: dict[str, Any] = {"name": path.stem, "threads": threads}
    methods = {"float32": infuse.Sparse(sparsity), "int8": infuse.SparseInt8(sparsity=sparsity)}
    for form, method in methods.items():
        graph = infuse.compress(
            path, method, data=data, options=infuse.CompressOptions(threads=threads)
        )
        report = graph.compression
        row["dense"] = {"least": report.float_seconds}
        counted = [layer for layer in report.layers if "zero" in layer.form]
        row[form] = {
            "least": report.seconds,
            "speed": report.float_seconds / report.seconds,
            "sparse_layers": len(counted),
            "layers": len(report.layers),
        }
    return row


def report(rows: list[dict[str, Any]]) -> None:
    """Print the figures."""
    table = Table(title="zeros in blocks beside all weights in float32")
    for heading in (
        "layer",
        "threads",
        "dense us",
        "float32",
        "median",
        "int8",
        "median",
        "blocks",
    ):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for row in rows:
        cells = [row["name"], str(row["threads"]), f"{row['dense']['least'] * 1e6:.1f}"]
        for form in FORMS[1:]:
            median = row[form].get("median_speed")
            cells += [f"{row[form]['speed']:.2f} x", "" if median is None else f"{median:.2f} x"]
        if "layers" in row["int8"]:
            cells.append(
                ", ".join(f"{row[f]['sparse_layers']}/{row[f]['layers']}" for f in FORMS[1:])
            )
        else:
            cells.append(", ".join("yes" if row[form]["blocks"] else "no" for form in FORMS[1:]))
        table.add_row(*cells)
    terminal.console().print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser(str(__doc__).partition("\n\n")[0])
    parser.add_argument("--sparsity", type=float, default=0.8, help="the part of zeros")
    parser.add_argument("--threads", type=options.numbers, default=[1], help="default: 1")
    parser.add_argument("--rounds", type=int, default=5, help="times of every form of a layer")
    parser.add_argument("--models", type=Path, nargs="*", default=[], metavar="FILE")
    options.add_dims(parser)
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    rows = []
    for threads in given.threads:
        rows += [measured(case, given.sparsity, threads, given.rounds) for case in cases()]
        rows += [network(path, given.sparsity, threads, given.dims) for path in given.models]
    report(rows)
    if given.json:
        machine.save(given.json, {"sparsity": given.sparsity, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
