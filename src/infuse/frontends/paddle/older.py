"""Programs before PIR: a ProgramDesc, whose variables have names and may be written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.paddle.messages import DENSE_TENSOR, DTYPES, MESSAGES, value_of
from infuse.frontends.paddle.names import OLD, OperatorNames
from infuse.frontends.paddle.program import Input, PaddleOperator, PaddleRegion, Program, Reference
from infuse.frontends.protobuf import parse
from infuse.ir.graph import Array

Parameters = Callable[[list[str]], dict[str, Array]]
"""The elements of the parameters of these names."""
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "shape": {"dtype": "int32"}, "round": {"half": "away"}
}  # fmt: skip
"""What was not said of an operator, and is otherwise now."""
_BLOCK, _VARIABLE, _VARIABLES = 8, 13, 14


def is_program(data: bytes | memoryview) -> bool:
    """Whether these first bytes of a file are those of a program: a block, whose first fields are
    its number 0, its parent -1 and a variable.
    """
    head = bytes(data[:40])
    if head[:1] != b"\n":
        return False
    place = 1
    while place < len(head) and head[place] & 0x80:
        place += 1
    return head[place + 1 :].startswith(b"\x08\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")


def read_program(data: memoryview, where: str, parameters: Parameters) -> Program:
    """The program in the bytes of a `.pdmodel`."""
    message = parse(MESSAGES["Program"], data, where, "the program")
    return _Reader(message).program(parameters)


class _Reader:
    def __init__(self, message: Any) -> None:
        self._blocks = list(message.blocks)
        if not self._blocks:
            raise ModelFileError("the program has no block")
        self._regions: dict[int, PaddleRegion] = {}
        self._variables = {v.name: v for v in self._blocks[0].vars}

    def program(self, parameters: Parameters) -> Program:
        """The whole program."""
        names = sorted(
            v.name
            for v in self._blocks[0].vars
            if v.persistable and v.type.type == DENSE_TENSOR and v.name not in ("feed", "fetch")
        )
        elements = parameters(names)
        inputs: list[tuple[int, Input]] = []
        results: list[tuple[int, str]] = []
        for op in self._blocks[0].ops:
            if op.type == "feed":
                (name,) = _arguments(op.outputs, "Out")
                inputs.append((_column(op), self._input(name)))
            elif op.type == "fetch":
                (name,) = _arguments(op.inputs, "X")
                results.append((_column(op), name))
        return Program(
            self._region(0),
            [value for _, value in sorted(inputs, key=lambda pair: pair[0])],
            [(name, name) for _, name in sorted(results, key=lambda pair: pair[0])],
            {name: (name, array) for name, array in elements.items()},
        )

    def _input(self, name: str) -> Input:
        if name not in self._variables:
            raise ModelFileError(f"the input {name!r} is not described")
        type = self._variables[name].type
        if type.type != DENSE_TENSOR or type.dense_tensor.tensor.data_type not in DTYPES:
            raise UnsupportedOperatorError(f"the input {name!r} is not a tensor of a type we have")
        tensor = type.dense_tensor.tensor
        return Input(name, name, DTYPES[tensor.data_type], tuple(tensor.dims))

    def _region(self, index: int) -> PaddleRegion:
        if not 0 <= index < len(self._blocks):
            raise ModelFileError(f"there is no block {index}")
        if index not in self._regions:
            region = self._regions[index] = PaddleRegion([])
            region.operators += [
                self._operator(op, number)
                for number, op in enumerate(self._blocks[index].ops)
                if op.type not in ("feed", "fetch")
            ]
        return self._regions[index]

    def _operator(self, op: Any, number: int) -> PaddleOperator:
        attributes: dict[str, Any] = {}
        operands = {slot.parameter: list(slot.arguments) for slot in op.inputs if slot.arguments}
        results = {slot.parameter: list(slot.arguments) for slot in op.outputs if slot.arguments}
        regions = []
        for attribute in op.attrs:
            if attribute.type == _BLOCK:
                regions.append(self._region(attribute.block_idx))
            elif attribute.type == _VARIABLE:
                operands[attribute.name] = [attribute.var_name]
            elif attribute.type == _VARIABLES:
                operands[attribute.name] = list(attribute.vars_name)
            else:
                attributes[attribute.name] = value_of(attribute)
        path = tuple(filter(None, str(attributes.pop("op_namescope", "")).split("/")))
        signature = OLD.get(op.type)
        if signature is None:
            return PaddleOperator(
                op.type, number, operands, results, attributes, regions, path=path
            )
        attributes.update(_DEFAULTS.get(op.type, {}))
        return PaddleOperator(
            signature.name,
            number,
            _renamed(signature, operands),
            _results(signature, results),
            {signature.attributes.get(name, name): v for name, v in attributes.items()},
            path=path,
        )


def _arguments(slots: Iterable[Any], parameter: str) -> list[str]:
    names = [name for slot in slots if slot.parameter == parameter for name in slot.arguments]
    if len(names) != 1:
        raise ModelFileError(f"a feed or fetch has {len(names)} tensors, not one")
    return names


def _column(op: Any) -> int:
    return next((int(value_of(a)) for a in op.attrs if a.name == "col"), 0)


def _renamed(
    signature: OperatorNames, operands: dict[str, list[str]]
) -> dict[str, list[Reference]]:
    """Operands under their new names; those that the signature lacks keep theirs."""
    renamed: dict[str, list[Reference]] = {}
    left = dict(operands)
    for name, older in zip(signature.operands, signature.older_operands):
        present = [left.pop(p) for p in older.split("/") if p in left]
        if present:
            renamed[name] = [*present[0]]
    for name, references in left.items():
        renamed[signature.attributes.get(name, name)] = [*references]
    return renamed


def _results(signature: OperatorNames, results: dict[str, list[str]]) -> dict[str, list[Reference]]:
    renamed: dict[str, list[Reference]] = {}
    for name, older in zip(signature.results, signature.older_results):
        if older in results:
            renamed[name] = [*results[older]]
    return renamed
