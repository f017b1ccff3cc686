"""Damaged and lying models of TensorFlow Lite: an InfuseError, and nothing else."""

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

import infuse
import tests.models.tflite_cases_moved
import tests.models.tflite_cases_quantized  # noqa: F401  both add their cases
from infuse.errors import InfuseError, ModelFileError
from tests.models.test_tflite_models import NONE, branches, loop, network, sparse
from tests.models.tflite_cases import CASES, I32, floats
from tests.models.tflite_tools import Net, Quant

MODELS = {
    "network": network,
    "branches": branches,
    "loop": loop,
    "sparse": lambda: sparse(floats(12), np.array([0, 1, 1, 3, 4]))[0],
}


def error_of(data: bytes) -> InfuseError:
    with pytest.raises(InfuseError) as caught:
        infuse.load(data)
    assert caught.value.where is not None
    return caught.value


@pytest.mark.parametrize("name", MODELS)
def test_cut_off(name: str) -> None:
    data = MODELS[name]().bytes()
    for length in range(8, len(data) - 8, max(len(data) // 60, 1)):
        loads_or_refuses(data[:length])


def loads_or_refuses(data: bytes) -> None:
    try:
        infuse.load(data)
    except InfuseError:
        return


@pytest.mark.parametrize("name", MODELS)
def test_changed_bytes(name: str) -> None:
    data = MODELS[name]().bytes()
    for seed in range(150):
        draw, changed = random.Random(seed), bytearray(data)
        for _ in range(draw.choice([1, 2, 8])):
            place = draw.randrange(8, len(data) - 4)
            value = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
            width = draw.choice([1, 4])
            changed[place : place + width] = bytes([value]) * width
        loads_or_refuses(bytes(changed))


def test_random_bytes() -> None:
    for seed in range(200):
        body = random.Random(seed).randbytes(seed * 5)
        error_of(b"\x10\0\0\0TFL3" + body)


def test_an_offset_outside() -> None:
    data = bytearray(network().bytes())
    data[:4] = struct.pack("<I", len(data) + 5)
    assert "points to the bytes" in error_of(bytes(data)).what


def single(change: Callable[[Net], None], shape: tuple[int, ...] = (2, 4)) -> bytes:
    """x + constant, changed."""
    net = Net()
    x = net.input("float32", shape)
    net.outputs(net.op("ADD", [x, net.const(floats(4))], "float32", **NONE))
    change(net)
    return net.bytes()


def _shape(sizes: list[int]) -> Callable[[Net], None]:
    return lambda net: setattr(net.graph.tensors[1], "shape", sizes)


def _operators(net: Net) -> None:
    net.op("ABS", [3], 3)


def _unordered(net: Net) -> None:
    late = net.op("ABS", [2], "float32")
    net.graph.operators[0].inputs = [late, 1]


def _twice(net: Net) -> None:
    net.op("ABS", [0], 2)


def _into_input(net: Net) -> None:
    net.op("ABS", [0], 0)


def _count(part: str, values: list[int]) -> Callable[[Net], None]:
    return lambda net: setattr(net.graph.operators[0], part, values)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_shape([5]), "needs 20 bytes"),
        (_shape([1 << 30, 1 << 30, 1 << 30]), "needs"),
        (_shape([-4]), "has the shape"),
        (lambda n: setattr(n.graph.tensors[0], "shape", [-2, 4]), "has the shape"),
        (lambda n: setattr(n.graph.tensors[1], "buffer", 99), "no buffer 99"),
        (lambda n: setattr(n.graph.tensors[1], "type", 99), "number 99"),
        (lambda n: setattr(n.graph.tensors[2], "type", 2), "in the file"),
        (lambda n: setattr(n.graph, "inputs", []), "nothing has made"),
        (lambda n: setattr(n.graph, "outputs", [77]), "no tensors [77]"),
        (lambda n: setattr(n.model, "version", 7), "version 7"),
        (lambda n: setattr(n.graph.operators[0], "opcodeIndex", 5), "the code 5"),
        (lambda n: setattr(n.model, "subgraphs", []), "no subgraph 0"),
        (_count("inputs", [0]), "no operand 1"),
        (_count("inputs", [0, 44]), "no tensors [0, 44]"),
        (_count("inputs", [0, -1]), "no operand 1"),
        (_count("outputs", [2, 0]), "1 results"),
        (_unordered, "nothing has made"),
        (_twice, "made before"),
        (_into_input, "made before"),
    ],
)
def test_models_that_lie(change: Callable[[Net], None], what: str) -> None:
    assert what in error_of(single(change)).what


