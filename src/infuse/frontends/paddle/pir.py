"""Programs in PIR: JSON of operators, whose results are numbered and never written again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import json_object
from infuse.frontends.paddle.names import NEW
from infuse.frontends.paddle.program import Input, PaddleOperator, PaddleRegion, Program, Reference
from infuse.ir.graph import Array
from infuse.tracing.calls import words

_DIALECTS: Final = {"0": "builtin", "1": "pd_op", "2": "cf"}
_TYPES: Final[dict[str, DType]] = {
    "t_bool": dtypes.bool_, "t_i8": dtypes.int8, "t_ui8": dtypes.uint8, "t_i16": dtypes.int16,
    "t_i32": dtypes.int32, "t_i64": dtypes.int64, "t_f16": dtypes.float16,
    "t_bf16": dtypes.bfloat16, "t_f32": dtypes.float32, "t_f64": dtypes.float64,
}  # fmt: skip
_PLAIN: Final = words(
    """a_bool a_i32 a_i64 a_f32 a_f64 a_str a_intarray a_dtype a_index a_scalar a_place a_layout"""
)
_BESIDE: Final = ("batch_norm", "sync_batch_norm")
"""Operators that write something else in place, which nothing reads at inference."""
_DEEPEST: Final = 50


def read_program(
    data: memoryview, where: str, parameters: Callable[[list[str]], dict[str, Array]]
) -> Program:
    """The program in the bytes of a JSON file."""
    document = json_object(data, "the program")
    reader = _Reader()
    region = reader.region(document["program"]["regions"][0], 0)
    elements = parameters(sorted(reader.parameters.values()))
    return Program(
        region,
        reader.inputs,
        [(name, reference) for _, name, reference in sorted(reader.results, key=lambda r: r[0])],
        {ref: (name, elements[name]) for ref, name in reader.parameters.items()},
    )


class _Reader:
    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.results: list[tuple[int, str, Reference]] = []
        self.parameters: dict[Reference, str] = {}

    def region(self, content: Any, depth: int) -> PaddleRegion:
        """The only block of a region."""
        if depth > _DEEPEST:
            raise ModelFileError(f"more than {_DEEPEST} regions are inside each other")
        if len(content["blocks"]) != 1:
            raise UnsupportedOperatorError("a region of several blocks is not supported")
        block = content["blocks"][0]
        region = PaddleRegion([], [int(argument["#"]) for argument in block["args"]])
        for number, op in enumerate(block["ops"]):
            self._add(region, op, number, depth)
        return region

    def _add(self, region: PaddleRegion, op: Any, number: int, depth: int) -> None:
        kind = op["#"]
        if kind == "p":
            self.parameters[int(op["O"]["%"])] = str(op["A"][3])
            return
        number_, _, base = kind.partition(".")
        dialect = _DIALECTS.get(number_, number_)
        attributes = {a["N"]: _value(a["AT"]) for a in op["A"]}
        operands = [int(operand["%"]) for operand in op["I"]]
        if dialect == "cf" and base == "yield":
            region.results += operands
        elif dialect == "pd_op" and base == "data":
            self._input(op["O"][0], attributes)
        elif dialect == "pd_op" and base == "fetch":
            name = str(attributes["name"])
            self.results.append((int(attributes.get("col", 0)), name, operands[0]))
        else:
            inner = [self.region(part, depth + 1) for part in op.get("regions", ())]
            name = base.rstrip("_") if dialect == "pd_op" else f"{dialect}.{base}"
            made = _operator(name, number, operands, op["O"], attributes)
            made.regions = inner
            if base.endswith("_") and name not in _BESIDE and operands:
                made.replaced = operands[0]
            region.operators.append(made)

    def _input(self, output: Any, attributes: dict[str, Any]) -> None:
        name, dtype, shape = str(attributes["name"]), *_tensor(output["TT"])
        self.inputs.append(Input(name, int(output["%"]), dtype, shape))


def _operator(
    name: str, number: int, operands: Sequence[int], outputs: Any, attributes: dict[str, Any]
) -> PaddleOperator:
    signature = NEW.get(name)
    path = tuple(filter(None, str(attributes.pop("struct_name", "")).split("/")))
    if signature is None:
        # Control flow and lists have operands in any number, and no names for them.
        results: dict[str, list[Reference]] = {"out": [int(output["%"]) for output in outputs]}
        listed = frozenset("out" for output in outputs if output["TT"]["#"].endswith("t_vec"))
        return PaddleOperator(
            name, number, {"x": [*operands]}, results, attributes, [], listed, path
        )
    if len(operands) > len(signature.operands) or len(outputs) > len(signature.results):
        raise ModelFileError(f"operator {number}, {name}, has too many operands or results")
    listed = frozenset(
        result
        for result, output in zip(signature.results, outputs)
        if output["TT"]["#"].endswith("t_vec")
    )
    if name == "shape":
        attributes["dtype"] = "int32"
    return PaddleOperator(
        name,
        number,
        {n: [ref] for n, ref in zip(signature.operands, operands) if ref != 0},
        {n: [int(output["%"])] for n, output in zip(signature.results, outputs)},
        attributes,
        [],
        listed,
        path,
    )


def _tensor(type: Any) -> tuple[DType, list[int]]:
    """The element type and the shape of a tensor's type."""
    if not type["#"].endswith("t_dtensor"):
        raise UnsupportedOperatorError("an input that is not a tensor is not supported")
    element = type["D"][0]["#"].partition(".")[2]
    if element not in _TYPES:
        raise UnsupportedOperatorError(f"an input of the type {element} is not supported")
    return _TYPES[element], [int(size) for size in type["D"][1]]


def _value(attribute: Any) -> Any:
    """What an attribute says, as a plain value."""
    kind = attribute["#"].partition(".")[2]
    if kind == "a_array":
        return [_value(part) for part in attribute["D"]]
    if kind not in _PLAIN:
        raise UnsupportedOperatorError(f"an attribute of the type {kind} is not supported")
    return float(attribute["VD"]) if "VD" in attribute else attribute["D"]
