"""The optimizers that are compared: each takes an ONNX model in memory and gives one back.

Nothing of a tool is imported before it is used.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto


def infuse_basic(model: ModelProto) -> ModelProto:
    """This project, level basic: standard operators of the model's own opset."""
    return _infuse(model, "basic")


def infuse_onnxruntime(model: ModelProto) -> ModelProto:
    """This project, for ONNX Runtime with its own operators."""
    return _infuse(model, "extended", runtime="onnxruntime")


def infuse_opset_24(model: ModelProto) -> ModelProto:
    """This project, with the fused operators of opset 24."""
    return _infuse(model, "extended", opset=24)


def _infuse(
    model: ModelProto, level: str, runtime: str = "", opset: int | None = None
) -> ModelProto:
    import infuse
    from infuse.exporters.onnx import to_model

    return to_model(
        infuse.optimize(infuse.load(model), infuse.Rules(level, runtime=runtime)), opset=opset
    )


def onnxslim(model: ModelProto) -> ModelProto:
    """OnnxSlim as it is installed."""
    import onnxslim

    result: ModelProto = onnxslim.slim(model)
    return result


def onnxsim(model: ModelProto) -> ModelProto:
    """ONNX Simplifier as it is installed."""
    import onnxsim

    result: ModelProto = onnxsim.simplify(model)[0]
    return result


def onnxscript(model: ModelProto) -> ModelProto:
    """The optimizer of onnxscript, which PyTorch's exporter uses."""
    import onnxscript.optimizer

    result: ModelProto = onnxscript.optimizer.optimize(model)
    return result


def onnxruntime_basic(model: ModelProto) -> ModelProto:
    """ONNX Runtime's first level, which keeps to standard operators."""
    return _onnxruntime(model, "ORT_ENABLE_BASIC")


def onnxruntime_extended(model: ModelProto) -> ModelProto:
    """ONNX Runtime's second level, with its own operators."""
    return _onnxruntime(model, "ORT_ENABLE_EXTENDED")


def _onnxruntime(model: ModelProto, level: str) -> ModelProto:
    """The model that a session of this level would run, which ONNX Runtime only writes to a
    file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(options.optimized_model_filepath)


OPTIMIZERS: dict[str, Callable[[ModelProto], ModelProto]] = {
    "infuse basic": infuse_basic,
    "infuse for onnxruntime": infuse_onnxruntime,
    "infuse opset 24": infuse_opset_24,
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
    "onnxscript": onnxscript,
    "onnxruntime basic": onnxruntime_basic,
    "onnxruntime extended": onnxruntime_extended,
}


def count_nodes(model: ModelProto) -> int:
    """Operations of a model, those of bodies and of called functions included; Constant nodes are
    data.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def count(nodes: Any) -> int:
        total = 0
        for node in nodes:
            function = functions.get((node.domain, node.op_type, node.overload))
            total += count(function.node) if function else node.op_type != "Constant"
            total += sum(count(body.node) for body in bodies(node))
        return total

    return count(model.graph.node)


def bodies(node: onnx.NodeProto) -> list[GraphProto]:
    """The subgraphs of a node."""
    given = [[a.g] if a.type == AttributeProto.GRAPH else a.graphs for a in node.attribute]
    return [graph for graphs in given for graph in graphs]


def read(path: Path) -> ModelProto:
    """A model with its weights in memory."""
    return onnx.load(path)
