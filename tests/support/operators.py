"""The table of operators: what of each runs natively, found by asking the code generator for every
one.

`python -m tests.support.operators docs/operators.md` writes the page.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import defs

from infuse import dtypes
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.frontends.onnx.contributed import functions_of
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.lowering.expand.sequences import flatten, is_flattened
from infuse.lowering.stages import must_be_hosted
from infuse.ops.core.base import EXACT, REGISTRY, Elementwise, Op, Rounding
from infuse.ops.core.control_flow import ControlFlow
from infuse.targets import Target
from infuse.targets.cpu.table import KERNELS
from infuse.testing.samples import Row, node_of, results, rows, type_of
from tests.support.silences import silences

_RENAMED: Final = {"Scatter": "ScatterElements", "Upsample": "Resize", "Constant": "a constant"}
_FLOATS: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_GROUPS: Final = {
    "floats": {d.name for d in _FLOATS},
    "integers": {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "small floats": {d.name for d in dtypes.ALL if d.is_float and d.bits <= 8},
    "small integers": {d.name for d in dtypes.ALL if d.is_integer and d.bits < 8},
    "complex": {"complex64", "complex128"},
}
RUNTIME = "com.microsoft"
UNKNOWN_OF_RUNTIME: Final = (
    "AttnLSTM",
    "BeamSearch",
    "BifurcationDetector",
    "ConvTransposeWithDynamicPads",
    "DecoderMaskedMultiHeadAttention",
    "GreedySearch",
    "Inverse",
    "MRotaryEmbedding",
    "MatMulFpQ4",
    "MaxpoolWithMask",
    "NGramHashMapping",
    "NGramRepeatBlock",
    "Sampling",
    "SparseAttention",
    "SparseToDenseMatMul",
    "VarlenNGramHashMapping",
    "WhisperBeamSearch",
    "WordConvEmbedding",
)
"""Operators of ONNX Runtime's own domain, with kernels for processors, that are not known here."""
_HEAD: Final = """# Operators

What each operator can do here, found by asking the code generator for all of its samples in all
element types that ONNX allows (written by `python -m tests.support.operators docs/operators.md`; a
test holds this page against the code).

* *opsets*: those of the domain in which a model may use the operator; older forms are lifted to the
  newest.
* *native*, *on the host*: element types that compiled code takes, and those that only the
  interpreter does; of several inputs, those of the one that may have most. *floats* are float16,
  bfloat16, float32 and float64, *integers* those of 8 to 64 bits.
* *accuracy*: how far native results may lie from exact ones, in units in the last place, or as a
  share of the largest element.
* *limits*: what makes a node a host step all the same.
"""


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    name: str
    opsets: str
    native: str = ""
    host: str = ""
    accuracy: str = ""
    limits: str = ""

    @property
    def line(self) -> str:
        """The line as text."""
        return f"| {' | '.join(dataclasses.astuple(self))} |"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for domain in sorted({domain for domain, _ in _shipped()}):
        entries = list(table(domain))
        parts.append(f"\n## {domain or 'ai.onnx'} ({len(entries)})\n")
        parts.append(
            "| operator | opsets | native | on the host | accuracy | limits "
            "|\n|---|---|---|---|---|---|\n"
        )
        parts += [entry.line + "\n" for entry in entries]
        if domain == RUNTIME:
            parts.append(
                "\nNot known, so kept and written, but refused where a model is compiled: "
            )
            parts.append(", ".join(UNKNOWN_OF_RUNTIME) + ".\n")
    return "".join([*parts, silences()])


def _shipped() -> dict[tuple[str, str], type[Op]]:
    """The operators that are not a user's own."""
    return {key: op for key, op in REGISTRY.items() if op.__module__.startswith("infuse.ops.")}


def table(domain: str) -> Iterator[Entry]:
    """The lines of a domain: its operators, and those of ONNX that are read as others."""
    operators = {name: op for (where, name), op in _shipped().items() if where == domain}
    foreign = {s.name: s for s in defs.get_all_schemas() if s.domain == domain and not s.deprecated}
    read = functions_of(domain) - operators.keys() - foreign.keys()
    for name in sorted(operators.keys() | foreign.keys() | read):
        if name in read:
            yield Entry(name, "1", limits="read as other operators")
            continue
        yield (
            entry_of(operators[name])
            if name in operators
            else _read_entry(domain, name, foreign[name])
        )


