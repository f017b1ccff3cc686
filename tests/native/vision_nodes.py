"""Models of many nodes on images, for compiling takes the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.errors import RuntimeFailure

Array = Any
Inputs = Mapping[str, Array | None]
torch_only = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is the witness: make test installs it"
)


@dataclass
class Nodes:
    """A model of nodes that do not depend on each other; what is not held is fed, its sizes symbols
    or numbers.
    """

    symbolic: bool = True
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    held: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        inputs: Inputs,
        held: tuple[str, ...] = (),
        outputs: int = 1,
        **attributes: Any,
    ) -> int:
        """Append a node; the number of its first output."""
        prefix, first = f"n{len(self.nodes)}_", len(self.outputs)
        for name, x in inputs.items():
            if x is None:
                continue
            if name in held:
                self.held.append(numpy_helper.from_array(np.asarray(x), prefix + name))
                continue
            shape = (
                [f"{prefix}{name}{i}" for i in range(x.ndim)]
                if self.symbolic and x.ndim > 1
                else x.shape
            )
            dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
            self.inputs.append(helper.make_tensor_value_info(prefix + name, dtype, shape))
            self.feeds[prefix + name] = x
        names = ["" if x is None else prefix + n for n, x in inputs.items()]
        self.outputs += [f"{prefix}y{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, self.outputs[first:], **attributes))
        return first

    def model(self) -> bytes:
        results = [onnx.ValueInfoProto(name=n) for n in self.outputs]
        graph = helper.make_graph(self.nodes, "nodes", self.inputs, results, self.held)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made).SerializeToString()

    def session(self) -> infuse.InferenceSession:
        """A session that leaves nothing to the interpreter."""
        found = infuse.InferenceSession(self.model())
        assert not found.host_steps
        return found

    def run(self) -> list[Array]:
        return self.session().run(None, self.feeds)

    def onnxruntime(self) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(self.model(), providers=["CPUExecutionProvider"])

    def check(self, *changes: Mapping[str, Array], tolerance: float = 1e-4) -> None:
        """ONNX Runtime gives the same, for the feeds and for those with some changed."""
        ours, theirs = self.session(), self.onnxruntime()
        for change in changes or ({},):
            feeds = {**self.feeds, **change}
            for node, found, wanted in zip(
                self.outputs, ours.run(None, feeds), theirs.run(None, feeds), strict=True
            ):
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(
                    found, wanted, rtol=tolerance, atol=tolerance, err_msg=node
                )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def refuses(session: infuse.InferenceSession, feeds: Mapping[str, Array], **changes: Array) -> None:
    with pytest.raises(RuntimeFailure):
        session.run(None, {**feeds, **changes})
