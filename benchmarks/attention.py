"""One layer of BERT on long sequences: speed, and how memory grows.

`python -m benchmarks.attention --lengths 2048,4096,8192 --against onnxruntime,openvino --threads
1,2 --json FILE`

The layer is written node by node as PyTorch exports it, with seeded weights, a file for each
length. Each engine runs in a process of its own; Infuse opens a folder that was compiled before.
*Growth* is how many more bytes a position takes between the two longest lengths than between the
two before: 1 where memory is linear in the length, 2 where it is quadratic. Exit status 1 where
Infuse is wrong or slower than BAR times the best peer, or its memory is not linear.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

import infuse
from benchmarks import machine, options, terminal
from benchmarks.engines import REFERENCE, Arrays
from benchmarks.inputs import save_inputs
from benchmarks.measure import Timing, difference
from benchmarks.worker import Worker, WorkerError, alternate
from benchmarks.zoo import OURS

HIDDEN, HEADS, INNER = 768, 12, 3072
BAR = 1.2
LINEAR = 1.25
"""Growth that counts as linear."""
TOLERANCE = 1e-4


class Layer:
    """One layer of BERT for a fixed length, as ONNX nodes in the making."""

    def __init__(
        self, length: int, hidden: int = HIDDEN, heads: int = HEADS, inner: int = INNER
    ) -> None:
        self.length, self.hidden, self.heads, self.inner = length, hidden, heads, inner
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        """Hidden states and a mask of the positions that count → hidden states."""
        mask = self.node("Unsqueeze", "attention_mask", self.constant(np.array([1, 2])))
        hidden = self.node(
            "Mul",
            self.node("Sub", self.number(1.0), self.node("Cast", mask, to=1)),
            self.number(-1e9),
        )
        x = self.norm(self.node("Add", self.attention("x", hidden), "x"))
        x = self.norm(
            self.node(
                "Add",
                self.linear(self.gelu(self.linear(x, self.inner)), self.hidden, self.inner),
                x,
            )
        )
        shape = [1, self.length, self.hidden]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, shape[:2]),
        ]
        outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(
            self.nodes, f"bert_layer_{self.length}", inputs, outputs, self.held
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """A node; the name of its result."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        """A weight; its name."""
        self.held.append(numpy_helper.from_array(array, f"weight_{len(self.held)}"))
        return self.held[-1].name

    def number(self, value: float) -> str:
        """A scalar."""
        return self.constant(np.array(value, np.float32))

    def linear(self, x: str, columns: int, rows: int = 0) -> str:
        """A product with weights, and a bias."""
        rows = rows or self.hidden
        weights = self.rng.standard_normal((rows, columns), np.float32) / np.float32(rows**0.5)
        bias = self.rng.standard_normal(columns, np.float32) * np.float32(0.1)
        return self.node("Add", self.constant(bias), self.node("MatMul", x, self.constant(weights)))

    def split(self, x: str, *order: int) -> str:
        """Heads of a projection of x, axes in `order` of batch, position, head, element."""
        shape = self.constant(np.array([1, self.length, self.heads, self.hidden // self.heads]))
        return self.node(
            "Transpose", self.node("Reshape", self.linear(x, self.hidden), shape), perm=order
        )

    def attention(self, x: str, mask: str) -> str:
        """Attention with its projections."""
        q, k, v = self.split(x, 0, 2, 1, 3), self.split(x, 0, 2, 3, 1), self.split(x, 0, 2, 1, 3)
        scores = self.node(
            "Div", self.node("MatMul", q, k), self.number((self.hidden / self.heads) ** 0.5)
        )
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        shape = self.constant(np.array([1, self.length, self.hidden]))
        return self.linear(self.node("Reshape", mixed, shape), self.hidden)

    def norm(self, x: str) -> str:
        """Layer normalization."""
        scale = np.float32(1) + self.rng.standard_normal(self.hidden, np.float32) * np.float32(0.1)
        bias = self.rng.standard_normal(self.hidden, np.float32) * np.float32(0.1)
        return self.node(
            "LayerNormalization",
            x,
            self.constant(scale),
            self.constant(bias),
            axis=-1,
            epsilon=1e-12,
        )

    def gelu(self, x: str) -> str:
        """Gelu with erf."""
        inner = self.node(
            "Add", self.node("Erf", self.node("Div", x, self.number(2**0.5))), self.number(1.0)
        )
        return self.node("Mul", self.node("Mul", x, inner), self.number(0.5))


@dataclass
class Row:
    """One length at one number of threads."""

    length: int
    threads: int
    times: dict[str, Timing] = field(default_factory=dict)
    facts: dict[str, dict[str, float]] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    """From the reference, as measure.difference has it."""
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def speed(self) -> float | None:
        """Best time of the fastest peer over ours."""
        peers = [timing.best for name, timing in self.times.items() if name != OURS]
        return min(peers) / self.times[OURS].best if peers and OURS in self.times else None

    @property
    def is_good(self) -> bool:
        """Whether it is right and fast enough."""
        right = self.differences.get(OURS, TOLERANCE) < TOLERANCE
        return right and OURS not in self.errors and self.speed is not None and self.speed >= BAR


def measure(layer: Layer, threads: int, given: argparse.Namespace) -> Row:
    """One length in all engines."""
    row = Row(layer.length, threads)
    answers: dict[str, Arrays] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path, compiled = folder / "layer.onnx", folder / "compiled"
        onnx.save(layer.model(), path)
        inputs = save_inputs(path, {}, folder / "inputs.npz")
        infuse.compile(
            infuse.load(path), infuse.CompileOptions(threads=threads), output=compiled
        ).close()
        workers = {}
        for name in dict.fromkeys([OURS, REFERENCE, *given.against]):
            try:
                model = compiled if name == OURS else path
                worker = stack.enter_context(Worker(name, model, threads, {}, inputs=inputs))
                answers[name], row.facts[name] = worker.answer(folder / "answer.npz"), worker.facts
            except WorkerError as error:
                row.errors[name] = str(error)
                continue
            if name in (OURS, *given.against):
                workers[name] = worker
        if REFERENCE in answers:
            row.differences = {
                name: difference(found, answers[REFERENCE]) for name, found in answers.items()
            }
        times = alternate(workers, row.errors, given.rounds, given.seconds, given.least)
        row.times = {name: Timing.of(found) for name, found in times.items()}
    return row


def growth(sizes: Sequence[tuple[int, float]]) -> float | None:
    """Bytes a position between the last two pairs (length, bytes) over those between the two
    before; None where there are fewer than three, or none of them grow.
    """
    if len(sizes) < 3 or sizes[-2][1] == sizes[-3][1]:
        return None
    (a, x), (b, y), (c, z) = sizes[-3:]
    return ((z - y) / (c - b)) / ((y - x) / (b - a))


def growths(rows: list[Row]) -> dict[str, float]:
    """The growth of every engine's peak, with the fewest threads."""
    threads = min(row.threads for row in rows)
    found: dict[str, list[tuple[int, float]]] = {}
    for row in sorted((row for row in rows if row.threads == threads), key=lambda row: row.length):
        for name, facts in row.facts.items():
            found.setdefault(name, []).append((row.length, facts["peak_rss_bytes"]))
    return {name: value for name, sizes in found.items() if (value := growth(sizes)) is not None}


