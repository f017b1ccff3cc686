"""Products and convolutions of networks, each layer alone, in Infuse and in other runtimes.

`python -m benchmarks.gemm FOLDER [--models 'resnet*'] [--precision bf16] [--threads 1] [--against
onnxruntime,openvino,torch] [--cold] [--json FILE]`

FOLDER holds ONNX files. Layers of the same sizes are measured once: a model of one operator with
random weights, which all engines run in turns in this process. torch stands for oneDNN. With
`--cold`, second level caches are filled with other numbers before each call, so that weights come
from where those of a network come from.

The table begins with the layers that lose the most: milliseconds over the fastest other engine,
times how often the layer is there. *Of roof* is the time that the arithmetic or the weights need on
this machine over Infuse's.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

import infuse
from benchmarks import machine, options, terminal
from benchmarks.engines import ENGINES, PRECISIONS, Arrays
from benchmarks.measure import WARM_UP, Timing, difference, geomean
from benchmarks.worker import SETTLE
from infuse.ir.dims import symbols
from infuse.ir.graph import Graph
from infuse.ops.spatial import Sliding
from infuse.profiling.roof import Roof, measure_roof
from infuse.targets import Caches, Target

OURS, TORCH = "infuse", "torch"
KINDS = ("Conv", "MatMul")
OPERATORS = (*KINDS, "Gemm")
TOLERANCES = {"fp32": 1e-4, "bf16x2": 1e-4, "bf16": 3e-2}
"""What answers may be apart, relative to the largest: sums in another order, and factors with a
mantissa of 8 bits.
"""


@dataclass(frozen=True)
class Layer:
    """A product of rows `x` with a matrix `w`, or a convolution of an image `x` with filters `w`.

    `attributes` are those of Conv; a product has none.
    """

    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The sizes for people."""
        if self.kind == "MatMul":
            return "×".join(map(str, (*self.x, self.w[1])))
        named = dict(self.attributes)
        steps = "".join(
            f", {name} {'×'.join(map(str, named[name]))}"
            for name in ("strides", "dilations")
            if set(named[name]) != {1}
        )
        groups = f", {named['group']} groups" if named["group"] != 1 else ""
        window = "×".join(map(str, self.w[2:]))
        return f"{'×'.join(map(str, self.x))} → {self.w[0]} by {window}{steps}{groups}"

    def model(self) -> onnx.ModelProto:
        """One operator with random weights."""
        depth = math.prod(self.w[1:]) if self.attributes else self.w[0]
        weights = np.random.default_rng(0).standard_normal(self.w, np.float32) / depth**0.5
        node = helper.make_node(self.kind, ["x", "w"], ["y"], **dict(self.attributes))
        graph = helper.make_graph(
            [node],
            "layer",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.x)],
            [onnx.ValueInfoProto(name="y")],
            [numpy_helper.from_array(weights.astype(np.float32), "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)

    def feeds(self) -> Arrays:
        """A random input."""
        return {"x": np.random.default_rng(1).standard_normal(self.x, np.float32)}

    def flops(self) -> int:
        """Two operations for each product."""
        if not self.attributes:
            return 2 * math.prod(self.x) * self.w[1]
        result = self.model().graph.output[0].type.tensor_type.shape.dim
        return 2 * math.prod(d.dim_value for d in result) * math.prod(self.w[1:])


class Torch:
    """torch, whose products and convolutions on Intel processors are those of oneDNN."""

    facts: dict[str, float] = {}

    def __init__(self, layer: Layer, threads: int, precision: str) -> None:
        import torch

        torch.set_num_threads(threads)
        self.torch, self.dtype = torch, torch.bfloat16 if precision == "bf16" else torch.float32
        weights = torch.from_numpy(
            numpy_helper.to_array(layer.model().graph.initializer[0]).copy()
        ).to(self.dtype)
        named = dict(layer.attributes)
        if not layer.attributes:
            self.call: Callable[[Any], Any] = lambda x: x @ weights
            return
        rank = len(named["strides"])
        conv = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        begins, ends = named["pads"][:rank], named["pads"][rank:]
        if begins != ends:
            raise ValueError("torch has no convolution with uneven padding")
        self.call = lambda x: conv(
            x, weights, None, named["strides"], begins, named["dilations"], named["group"]
        )

    def run(self, inputs: Arrays) -> Any:
        """One inference."""
        with self.torch.inference_mode():
            return self.call(self.torch.from_numpy(inputs["x"]).to(self.dtype))

    def answer(self, inputs: Arrays) -> Arrays:
        """One inference as arrays by output name."""
        return {"y": self.run(inputs).float().numpy()}


@dataclass
class Row:
    """One layer: how often it is there, and the seconds of a call."""

    layer: Layer
    count: int
    networks: list[str]
    roof: float
    times: dict[str, Timing] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    difference: float = math.nan

    @property
    def peer(self) -> float | None:
        """Seconds of the fastest other engine."""
        return min((t.median for name, t in self.times.items() if name != OURS), default=None)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the fastest other engine Infuse is."""
        return self.peer / self.times[OURS].median if self.peer and OURS in self.times else None

    @property
    def lost(self) -> float:
        """Seconds over the fastest other engine, of all such layers."""
        if self.peer is None or OURS not in self.times:
            return 0.0
        return (self.times[OURS].median - self.peer) * self.count


def layers_of(graph: Graph) -> list[Layer]:
    """The products and convolutions with constant weights whose sizes are known."""
    found = []
    for node in graph.nodes:
        if node.kind not in OPERATORS or node.inputs[0] is None:
            continue
        x, w = node.inputs[0].shape, node.inputs[1]
        if w is None or w.const is None or not all(isinstance(size, int) for size in x):
            continue
        if not isinstance(node.op, Sliding) and w.rank != 2:
            continue
        attributes, sizes = node.op.attributes(), tuple(map(int, x))
        if isinstance(node.op, Sliding):
            found.append(
                Layer("Conv", sizes, w.const.shape, _window(node.op, sizes, w.const.shape))
            )
            continue
        turned = bool(attributes.get("transA")), bool(attributes.get("transB"))
        rows = (sizes[1], sizes[0]) if turned[0] else (math.prod(sizes[:-1]), sizes[-1])
        matrix = w.const.shape[::-1] if turned[1] else w.const.shape
        found.append(Layer("MatMul", rows, matrix))
    return found


def _window(op: Sliding, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[tuple[str, Any], ...]:
    """Attributes of a convolution, none of them left to a default."""
    rank, kernel = len(w) - 2, w[2:]
    pads = op.padding(x[2:], kernel)
    return (
        ("dilations", tuple(op.spread(rank))),
        ("group", op.attributes()["group"]),
        ("kernel_shape", kernel),
        ("pads", (*(int(b) for b, _ in pads), *(int(e) for _, e in pads))),
        ("strides", tuple(op.steps(rank))),
    )


def collect(files: Iterable[Path], dims: dict[str, int]) -> list[tuple[Layer, int, list[str]]]:
    """Each layer of the networks once, how often it is there and where."""
    counts: dict[Layer, int] = {}
    places: dict[Layer, list[str]] = {}
    for path in files:
        graph = infuse.load(path)
        named = set().union(*(symbols(d) for v in graph.inputs for d in v.shape))
        sizes = {name: size for name, size in dims.items() if name in named}
        for layer in layers_of(infuse.optimize(graph, set_dims=sizes)):
            counts[layer] = counts.get(layer, 0) + 1
            there = places.setdefault(layer, [])
            there += [path.stem] if path.stem not in there else []
    return [(layer, counts[layer], places[layer]) for layer in counts]


class Eviction:
    """Fills the second level caches of so many cores with other numbers, as other layers do."""

    def __init__(self, threads: int) -> None:
        size = 4 * Caches.of_host().l2 // 4
        self.buffers = [np.ones(size, np.float32) for _ in range(threads)]
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self, feeds: Arrays) -> None:
        """Read all, and then the inputs, which the layer before has just made."""
        list(self.pool.map(np.sum, self.buffers))
        for x in feeds.values():
            x.sum()


def timed(run: Callable[[], object], before: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each call for at least that long, `before` each of them not counted."""
    for _ in range(WARM_UP):
        run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        before()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def measure(
    layer: Layer, chosen: argparse.Namespace, evict: Eviction | None, row: Row, folder: Path
) -> None:
    """Fill in the times of all engines, which take turns."""
    path = folder / "layer.onnx"
    onnx.save(layer.model(), path)
    feeds, engines = layer.feeds(), {}
    for name in (OURS, *chosen.against):
        try:
            if name == TORCH:
                engines[name] = Torch(layer, chosen.threads, chosen.precision)
                continue
            own = chosen.precision if name in PRECISIONS.get(chosen.precision, ()) else "fp32"
            further = {} if own == "fp32" else {"precision": own}
            engines[name] = ENGINES[name](path, chosen.threads, **further)
        except Exception as error:  # whatever an engine raises is its answer
            row.errors[name] = f"{type(error).__name__}: {error}"
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(chosen.rounds):
        for name, engine in engines.items():
            time.sleep(SETTLE if chosen.threads > 1 else 0)
            times[name] += timed(
                lambda: engine.run(feeds),  # noqa: B023  it is called at once
                lambda: evict(feeds) if evict else None,
                chosen.seconds,
            )
    row.times = {name: Timing.of(each) for name, each in times.items()}
    answers = [engine.answer(feeds) for name, engine in engines.items() if name != OURS]
    if OURS in engines and answers:
        ours = engines[OURS].answer(feeds)
        row.difference = max(difference(ours, theirs) for theirs in answers)


def bound(layer: Layer, roof: Roof, precision: str) -> float:
    """Seconds that the layer takes at least: its arithmetic, a convolution as a direct one."""
    return layer.flops() / roof.peak(precision)


def table(rows: list[Row], engines: list[str], most: int) -> Table:
    """The rows that lose the most come first."""
    title = "milliseconds of one call"
    made = Table("layer", "×", "lost", *engines, "ratio", "of roof", title=title)
    for row in sorted(rows, key=lambda r: -r.lost)[:most]:
        cells = [f"{row.times[n].median * 1e3:.3f}" if n in row.times else "—" for n in engines]
        share = f"{row.roof / row.times[OURS].median:.0%}" if OURS in row.times else "—"
        ratio = f"{row.ratio:.2f}" if row.ratio else "—"
        lost = f"{row.lost * 1e3:+.2f}"
        made.add_row(row.layer.label, str(row.count), lost, *cells, ratio, share)
    return made


def summary(rows: list[Row]) -> dict[str, float]:
    """What all layers come to."""
    whole = [row for row in rows if row.ratio]
    if not whole:
        return {}
    ratios = [row.ratio for row in whole if row.ratio]
    return {
        "layers": len(whole),
        "geomean": geomean(ratios),
        "lowest": min(ratios),
        "slower": sum(ratio < 1 for ratio in ratios),
        "lost_ms": sum(max(row.lost, 0.0) for row in whole) * 1e3,
        "of_roof": sum(row.roof * row.count for row in whole)
        / sum(row.times[OURS].median * row.count for row in whole),
    }


def engine_names(text: str) -> list[str]:
    """Names of other engines; torch is one of them here."""
    names = options.words(text)
    options.engines(",".join(name for name in names if name != TORCH) or OURS)
    return names


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[Path]]:
    """The options, and the files of the folder."""
    made = options.parser(__doc__ or "")
    made.add_argument("zoo", type=Path, metavar="FOLDER")
    made.add_argument("--models", type=options.words, default=["*"], metavar="GLOB[,…]")
    options.add_dims(made)
    options.add_turns(made, rounds=3, seconds=0.1)
    made.add_argument("--against", type=engine_names, default=["onnxruntime"])
    made.add_argument("--precision", choices=list(TOLERANCES), default="fp32")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--cold", action="store_true", help="weights are in no second level cache")
    made.add_argument("--only", type=options.words, metavar="KIND[,…]", help=", ".join(KINDS))
    made.add_argument("--most", type=int, default=40, help="rows that are printed (default: 40)")
    return options.parse(made, arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write where --json says; 1 where an answer is wrong."""
    chosen, files = parse(arguments)
    roof = measure_roof(Target.resolve("native"), chosen.threads)
    evict = Eviction(chosen.threads) if chosen.cold else None
    rows, wrong = [], 0
    console = terminal.console()
    with tempfile.TemporaryDirectory(prefix="infuse-gemm-") as folder:
        kinds = chosen.only or KINDS
        layers = [each for each in collect(files, chosen.dims) if each[0].kind in kinds]
        for layer, count, networks in terminal.watched(layers, lambda each: each[0].label):
            row = Row(layer, count, networks, bound(layer, roof, chosen.precision))
            measure(layer, chosen, evict, row, Path(folder))
            terminal.complain(console, layer.label, row.errors)
            if row.difference > TOLERANCES[chosen.precision]:
                wrong += 1
                console.print(f"[red]{layer.label}: the answers are {row.difference:.1e} apart")
            rows.append(row)
    console.print(table(rows, [OURS, *chosen.against], chosen.most))
    told = summary(rows)
    console.print("  ".join(f"{name} {value:.4g}" for name, value in told.items()))
    if chosen.json:
        listed = [
            asdict(row) | {"label": row.layer.label, "ratio": row.ratio, "lost_s": row.lost}
            for row in rows
        ]
        how = {name: getattr(chosen, name) for name in ("precision", "threads", "cold", "dims")}
        machine.save(chosen.json, how | {"summary": told, "rows": listed})
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
