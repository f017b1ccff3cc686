"""A program of a user with an operator, a rule and a pass of its own; prints what came of them as
JSON.

`python extension.py FOLDER`
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import infuse
from infuse import ops
from infuse.ir.graph import Graph
from infuse.ops.core.base import Array, Rounding
from infuse.ops.core.elementwise import Floating
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.expressions import call
from infuse.ops.core.formula import Formulas, Term
from infuse.rewrite import Pass, Report, Rule

DOMAIN = "com.example"


class Bump(Floating):
    """height / (1 + x²)"""

    height: float = 1.0

    domain = DOMAIN
    accuracy = Rounding(ulp=2)

    def eval(self, x: Array) -> Array:
        return np.asarray(self.height / (1 + x * x)).astype(x.dtype)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return self.height / (x * x + 1.0)


class FuseBump(Rule):
    """Reciprocal(x · x + 1) → Bump(x)"""

    def match(self, x: Any) -> Any:
        return ops.reciprocal(x * x + 1.0)

    def build(self, x: Any) -> Any:
        return call("Bump", DOMAIN)(x, height=1.0)


class CountNodes(Pass):
    """Notes how many nodes there are."""

    def run(self, graph: Graph, report: Report) -> None:
        report.notes.append(f"{len(graph)} nodes")


def model(path: Path) -> Path:
    """Bump, height 2, by its name; then Reciprocal(y · y + 1)."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [
        helper.make_node("Bump", ["x"], ["y"], name="bump", domain=DOMAIN, height=2.0),
        helper.make_node("Mul", ["y", "y"], ["square"], name="mul"),
        helper.make_node("Add", ["square", "one"], ["sum"], name="add"),
        helper.make_node("Reciprocal", ["sum"], ["z"], name="reciprocal"),
    ]
    sizes = ["n", 5]
    graph = helper.make_graph(
        nodes,
        "bumps",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, sizes)],
        [one],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def main(folder: Path) -> None:
    """Read, rewrite, save, read again, compile and run."""
    graph = infuse.load(model(folder / "bumps.onnx"))
    better = infuse.optimize(graph, infuse.Rules(extra=[FuseBump(), CountNodes()]))
    infuse.save(better, folder / "bumps.infuse")
    again = infuse.load(folder / "bumps.infuse")
    x = np.linspace(-3, 3, 20, dtype=np.float32).reshape(4, 5)
    y = 2 / (1 + x.astype(np.float64) ** 2)
    exact = 1 / (1 + y**2)
    (interpreted,) = evaluate(again, {"x": x}).values()
    with infuse.compile(again) as compiled:
        native = compiled(x)
    answer = {
        "kinds": [node.kind for node in again.nodes],
        "fired": dict(better.report.fired),
        "notes": better.report.notes,
        "errors": [float(np.abs(found - exact).max()) for found in (interpreted, native)],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