@pytest.mark.parametrize(
    ("quant", "what"),
    [
        (Quant([0.1, 0.2, 0.3], axis=1), "3 scales"),
        (Quant([0.1] * 4, axis=7), "4 scales"),
        (Quant([0.1] * 4, axis=-1), "4 scales"),
        (Quant(0.0), "positive"),
        (Quant(np.nan), "positive"),
        (Quant(-1.0), "positive"),
        (Quant(0.1, 300), "zero point"),
    ],
)
def test_quantization_that_lies(quant: Quant, what: str) -> None:
    net = Net()
    net.outputs(net.op("DEQUANTIZE", [net.input("int8", (2, 4), quant)], "float32"))
    assert what in error_of(net.bytes()).what


def test_more_zero_points_than_scales() -> None:
    net = Net()
    x = net.input("int8", (2, 4), Quant(0.1))
    net.graph.tensors[x].quantization.zeroPoint = [1, 2]
    net.outputs(net.op("DEQUANTIZE", [x], "float32"))
    assert "2 zero points" in error_of(net.bytes()).what


def test_a_subgraph_that_calls_itself() -> None:
    net = Net()
    net.outputs(net.op("CALL", [net.input("float32", (2,))], "float32", subgraph=0))
    assert "inside each other" in error_of(net.bytes()).what


def test_options_of_another_operator() -> None:
    net = Net()
    x = net.input("float32", (2, 4))
    net.outputs(net.op("SOFTMAX", [x], "float32", table="GatherOptions", axis=1))
    assert "options" in error_of(net.bytes()).what


@pytest.mark.parametrize("stride", [0, -1])
def test_strides_that_are_not_positive(stride: int) -> None:
    net = Net()
    x = net.input("float32", (1, 4, 4, 2))
    w = net.const(floats(3, 1, 1, 2))
    net.outputs(net.op("CONV_2D", [x, w], "float32", table="Conv2DOptions", strideH=stride,
                       strideW=1))  # fmt: skip
    assert isinstance(error_of(net.bytes()), ModelFileError)


def test_absurd_sizes_of_results() -> None:
    for kind, operand in (("TILE", [1 << 30] * 2), ("RESIZE_BILINEAR", [1 << 30] * 2)):
        net = Net()
        x = net.input("float32", (4, 4) if kind == "TILE" else (1, 4, 4, 1))
        made = net.op(kind, [x, net.const(np.array(operand, I32))], "float32")
        net.outputs(made)
        loads_or_refuses(net.bytes())


def test_every_operator_without_its_operands() -> None:
    for build in CASES.values():
        net, _ = build()
        for operator in net.graph.operators:
            operator.inputs = list(operator.inputs)[:-1]
        loads_or_refuses(net.bytes())


def test_every_operator_without_its_options() -> None:
    for build in CASES.values():
        net, _ = build()
        for operator in net.graph.operators:
            operator.builtinOptionsType, operator.builtinOptions = 0, None
        loads_or_refuses(net.bytes())


def test_every_operator_of_another_rank() -> None:
    for build in CASES.values():
        net, _ = build()
        for index in net.graph.inputs:
            net.graph.tensors[index].shape = [2, *net.graph.tensors[index].shape][:3]
        loads_or_refuses(net.bytes())
