"""The operators' samples as cases for native code: which run, in what types, and what is wrong
with an answer.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Elementwise, Op
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.testing.compare import difference
from infuse.testing.samples import Row, is_constant, results, rows, type_of

BATCH = 400
MOST_ROWS = 6
"""Rows of one operator in the short form of the table."""
FLOATS = (dtypes.float64, dtypes.float16, dtypes.bfloat16)
ALL_FLOATS = (dtypes.float32, *FLOATS)
SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)

CONVOLUTIONS = ("Conv", "ConvTranspose", "FusedConv", "DeformConv")
NOT_NATIVE = {
    **dict.fromkeys(
        ("If", "Loop", "Scan", "SequenceMap"), "control flow is not native, and has no rows"
    ),
    **dict.fromkeys(("Bernoulli", "Multinomial"), "no native code yet"),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        "no native code yet",
    ),
    **dict.fromkeys(
        ("ConcatFromSequence", "SequenceAt", "SequenceErase", "SequenceInsert"), "is a seq"
    ),
    **dict.fromkeys(
        ("SequenceConstruct", "SequenceEmpty", "SequenceLength", "SplitToSequence"), "is a seq"
    ),
    "OptionalGetElement": "no native code yet",
    "Optional": "is a optional",
    **dict.fromkeys(
        (
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
            "RegexFullMatch",
            "CategoryMapper",
            "HashText",
            "ChangeText",
            "ReplaceText",
            "SubText",
            "TextBucket",
            "TextLength",
            "JoinText",
            "MissingText",
            "Tokenizer",
        ),
        "is a string",
    ),
    **dict.fromkeys(
        ("CountTerms", "FindTerms", "Tokenize", "Detokenize", "SplitText", "JoinRuns"),
        "no native code",
    ),
    "FormatNumber": "no native code",
    **dict.fromkeys(("CastMap", "DictVectorizer"), "is a map"),
    "ZipMap": "is a seq",
    "ImageDecoder": "no native code yet",
}
"""Operators of which no row runs natively, and what the refusal says."""
PARTLY_NATIVE = {
    **dict.fromkeys(
        ("CausalConvWithState", "DynamicTimeWarping", "GroupQueryAttention", "LinearAttention"),
        "float64",
    ),
    **dict.fromkeys(("PagedAttention", "MatMulBlocks"), "element type"),
    "GatherBlocks": "weights that are computed",
    **dict.fromkeys(("LabelEncoder", "OneHotEncoder", "TfIdfVectorizer"), "is a string"),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), "is a string"),
}
"""Operators of which some rows are refused, and what the refusal says."""
ALSO = {
    **dict.fromkeys(
        ("CategoryMapper", "LabelEncoder", "OneHotEncoder", "TfIdfVectorizer"), "strings"
    ),
    **dict.fromkeys(
        ("CountTerms", "FindTerms", "Tokenize", "Detokenize", "SplitText", "JoinRuns"),
        "is a string",
    ),
    "FormatNumber": "string",
    "MatMulBlocks": "weights that are computed",
}
"""What else a refusal may say."""


@dataclass(frozen=True)
class Case:
    """A row as a node with `outputs` outputs.

    `held` tells which inputs are constants of the model; with `symbolic`, the sizes of the others
    are symbols.
    """

    row: Row
    held: tuple[bool, ...]
    outputs: int
    symbolic: bool = False

    def __str__(self) -> str:
        constants = ", ".join(str(i) for i, one in enumerate(self.held) if one)
        return f"{self.row} × {self.outputs}{f', constants {constants}' if constants else ''}"

    def add_to(self, graph: Graph) -> list[Value]:
        """The outputs of a new node in `graph`, not yet outputs of it."""
        values: list[Value | None] = []
        for x, held in zip(self.row.inputs, self.held):
            if x is None:
                values.append(None)
            elif held:
                values.append(constant(x))
            else:
                values.append(graph.add_input(f"x{len(graph.inputs)}", self._type(x)))
        outputs = [Value(TensorType(dtypes.float32, None), f"y{i}") for i in range(self.outputs)]
        node = graph.add_node(Node(self.row.op, values, outputs, name=f"n{len(graph)}"))
        node.op.infer_node(node)
        return outputs

    def alone(self) -> Graph:
        """A graph of this case and nothing else."""
        graph = Graph("one")
        for value in self.add_to(graph):
            graph.add_output(value)
        return graph

    def _type(self, x: Any) -> Type:
        type = type_of(x)
        if not self.symbolic or not isinstance(type, TensorType) or type.shape is None:
            return type
        fixed = (
            (1,)
            if self.row.op.name in CONVOLUTIONS
            else (x.ndim - 1,)
            if self.row.op.name == "Attention"
            else ()
        )
        shape = tuple(
            dims.symbol(f"n{d}") if d != 1 and i not in fixed else d for i, d in enumerate(x.shape)
        )
        return TensorType(type.dtype, shape)

    def fed(self) -> Iterator[Any]:
        """The arrays of the inputs that are not constants."""
        return (x for x, held in zip(self.row.inputs, self.held) if x is not None and not held)


def name(op: type[Op]) -> str:
    return f"{op.domain}::{op.name}" if op.domain else op.name


def family(op: type[Op]) -> str:
    return op.__module__.rpartition(".")[2]


OPS = [op for _, op in sorted(ops.REGISTRY.items()) if op.samples]
GROUPS = {
    "elementwise": (
        *("activations", "arithmetic", "comparison", "conversion", "scalars", "unary"),
    ),
    "quantization": ("integers", "quantization"),
    "products": ("attending", "contraction", "convolution"),
    "recurrent": ("recurrent", "recurrences"),
    "lines": ("normalization", "reduction", "running", "softmax_family"),
    "images": ("pooling", "regions", "resampling", "unfolding", "vision"),
    "signals": ("gated", "losses", "signal", "training", "windows"),
    "movement": (
        *("blocks", "creation", "indexing", "movement", "padding", "pass_through"),
        *("ranking", "selection", "sequences", "shaping"),
    ),
    "tables": (
        "ml_features",
        "ml_labels",
        "ml_linear",
        "ml_svm",
        "ml_trees",
        "ml_ensembles",
        "terms",
        "text",
        "tokens",
    ),
    "runtime": tuple(sorted({family(op) for op in OPS if op.domain == "com.microsoft"})),
}
"""Families of operators that share kernels, and so a library."""


def members(group: str) -> list[type[Op]]:
    return [op for op in OPS if family(op) in GROUPS[group] and op.name not in NOT_NATIVE]


def plain_rows(op: type[Op], full: bool) -> list[Row]:
    """The rows of an operator with attributes as ONNX stores them; evenly chosen ones where there
    are many.
    """
    found = []
    for row in rows(op, np.random.default_rng(1)):
        numbers = {
            k: float(np.float32(v)) for k, v in row.op.attributes().items() if isinstance(v, float)
        }
        found.append(dataclasses.replace(row, op=row.op.replace(**numbers)))
    return found if full else found[:: -(-len(found) // MOST_ROWS)]


def typed_rows(op: type[Op], full: bool) -> Iterator[Row]:
    """The rows in float32 and in one other floating type in turn, or in all."""
    turn = itertools.cycle(FLOATS)
    for row in plain_rows(op, full):
        yield row
        if row.has_random_floats:
            yield from (row.cast(dtype) for dtype in (FLOATS if full else (next(turn),)))


def cases(op: type[Op], full: bool) -> Iterator[Case]:
    """The rows as cases: what the sample fixes is a constant or an input, one output is asked for
    or all.
    """
    for row in typed_rows(op, full):
        held = tuple(is_constant(row, i) for i in range(len(row.inputs)))
        free = (False,) * len(held)
        for variant in dict.fromkeys([free] if issubclass(op, Elementwise) else [held, free]):
            for outputs in sorted({1, len(results(row))}):
                yield Case(row, variant, outputs)


def refusal(case: Case) -> str | None:
    """Why the case has no native code; None when it has."""
    try:
        generate(case.alone(), Target.resolve("x86-64"))
    except UnsupportedOperatorError as error:
        return error.what
    return None


Runner = Callable[[Graph, Mapping[str, Any]], Mapping[str, Any]]
"""Compiles a graph and runs it."""


def here(target: str, threads: int) -> Runner:
    """Compiled and run on this machine."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with compile_graph(graph, CompileOptions(target=target, threads=threads)) as model:
            return model.run(feeds)

    return run