def _read_entry(domain: str, name: str, schema: Any) -> Entry:
    functions = schema.has_function or schema.has_context_dependent_function
    other = _RENAMED.get(name) or ("the operators of its function" if functions else "")
    return Entry(name, _opsets(domain, name), limits=f"read as {other}" if other else "not yet")


def _opsets(domain: str, name: str) -> str:
    versions = _versions()[domain]
    if name not in versions:
        return "1" if domain else ""
    newest = {"": defs.onnx_opset_version()}.get(domain) or max(map(max, versions.values()))
    return f"{min(versions[name])}–{newest}"


@cache
def _versions() -> dict[str, dict[str, list[int]]]:
    """By domain and operator of ONNX the opsets in which it is new."""
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for schema in defs.get_all_schemas_with_history():
        found[schema.domain].setdefault(schema.name, []).append(schema.since_version)
    return found


def entry_of(op: type[Op]) -> Entry:
    """The line of an operator."""
    native, host = support(op)
    limits = "; ".join(limits_of(op)) if native or not host else ""
    if is_flattened(op.domain, op.name) and not native:
        limits = "native where the parts are known before the run"
    return Entry(
        op.name,
        _opsets(op.domain, op.name),
        named(native),
        named(host),
        _accuracy(op.accuracy),
        limits,
    )


def support(op: type[Op]) -> tuple[list[DType], list[DType]]:
    """Element types that run natively, and those that only the interpreter takes."""
    if not op.samples:
        every = [d for d in dtypes.ALL if d.c_name]
        if not issubclass(op, ControlFlow):
            return [], []
        return (every, []) if KERNELS.has_kernel(op.domain, op.name) else ([], list(dtypes.ALL))
    samples = rows(op, np.random.default_rng(1))
    native, host = [], []
    for dtype in _allowed(op, samples):
        variants = [row for row in (_typed(row, op, dtype) for row in samples) if row is not None]
        if any(refusal(row) is None for row in variants):
            native.append(dtype)
        elif any(map(_evaluates, variants)):
            host.append(dtype)
    return native, host


def limits_of(op: type[Op]) -> list[str]:
    """Why some samples are refused, with their parameters as constants and as inputs."""
    if not op.samples:
        return [] if issubclass(op, ControlFlow) else ["not run"]
    samples = rows(op, np.random.default_rng(1))
    reasons = {_brief(why) for row in samples if (why := refusal(row)) is not None}
    if not issubclass(op, Elementwise):
        computed = {
            _brief(why) for row in samples if (why := refusal(row, held=False)) is not None
        } - reasons
        reasons |= {f"where its parameters are computed: {why}" for why in computed}
    return sorted(reasons)


def _allowed(op: type[Op], samples: Sequence[Row]) -> list[DType]:
    """The element types that ONNX allows for the main input, those of the samples where ONNX does
    not say.
    """
    main = _main_input(op)
    types = {_type_at(row, main) for row in samples} - {None}
    schema = _schema(op)
    if schema is not None and schema.inputs:
        types |= _named_types(schema.inputs[main].types)
    elif dtypes.float32 in types:
        types |= set(_FLOATS)
    return [d for d in dtypes.ALL if d in types]


def _named_types(texts: Iterable[str]) -> set[DType]:
    names = {
        name
        for text in texts
        for name in re.findall(r"(?:tensor|seq\(tensor|optional\(tensor)\((\w+)", text)
    }
    names = {
        {"float": "float32", "double": "float64", "float8e8m0fnu": "float8e8m0"}.get(n, n)
        for n in names
    }
    return {d for d in dtypes.ALL if d.name in names or d.name + "fn" in names}


def _schema(op: type[Op]) -> Any:
    return _schema_of(op.name, op.domain)


@cache
def _schema_of(name: str, domain: str) -> Any:
    return defs.get_schema(name, domain) if defs.has(name, domain) else None


