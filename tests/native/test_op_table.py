"""Every operator × its samples × element types, compiled, against `eval`; many cases share one
library.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.codegen.compile import compile_graph, generate
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import EXACT, Elementwise, Op, Rounding
from infuse.targets import Target
from infuse.testing.compare import difference
from infuse.testing.emulation import NEWEST
from infuse.testing.samples import Row, is_constant, results, rows, type_of
from tests.native.kernel_tools import targets

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
    **dict.fromkeys(("OptionalGetElement", "OptionalHasElement"), "no native code yet"),
    "Optional": "is a optional",
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "CategoryMapper"),
        "is a string",
    ),
    **dict.fromkeys(("CastMap", "DictVectorizer"), "is a map"),
    "ZipMap": "is a seq",
    "ImageDecoder": "no native code yet",
}
"""Operators of which no row runs natively, and what the refusal says."""
PARTLY_NATIVE = {
    **dict.fromkeys(("CausalConvWithState", "GroupQueryAttention", "LinearAttention"), "float64"),
    **dict.fromkeys(("LabelEncoder", "OneHotEncoder", "TfIdfVectorizer"), "is a string"),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), "is a string"),
}
"""Operators of which some rows are refused, and what the refusal says."""
ALSO = dict.fromkeys(
    ("CategoryMapper", "LabelEncoder", "OneHotEncoder", "TfIdfVectorizer"), "strings"
)
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
    "elementwise": ("activations", "arithmetic", "comparison", "conversion", "unary"),
    "quantization": ("integers", "quantization"),
    "products": ("attending", "contraction", "convolution"),
    "recurrent": ("recurrent", "recurrences"),
    "lines": ("normalization", "reduction", "running", "softmax_family"),
    "images": ("pooling", "regions", "resampling", "unfolding", "vision"),
    "signals": ("gated", "losses", "signal", "training", "windows"),
    "movement": (
        *("blocks", "creation", "indexing", "movement", "padding", "pass_through"),
        *("selection", "shaping"),
    ),
    "tables": (
        "ml_features",
        "ml_labels",
        "ml_linear",
        "ml_svm",
        "ml_trees",
        "ml_ensembles",
        "text",
    ),
    "runtime": (
        *(
            "microsoft",
            "microsoft_attention",
            "microsoft_bits",
            "microsoft_grouped",
            "microsoft_rotary",
            "microsoft_integers",
            "microsoft_normalization",
        ),
        "microsoft_quantized",
    ),
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
    graph = Graph("one")
    try:
        for value in case.add_to(graph):
            graph.add_output(value)
        generate(graph, Target.resolve("x86-64"))
    except UnsupportedOperatorError as error:
        return error.what
    return None


Runner = Callable[[Graph, Mapping[str, Any]], Mapping[str, Any]]
"""Compiles a graph and runs it."""


def here(target: str, threads: int) -> Runner:
    """Compiled and run on this machine."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with compile_graph(graph, target=target, threads=threads) as model:
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
    return difference(actual, results(widened(row))[number], row.op.accuracy)


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


@pytest.mark.parametrize("op", OPS, ids=name)
def test_refusals_are_known(op: type[Op]) -> None:
    refused = [(case, why) for case in cases(op, full=True) if (why := refusal(case)) is not None]
    every = len(refused) == len(list(cases(op, full=True)))
    allowed = NOT_NATIVE.get(op.name) or PARTLY_NATIVE.get(op.name)
    assert every == (op.name in NOT_NATIVE), (
        "an operator that has become native leaves the list NOT_NATIVE"
    )
    assert bool(refused) == (allowed is not None), (
        "an operator that is native altogether leaves PARTLY_NATIVE"
    )
    for case, why in refused:
        assert allowed is not None
        assert allowed in why or ALSO.get(op.name, allowed) in why, f"{case}: {why}"


def native_cases(chosen: Sequence[type[Op]], full: bool) -> list[Case]:
    return [case for op in chosen for case in cases(op, full) if refusal(case) is None]


def test_every_operator_is_in_a_group() -> None:
    assert {op for group in GROUPS for op in members(group)} == {
        op for op in OPS if op.name not in NOT_NATIVE
    }


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning(group: str) -> None:
    check(native_cases(members(group), full=False))


@pytest.mark.full
@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("target", targets(("x86-64-v4", NEWEST)))
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning_in_every_row(group: str, target: str) -> None:
    check(native_cases(members(group), full=True), target, threads=2)


