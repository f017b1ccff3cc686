"""What is measured of one light network: counts, bytes, time beside other runtimes, where the time
goes, and what it takes on machines that are not here.
"""

import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import infuse
from benchmarks.engines import REFERENCE, Arrays
from benchmarks.light import instructions, quiet
from benchmarks.measure import difference
from benchmarks.worker import Worker, WorkerError, alternate
from benchmarks.zoo import OURS, roof
from infuse.analysis import Totals, totals
from infuse.analysis.cost import Sizes, count_nodes, number
from infuse.ir.graph import Graph, Node
from infuse.runtime.folder import LIBRARY, WEIGHTS
from infuse.runtime.foreign import ForeignModel

LEAST = 5
"""Runs in a turn at least."""
DIMS = {"batch": 1}


class Turns(NamedTuple):
    """How often every engine has its turn, for how many seconds, and how many it waits at most for
    a quiet machine.
    """

    rounds: int
    seconds: float
    quiet: float


@dataclass
class Row:
    """Everything measured of one network: counts, bytes, seconds."""

    network: str
    counts: dict[str, int] = field(default_factory=dict)
    """Of the graph as it was exported, layer by layer: `Totals`."""
    parts: dict[str, dict[str, int]] = field(default_factory=dict)
    """MACs and memory access of its layers, by what they are (`part_of`)."""
    compiled: dict[str, int] = field(default_factory=dict)
    """Bytes of library, weights, arena, and what kernel calls read and write, in one thread."""
    turns: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By number of threads and engine: the least seconds of each turn."""
    bound: dict[str, float] = field(default_factory=dict)
    """By number of threads: seconds that the machine needs at least, `benchmarks.zoo.roof`."""
    differences: dict[str, float] = field(default_factory=dict)
    """Of each engine's answer from the reference's, `benchmarks.measure.difference`."""
    kernels: list[dict[str, Any]] = field(default_factory=list)
    """Where the time goes in one thread: rows of `infuse.profile` by kind and kernel."""
    elsewhere: dict[str, dict[str, int]] = field(default_factory=dict)
    """By target: counts of what runs on a machine that is not here."""
    disturbed: int = 0
    """Turns before which no quiet moment came."""
    errors: dict[str, str] = field(default_factory=dict)

    def seconds(self, engine: str, threads: str) -> float | None:
        """The median over turns of the least time of a turn."""
        found = self.turns.get(threads, {}).get(engine)
        return statistics.median(found) if found else None

    def plain(self) -> dict[str, Any]:
        """Data for JSON, with the medians."""
        medians = {
            threads: {engine: self.seconds(engine, threads) for engine in engines}
            for threads, engines in self.turns.items()
        }
        return asdict(self) | {"seconds": medians}


def counted(found: Totals) -> dict[str, int]:
    """The numbers of a graph's cost."""
    cost = found.cost
    sizes = {"macs": cost.macs, "flops": cost.flops, "read": cost.read, "written": cost.written}
    assert not found.notes, found.notes
    counts = {name: number(size) for name, size in sizes.items()}
    return {"nodes": found.nodes, "parameters": found.parameters} | counts


MOVES = ("Concat", "Expand", "Gather", "Pad", "Reshape", "Slice", "Split", "Transpose")


def part_of(node: Node) -> str:
    """What a layer is: depthwise (a filter for each channel), convolution, product (of a matrix
    with weights), attention (a product of two results, or a softmax), move, or elementwise.
    """
    if node.kind == "Conv":
        weights, groups = node.inputs[1], node.op.attributes().get("group", 1)
        assert weights is not None
        return "depthwise" if groups > 1 and weights.shape[1] == 1 else "convolution"
    if node.kind in ("Gemm", "MatMul"):
        is_layer = any(value.const is not None for value in node.operands())
        return "product" if is_layer else "attention"
    if node.kind in ("Attention", "Softmax"):
        return "attention"
    return "move" if node.kind in MOVES else "elementwise"