def table(rows: list[Row], engines: list[str]) -> Table:
    """One line a row: milliseconds and peak MiB of every engine."""
    made = Table(
        title="best / median ms, peak MiB; speed = best peer's best over ours", title_justify="left"
    )
    for name in (
        "length",
        "threads",
        *engines,
        *(f"{name} MiB" for name in engines),
        "speed",
        "difference",
    ):
        made.add_column(name, justify="right")
    for row in rows:
        timings = [row.times.get(name) for name in engines]
        times = [f"{t.best * 1e3:.1f} / {t.median * 1e3:.1f}" if t else "–" for t in timings]
        peaks = [
            f"{facts['peak_rss_bytes'] / 2**20:.0f}" if (facts := row.facts.get(e)) else "–"
            for e in engines
        ]
        speed = f"{row.speed:.2f}×" if row.speed else "–"
        far = f"{row.differences[OURS]:.1e}" if OURS in row.differences else "–"
        style = None if row.is_good else "red"
        made.add_row(str(row.length), str(row.threads), *times, *peaks, speed, far, style=style)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Compare one layer of BERT on long sequences.")
    options.add_against(parser, "onnxruntime,openvino")
    options.add_threads(parser)
    options.add_turns(parser, rounds=3)
    parser.add_argument(
        "--lengths", type=options.numbers, default=[2048, 4096, 8192], metavar="N[,…]"
    )
    parser.add_argument("--least", type=int, default=2, help="runs in a turn at least (default: 2)")
    parser.add_argument(
        "--hidden", type=int, default=HIDDEN, help=f"width of the layer (default: {HIDDEN})"
    )
    given = parser.parse_args(arguments)
    layers = [Layer(length, given.hidden, inner=4 * given.hidden) for length in given.lengths]
    cases = [(layer, threads) for layer in layers for threads in given.threads]
    watched = terminal.watched(cases, lambda case: f"{case[0].length} positions, {case[1]} threads")
    rows = [measure(*case, given) for case in watched]
    console, grown = terminal.console(), growths(rows)
    console.print(table(rows, [OURS, *given.against]))
    for row in rows:
        terminal.complain(console, f"{row.length} positions, {row.threads} threads", row.errors)
    console.print(
        "growth of memory: " + ", ".join(f"{name} {value:.2f}" for name, value in grown.items())
    )
    if given.json:
        figures = [asdict(row) | {"speed": row.speed} for row in rows]
        content = {
            "hidden": given.hidden,
            "heads": HEADS,
            "bar": BAR,
            "growth": grown,
            "rows": figures,
        }
        machine.save(
            given.json, content | {"rounds": given.rounds, "seconds_a_turn": given.seconds}
        )
    return 0 if all(row.is_good for row in rows) and grown.get(OURS, 1.0) <= LINEAR else 1


if __name__ == "__main__":
    sys.exit(main())