SUBSET = (
    *(
        "Add",
        "Gelu",
        "Where",
        "Cast",
        "Conv",
        "MatMul",
        "AveragePool",
        "Softmax",
        "LayerNormalization",
        "ReduceSum",
    ),
    *("ArgMax", "Attention", "Transpose", "Gather"),
)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("target", [name for name in targets((NEWEST,)) if name != "native"])
def test_operators_agree_on_other_targets(target: str) -> None:
    check(
        [case for op in OPS if op.name in SUBSET for case in native_cases([op], full=False)[:3]],
        target,
    )


@pytest.mark.parametrize("half", [0, 1], ids=["half of them", "the others"])
def test_operators_agree_when_sizes_are_symbols(half: int) -> None:
    every = [
        case for op in OPS if op.name not in NOT_NATIVE for case in symbolic_cases(op)[half::5][:1]
    ]
    chosen = [case for case in every if refusal(case) is None]
    assert len(chosen) > 0.9 * len(every)
    check(chosen)


def symbolic_cases(op: type[Op]) -> list[Case]:
    """The rows with a symbol for every size that a model may leave open."""
    found = []
    for row in plain_rows(op, full=False):
        held = tuple(
            is_constant(row, i) or (op.name in CONVOLUTIONS and i > 0)
            for i in range(len(row.inputs))
        )
        found.append(
            Case(
                row, (False,) * len(held) if issubclass(op, Elementwise) else held, 1, symbolic=True
            )
        )
    return found


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_in_every_row_when_sizes_are_symbols(group: str) -> None:
    every = [case for op in members(group) for case in symbolic_cases(op)]
    check([case for case in every if refusal(case) is None], threads=2)


# -- integers, booleans and conversions ------------------------------------------------------------


def edges(dtype: DType) -> Any:
    """Numbers of a type where something may go wrong."""
    if dtype.is_bool:
        return np.array([False, True, True, False, True, False, True, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return np.array(
            [limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1, 3, 100], dtype.numpy
        )
    largest = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
    numbers = [
        0.0,
        -0.0,
        1.5,
        2.5,
        -1.5,
        -0.4,
        100.0,
        127.0,
        3e4,
        largest,
        -largest,
        np.inf,
        np.nan,
    ]
    return np.array(numbers).astype(dtype.numpy)


def numeric(kind: str, *arrays: Any, **attributes: Any) -> Case:
    op = ops.REGISTRY["", kind]
    held = tuple(
        kind not in ELEMENTWISE and a.dtype == np.int64 and i > 0 for i, a in enumerate(arrays)
    )
    return Case(Row(op(**attributes), arrays, (False,) * len(arrays)), held, 1)


ELEMENTWISE = {op.name for op in OPS if issubclass(op, Elementwise)}
ARITHMETIC = ("Add", "Sub", "Mul", "Min", "Max", "Equal", "Less", "GreaterOrEqual")
BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")


def integer_cases(dtype: DType) -> Iterator[Case]:
    """Overflow, division and movement of integers of one type."""
    x = edges(dtype)
    y = np.roll(x, 3)
    yield from (numeric(kind, x, y) for kind in (*ARITHMETIC, *BITS))
    divisor = np.where(y == 0, 1, y).astype(x.dtype)
    whole = np.where(x == np.iinfo(x.dtype).min, 1, x).astype(x.dtype)
    yield from (
        numeric(kind, whole, divisor, **more)
        for kind, more in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1}))
    )
    yield from (
        numeric(kind, x)
        for kind in ("Abs", "Neg", "Sign", "BitwiseNot")
        if dtype.is_signed or kind != "Neg"
    )
    yield numeric("Where", x > 1, x, y)
    yield numeric("Clip", x, x.dtype.type(1), x.dtype.type(50))
    if not dtype.is_signed:
        shifts = np.array([0, 1, 7, 8, 31, 32, 63, 64], x.dtype)
        yield from (numeric("BitShift", x, shifts, direction=way) for way in ("LEFT", "RIGHT"))
    square, axes = x.reshape(2, 4), np.array([1])
    for kind in ("Sum", "Prod", "Max", "Min", "SumSquare", "L1"):
        yield numeric(f"Reduce{kind}", square, axes)
    yield numeric("CumSum", square, np.array(1))
    yield numeric("MatMul", square, square.T.copy())


