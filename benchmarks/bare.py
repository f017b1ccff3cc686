"""Code and memory of models for microcontrollers: `python -m benchmarks.bare [TARGET…]`.

MobileNetV1 with a quarter of the channels, on images of 224 × 224 × 3 bytes as cameras give them,
for five classes; weights are random, since sizes do not depend on them. Once in 8 bits (QDQ, as
ONNX Runtime quantizes statically, per channel), once in float32.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.build.compile import compile_graph
from infuse.options import CompileOptions
from infuse.targets import Target

TARGETS = ("cortex-m4", "cortex-m7", "cortex-m55", "cortex-m0", "riscv32")
BLOCKS = (
    (16, 1),
    (32, 2),
    (32, 1),
    (64, 2),
    (64, 1),
    (128, 2),
    *[(128, 1)] * 5,
    (256, 2),
    (256, 1),
)
"""Channels and step of each pair of a depthwise and a pointwise convolution."""
CLASSES = 5
KNOWN = {"STM32Cube.AI 10.0, STM32H7, same network (published)": (68 << 10, 273 << 10)}


class _Writer:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def conv(self, x: str, inside: int, outside: int, size: int, step: int, groups: int) -> str:
        name = f"c{len(self.nodes)}"
        shape = (outside, inside // groups, size, size)
        spread = np.sqrt(2 / np.prod(shape[1:]))
        values = self._random.normal(0, spread, shape).astype(np.float32)
        bias = self._random.normal(0, 0.1, outside).astype(np.float32)
        self.weights += [
            numpy_helper.from_array(values, f"{name}_w"),
            numpy_helper.from_array(bias, f"{name}_b"),
        ]
        pads = [size // 2 - (step == 2 and size == 3)] * 2 + [size // 2] * 2
        inputs = [x, f"{name}_w", f"{name}_b"]
        how: dict[str, Any] = {"strides": [step] * 2, "pads": pads, "group": groups}
        self.nodes.append(helper.make_node("Conv", inputs, [name], name=name, **how))
        self.nodes.append(helper.make_node("Relu", [name], [f"{name}_r"], name=f"{name}_r"))
        return f"{name}_r"


def network(side: int = 224) -> onnx.ModelProto:
    """The network in float32."""
    write = _Writer()
    x, channels = write.conv("x", 3, 8, 3, 2, 1), 8
    for outside, step in BLOCKS:
        x = write.conv(x, channels, channels, 3, step, channels)
        x, channels = write.conv(x, channels, outside, 1, 1, 1), outside
    matrix = np.random.default_rng(1).normal(0, 0.1, (channels, CLASSES)).astype(np.float32)
    write.weights.append(numpy_helper.from_array(matrix, "m"))
    write.nodes += [
        helper.make_node("GlobalAveragePool", [x], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "m"], ["y"], name="classes"),
    ]
    graph = helper.make_graph(
        write.nodes,
        "mobilenet_v1_025",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])],
        write.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def quantized(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The same in 8 bits, on bytes [1, height, width, 3]."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(2)

    class Images(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._all: Iterator[Any] = iter(
                [{"x": rng.uniform(-1, 1, shape).astype(np.float32)} for _ in range(2)]
            )

        def get_next(self) -> Any:
            return next(self._all, None)

    source, made = folder / "float.onnx", folder / "int8.onnx"
    onnx.save(model, source)
    quantize_static(source, made, Images(), QuantFormat.QDQ, per_channel=True)
    return on_bytes(onnx.load(made), shape)


def on_bytes(model: onnx.ModelProto, shape: list[int]) -> onnx.ModelProto:
    """A quantized model whose input is what its first QuantizeLinear makes, channels last."""
    graph = model.graph
    first = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x")
    types = {t.name: t.data_type for t in graph.initializer}
    turned = helper.make_node("Transpose", ["bytes"], [first.output[0]], perm=[0, 3, 1, 2])
    nodes = [turned, *(n for n in graph.node if n is not first)]
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    sizes = [shape[0], *shape[2:], shape[1]]
    graph.input.append(helper.make_tensor_value_info("bytes", types[first.input[2]], sizes))
    return model


def sizes(model: onnx.ModelProto, target: str, folder: Path) -> dict[str, int]:
    """Bytes of code, of weights and of the arena of a model for a target: those of a program that
    opens and runs it, with the compiler's own functions and memcpy.
    """
    output = folder / "model"
    graph = infuse.optimize(infuse.load(model))
    with compile_graph(graph, CompileOptions(target), output=output) as made:
        weights, arena = made.weights_bytes, made.arena_bytes
    aim = Target.resolve(target)
    if not shutil.which(f"{aim.gcc}-gcc"):
        raise SystemExit(f"{aim.gcc}-gcc is missing: apt install gcc-{aim.gcc}")
    libc = "picolibc" if aim.gcc.startswith("riscv") else "nosys"
    flags = [*aim.flags, f"--specs={libc}.specs", "-nostartfiles", "-Os", f"-I{output}"]
    linking = ["-Wl,--gc-sections", "-Wl,-e,main", "-Wl,--no-warnings"]
    program, sources = output / "program.elf", [output / "example.c", output / "libmodel.a"]
    command = [f"{aim.gcc}-gcc", *flags, *map(str, sources), *linking, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    told = subprocess.run([f"{aim.gcc}-size", program], capture_output=True, text=True, check=True)
    text, data, _ = map(int, told.stdout.splitlines()[1].split()[:3])
    return {"code": text + data - weights, "weights": weights, "arena": arena}


def main(targets: list[str]) -> None:
    """Print a table, and the same as JSON where the last word is --json."""
    as_json = "--json" in targets
    names = [name for name in targets if name != "--json"] or list(TARGETS)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = network()
        models = {"int8": quantized(plain, folder), "fp32": plain}
        for target in names:
            for kind, model in models.items():
                rows.append({"target": target, "type": kind, **sizes(model, target, folder)})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'':>12} {'':>5} {'code':>9} {'weights':>9} {'arena':>9}  bytes")
    for row in rows:
        numbers = " ".join(f"{row[key]:>9,}" for key in ("code", "weights", "arena"))
        print(f"{row['target']:>12} {row['type']:>5} {numbers}")
    for what, (code, arena) in KNOWN.items():
        print(f"{what}: {code:,} bytes of code, {arena:,} of arena")


if __name__ == "__main__":
    main(sys.argv[1:])