def _main_input(op: type[Op]) -> int:
    """The input that may have most element types, the first of equals."""
    schema = _schema(op)
    formal = list(schema.inputs) if schema is not None else []
    return max(range(len(formal)), key=lambda i: (len(formal[i].types), -i), default=0)


def _type_at(row: Row, place: int) -> DType | None:
    x = row.inputs[place] if place < len(row.inputs) else None
    x = x[0] if isinstance(x, list) and x else x
    return dtypes.by_numpy(x.dtype) if isinstance(x, np.ndarray) else None


def _typed(row: Row, op: type[Op], dtype: DType) -> Row | None:
    """The row with its main input, and all of the same type variable, in an element type; None
    where that is not so.
    """
    main = _main_input(op)
    if _type_at(row, main) in (None, dtype):
        return row
    if _schema(op) is None:
        return row.cast(dtype) if _type_at(row, main) == dtypes.float32 and dtype.is_float else None
    together = _together(op, main, len(row.inputs))
    try:
        inputs = tuple(_cast(x, dtype) if i in together else x for i, x in enumerate(row.inputs))
    except (TypeError, ValueError):
        return None
    return dataclasses.replace(row, inputs=inputs)


def _together(op: type[Op], main: int, count: int) -> Collection[int]:
    """The inputs that have the type of the main one."""
    formal = _schema(op).inputs
    kinds = [formal[min(i, len(formal) - 1)].type_str for i in range(count)]
    return [i for i, kind in enumerate(kinds) if kind == formal[main].type_str]


def _cast(x: Any, dtype: DType) -> Any:
    if isinstance(x, list):
        return [_cast(one, dtype) for one in x]
    if x is None or dtypes.by_numpy(x.dtype) == dtype:
        return x
    if dtype == dtypes.string:
        return x.astype(str).astype(object)
    with np.errstate(all="ignore"):
        return x.astype(dtype.numpy)


def refusal(row: Row, held: bool = True) -> str | None:
    """Why a row has no native code, None where it has. `held`: parameters are constants, as the
    sample has them.
    """
    graph = Graph("one")
    try:
        node = node_of(row)
        if not held:
            inputs = [
                None if x is None else Value(type_of(x), f"x{i}") for i, x in enumerate(row.inputs)
            ]
            node = Node(row.op, inputs, node.outputs)
        graph.inputs += [v for v in node.inputs if v is not None and not v.is_const]
        node.op.infer_node(graph.add_node(node))
        graph.add_output(node.output, "y")
        flat = flatten(graph)
        if any(map(must_be_hosted, flat.unordered_nodes)):
            return _unfit(flat)
        generate(flat, Target.resolve("x86-64"))
    except InfuseError as error:
        return error.what
    return None


def _unfit(graph: Graph) -> str:
    values = [v for node in graph.unordered_nodes for v in (*node.operands(), *node.outputs)]
    unknown = any(isinstance(v.type, TensorType) and v.type.shape is None for v in values)
    return "results of unknown rank" if unknown else "values that are not tensors of numbers"


def _evaluates(row: Row) -> bool:
    try:
        node = node_of(row)
        node.op.infer_node(node)
        results(row)
    except (InfuseError, TypeError, ValueError, ArithmeticError, LookupError):
        return False
    return True


# -- words -----------------------------------------------------------------------------------------


def named(types: Iterable[DType]) -> str:
    """A set of element types in words."""
    left = [d.name for d in types]
    words = []
    for group, members in _GROUPS.items():
        if members <= set(left):
            words.append(group)
            left = [name for name in left if name not in members]
    return ", ".join([*words, *left])


def _accuracy(rounding: Rounding) -> str:
    if rounding == EXACT:
        return "exact"
    units = f"{rounding.ulp:g} ulp"
    return f"{units} or {rounding.abs:g}" if rounding.abs else units


def _brief(why: str) -> str:
    match = re.search(r"has no native code for (.*)", why)
    text = match.group(1) if match else why
    return text.replace("|", "/")


def main(target: str) -> None:
    """Write the page."""
    Path(target).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