def moved(x: Any) -> Iterator[Case]:
    """Movement of elements of any type."""
    square = x[:8].reshape(2, 4)
    yield numeric("Transpose", square, perm=(1, 0))
    yield numeric(
        "Slice", square, np.array([0, -1]), np.array([2, -9]), np.array([0, 1]), np.array([1, -2])
    )
    yield numeric("Pad", square, np.array([1, 0, 0, -1]))
    yield numeric("Pad", square, np.array([0, 2, 1, 1]), mode="reflect")
    yield numeric("Tile", square, np.array([2, 3]))
    yield numeric("Expand", square[:, :1].copy(), np.array([3, 2, 4]))
    yield numeric("Gather", square, np.array([[3, -1]]), axis=1)
    yield numeric("GatherElements", square, np.array([[0, -1, 2, 0]]), axis=1)
    yield numeric("Trilu", square)


def ordered(x: Any) -> Iterator[Case]:
    """Comparison and scattering of numbers."""
    square = x[:8].reshape(2, 4)
    yield numeric("ScatterElements", square, np.array([[1, 0, 1, -1]]), square[:1].copy(), axis=0)
    yield numeric("TopK", square, np.array([2]))
    yield numeric("ArgMax", square, axis=1)
    yield numeric("ArgMin", square, axis=0)


def test_integers_wrap_and_move() -> None:
    few = (dtypes.int8, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint64)
    chosen = [case for dtype in few for case in integer_cases(dtype)]
    chosen += [
        case
        for dtype in (*SIGNED, *UNSIGNED, *ALL_FLOATS, dtypes.bool_)
        for case in moved(edges(dtype))
    ]
    chosen += [
        case for dtype in (*few, dtypes.float64, dtypes.float16) for case in ordered(edges(dtype))
    ]
    assert not [case for case in chosen if refusal(case)]
    check(chosen)


def held_by(x: Any, dtype: DType) -> Any:
    """The elements whose whole part an integer type holds; all for other types."""
    if not dtype.is_integer or not dtypes.by_numpy(x.dtype).is_float:
        return x
    limits, whole = np.iinfo(dtype.numpy), np.trunc(x.astype(np.float64))
    return x[(whole >= float(limits.min)) & (whole < float(limits.max))]


def test_casts_among_all_types() -> None:
    kinds = (*SIGNED, *UNSIGNED, *ALL_FLOATS, dtypes.bool_)
    with np.errstate(all="ignore"):
        check(
            [
                numeric("Cast", held_by(edges(a), b), to=b)
                for a, b in itertools.product(kinds, kinds)
                if a != b
            ]
        )


def test_floats_that_no_integer_holds() -> None:
    """NumPy's results vary with the place in the array; these are those of x86's instructions."""
    x = np.float32([3e9, -3e9, 1e20, -1e20, np.inf, np.nan])
    least = {d: int(np.iinfo(d.numpy).min) for d in SIGNED}
    expected = {
        dtypes.int64: [3 * 10**9, -3 * 10**9, *[least[dtypes.int64]] * 4],
        dtypes.int32: [least[dtypes.int32]] * 6,
        dtypes.int8: [0] * 6,
        dtypes.uint32: [3 * 10**9, 2**32 - 3 * 10**9, 0, 0, 0, 0],
        dtypes.uint64: [3 * 10**9, 2**64 - 3 * 10**9, *[2**63] * 4],
    }
    graph = Graph("casts")
    given = graph.add_input("x", TensorType(dtypes.float32, (6,)))
    for dtype in expected:
        node = graph.add_node(
            Node(ops.conversion.Cast(dtype), [given], [Value(TensorType(dtype, (6,)))])
        )
        graph.add_output(node.output, dtype.name)
    with compile_graph(graph, threads=1) as model:
        found = model.run({"x": x})
    assert {d: found[d.name].tolist() for d in expected} == expected


def test_comparison_catches_a_wrong_result() -> None:
    row = Row(ops.REGISTRY["", "Neg"](), (np.float32([1, 2]),), (False,))
    assert problem_of(row, 0, np.float32([-1, -2])) is None
    assert problem_of(row, 0, np.float32([-1, 2]))
    assert problem_of(row, 0, np.float64([-1, -2]))
    assert row.op.accuracy == EXACT == Rounding(ulp=0)