def wrong(batch: Sequence[Case], run: Runner) -> list[str]:
    """What is wrong with the native results of these cases, all compiled in one library."""
    graph = Graph("table")
    outputs = [case.add_to(graph) for case in batch]
    for i, value in enumerate(itertools.chain(*outputs)):
        graph.add_output(value, f"y{i}")
    arrays = list(itertools.chain(*(case.fed() for case in batch)))
    found = iter(run(graph, {v.name: x for v, x in zip(graph.inputs, arrays)}).values())
    messages = []
    for case in batch:
        for number in range(case.outputs):
            problem = problem_of(case.row, number, next(found))
            if problem:
                messages.append(f"{case}, output {number}: {problem}")
    return messages


def problem_of(row: Row, number: int, actual: Any) -> str | None:
    """What is wrong with one output of a row: the meaning in float64 is the standard, the row's own
    type its type.
    """
    wanted = results(row)[number].dtype
    if actual.dtype != wanted:
        return f"is {actual.dtype} and not {wanted}"
    exact = results(widened(row))[number]
    return difference(actual, exact, row.op.accuracy, flushed=True)


def widened(row: Row) -> Row:
    """The same numbers in float64, to know what exact results are."""

    def wide(x: Any) -> Any:
        floating = isinstance(x, np.ndarray) and dtypes.by_numpy(x.dtype).is_float
        return x.astype(np.float64) if floating else x

    return dataclasses.replace(row, inputs=tuple(map(wide, row.inputs)))


def check(
    chosen: Sequence[Case], target: str = "native", threads: int = 1, run: Runner | None = None
) -> None:
    messages = []
    for start in range(0, len(chosen), BATCH):
        messages += wrong(chosen[start : start + BATCH], run or here(target, threads))
    assert not messages, f"{len(messages)} of {len(chosen)} cases differ:\n" + "\n".join(
        messages[:20]
    )


def native_cases(chosen: Sequence[type[Op]], full: bool) -> list[Case]:
    return [case for op in chosen for case in cases(op, full) if refusal(case) is None]