def parts(graph: Graph) -> dict[str, dict[str, int]]:
    """MACs and memory access of a graph by parts."""
    found: dict[str, dict[str, int]] = {}
    for node, _, cost in count_nodes(graph, Sizes(graph))[0]:
        part = found.setdefault(part_of(node), {"nodes": 0, "macs": 0, "access": 0})
        part["nodes"] += 1
        part["macs"] += number(cost.macs)
        part["access"] += number(cost.bytes)
    return found


def measure(name: str, path: Path, engines: list[str], threads: list[int], how: Turns) -> Row:
    """One network; engines take turns (A B A B) at every number of threads."""
    graph = infuse.load(path)
    row = Row(name, counted(totals(graph)), parts(graph))
    with tempfile.TemporaryDirectory() as folder:
        try:
            count_elsewhere(row, path, Path(folder))
        except (instructions.NoCounts, infuse.InfuseError) as error:
            row.errors[instructions.TARGET] = str(error)
        measure_parts(row, path, Path(folder))
        for number in threads:
            measure_times(row, path, list(dict.fromkeys([OURS, *engines])), number, how)
    return row


def measure_parts(row: Row, path: Path, folder: Path) -> None:
    """Bytes of what is compiled for one thread, and where its time goes."""
    options = infuse.CompileOptions(threads=1)
    better = infuse.optimize(path, "all")
    with infuse.compile(better, options, output=folder / "native"):
        row.compiled = stored(folder / "native")
    profile = infuse.profile(better, options=options)
    row.compiled["access"] = profile.total.bytes
    row.kernels = [plain_kernel(kernel.to_dict()) for kernel in profile.table("kind")]


def stored(folder: Path) -> dict[str, int]:
    """Bytes of the library and of the weights of a compiled folder."""
    return {
        "library": (folder / LIBRARY).stat().st_size,
        "weights": (folder / WEIGHTS).stat().st_size,
    }


def plain_kernel(kernel: dict[str, Any]) -> dict[str, Any]:
    """What of a row of a profile is stored."""
    names = ("label", "kernel", "calls", "least_ms", "bound_ms", "flops", "bytes", "share")
    return {name: kernel[name] for name in names}


def measure_times(row: Row, path: Path, engines: list[str], threads: int, how: Turns) -> None:
    """Times and answers of all engines at one number of threads."""
    row.bound[str(threads)] = roof(path, threads, DIMS, "fp32")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers: dict[str, Worker] = {}
        answers: dict[str, Arrays] = {}
        for name in engines:
            try:
                worker = stack.enter_context(Worker(name, path, threads, DIMS))
                answers[name] = worker.answer(folder / f"{name}.npz")
            except WorkerError as error:
                row.errors[f"{name}, {threads} threads"] = str(error)
                continue
            workers[name] = worker
            if name == OURS and threads == 1:
                row.compiled["arena"] = int(worker.facts["arena_bytes"])
        for name in answers.keys() - {REFERENCE} if REFERENCE in answers else ():
            far = difference(answers[name], answers[REFERENCE])
            row.differences[name] = max(far, row.differences.get(name, 0.0))
        turns: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(how.rounds):
            for name, worker in workers.items():
                row.disturbed += not quiet.wait(how.quiet)
                times = alternate({name: worker}, row.errors, 1, how.seconds, LEAST)
                turns[name] += [min(found) for found in times.values()]
        row.turns[str(threads)] = turns


def count_elsewhere(row: Row, path: Path, folder: Path) -> None:
    """Instructions and bytes of the network compiled for a machine that is not here."""
    target = instructions.TARGET
    options = infuse.CompileOptions(threads=1, target=target)
    model = infuse.compile(infuse.optimize(path, "all"), options, output=folder / target)
    assert isinstance(model, ForeignModel)
    found = instructions.count(model, folder)
    row.elsewhere[target] = {"instructions": found, **stored(folder / target)}
