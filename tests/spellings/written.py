"""Small ONNX models written as formulas: `y = 0.5 * x * (1.0 + Erf(x / 1.4142135))`.

A line assigns a call of an operator, or arithmetic, to a name (or to several). Numbers and lists of
numbers are constants: float32 where they have a point, int64 where they have none. `Weights(4, 3)`
are random elements in that shape, `Positive(4)` random elements between 0.5 and 1.5. A keyword is
an attribute, None an input that is left out. The last name is the output.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

BINARY = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.MatMult: "MatMul",
    ast.Pow: "Pow",
}
TYPES = {
    "float": TensorProto.FLOAT,
    "half": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "bool": TensorProto.BOOL,
}


class Writer:
    """Turns lines of formulas into nodes and initializers."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        for name, array in constants.items():
            self.initializers.append(numpy_helper.from_array(np.asarray(array), name))

    def lines(self, text: str) -> list[str]:
        """Write the lines; the names that the last one assigns."""
        names: list[str] = []
        for statement in ast.parse(_dedented(text)).body:
            assert isinstance(statement, ast.Assign), ast.unparse(statement)
            target = statement.targets[0]
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            names = [part.id for part in parts if isinstance(part, ast.Name)]
            self.value(statement.value, names)
        return names

    def value(self, tree: ast.expr, names: list[str] | None = None) -> str:
        """The name of what a formula computes, which is the first of `names` where it has one."""
        if isinstance(tree, ast.Name):
            assert names is None, f"{tree.id} has another name already"
            return tree.id
        if isinstance(tree, ast.Constant) and tree.value is None:
            return ""
        if isinstance(tree, ast.BinOp):
            return self.node(BINARY[type(tree.op)], [tree.left, tree.right], {}, names)
        if isinstance(tree, ast.UnaryOp) and not isinstance(tree.operand, ast.Constant):
            return self.node("Neg", [tree.operand], {}, names)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            kind = tree.func.id
            if kind not in ("Weights", "Positive"):
                attributes = {
                    k.arg or "": _attribute(k.arg or "", ast.literal_eval(k.value))
                    for k in tree.keywords
                }
                return self.node(kind, tree.args, attributes, names)
            shape = [ast.literal_eval(size) for size in tree.args]
            low, high = (0.5, 1.5) if kind == "Positive" else (-0.5, 0.5)
            return self.constant(self.random.uniform(low, high, shape).astype(np.float32), names)
        return self.constant(_array(ast.literal_eval(tree)), names)

    def node(
        self,
        kind: str,
        operands: list[ast.expr],
        attributes: dict[str, Any],
        names: list[str] | None,
    ) -> str:
        """Add a node of this kind; the name of its first result."""
        inputs = [self.value(tree) for tree in operands]
        outputs = names or [f"v{len(self.nodes)}"]
        self.nodes.append(
            helper.make_node(kind, inputs, outputs, name=f"{kind}_{outputs[0]}", **attributes)
        )
        return outputs[0]

    def constant(self, array: np.ndarray, names: list[str] | None) -> str:
        """Add an initializer."""
        name = names[0] if names else f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _array(number: Any) -> np.ndarray:
    array = np.asarray(number)
    with np.errstate(over="ignore"):
        return array.astype({"f": np.float32, "i": np.int64, "b": np.bool_}[array.dtype.kind])


def _attribute(name: str, number: Any) -> Any:
    """An attribute; types of elements by their names, tensors for the one that asks for them."""
    if name == "to":
        return TYPES[number]
    return numpy_helper.from_array(_array(number)) if name == "value" else number


def written(
    inputs: str, text: str, opset: int = 18, constants: Mapping[str, Any] | None = None
) -> ModelProto:
    """The model of formulas; inputs are `x[N, 3] ids[N] int64`, float where no type follows."""
    writer = Writer(constants or {})
    outputs = writer.lines(text)
    graph = helper.make_graph(
        writer.nodes,
        "form",
        [
            helper.make_tensor_value_info(name, TYPES[kind], list(shape))
            for name, kind, shape in declared(inputs)
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        writer.initializers,
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8 if opset < 19 else 10,
    )


def declared(inputs: str) -> list[tuple[str, str, tuple[int | str, ...]]]:
    """Name, type and shape of each input."""
    result: list[tuple[str, str, tuple[int | str, ...]]] = []
    for part in inputs.replace(", ", ",").split():
        if "[" not in part:
            name, _, shape = result.pop()
            result.append((name, part, shape))
            continue
        name, sizes = part.rstrip("]").split("[")
        shape = tuple(int(s) if s.isdigit() else s for s in sizes.split(",") if s)
        result.append((name, "float", shape))
    return result
