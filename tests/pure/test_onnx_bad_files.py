"""What is no ONNX model, or a broken one: an error that says what, where and what to do, and no
other exception.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from infuse.errors import GraphError, InfuseError, ModelFileError
from infuse.frontends.onnx import load
from infuse.ir.verify import verify

DIGITS = Path(__file__).resolve().parents[1] / "models" / "data" / "digits.onnx"
pytestmark = pytest.mark.row("C1")
node = helper.make_node


def small() -> ModelProto:
    """x · w + b, then a branch."""
    branches = {
        name: helper.make_graph(
            [node(kind, ["s"], ["r"], f"{name}_node")], name, [], [onnx.ValueInfoProto(name="r")]
        )
        for name, kind in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [
        node("MatMul", ["x", "w"], ["m"], "product"),
        node("Add", ["m", "b"], ["s"], "sum"),
        node("If", ["c"], ["h"], "choice", **branches),
        node("Softmax", ["h"], ["y"], "weights", axis=-1),
    ]
    inputs = [
        helper.make_tensor_value_info("x", 1, ["n", 3]),
        helper.make_tensor_value_info("c", 9, []),
    ]
    weights = [
        numpy_helper.from_array(np.ones((3, 4), np.float32), "w"),
        numpy_helper.from_array(np.ones(4, np.float32), "b"),
    ]
    graph = helper.make_graph(
        nodes, "small", inputs, [helper.make_tensor_value_info("y", 1, ["n", 4])], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def error_of(source: Any) -> InfuseError:
    with pytest.raises(InfuseError) as caught:
        load(source)
    return caught.value


# -- files -----------------------------------------------------------------------------------------


def test_the_small_model_is_well_formed() -> None:
    verify(load(small()))


@pytest.mark.parametrize(
    ("content", "what", "hint"),
    [
        (b"", "is empty", "did not finish"),
        (b"hello, this is not a model at all", "not an ONNX model", "it is text"),
        (b'{"format": "onnx"}', "not an ONNX model", "it is text"),
        (
            b"<ir_version: 8>\nagraph (float[2] x) => (float[2] y) { y = Relu(x) }",
            "not an ONNX model",
            "it is text",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n",
            "not an ONNX model",
            "git lfs pull",
        ),
        (b"PK\x03\x04" + bytes(60), "not an ONNX model", "zip archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(60), "not an ONNX model", "HDF5"),
        (b"GGUF\x03" + bytes(60), "not an ONNX model", "infuse generate"),
        (b"\x1f\x8b\x08\x00" + bytes(60), "not an ONNX model", "gzip"),
        (b"\x80\x02}q\x00(X\x05\x00", "not an ONNX model", "pickle"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(60), "not an ONNX model", "TensorFlow Lite"),
        (b"\x00" * 64, "not a protobuf message", None),
        (b"\xff" * 64, "not a protobuf message", None),
        (b"\x08\x08", "no graph", "another kind"),
        (
            numpy_helper.from_array(np.ones(3, np.float32), "t").SerializeToString(),
            "not an ONNX model",
            None,
        ),
        (
            numpy_helper.from_array(np.ones(9999, np.float32)).SerializeToString(),
            "not an ONNX model",
            None,
        ),
        (small().graph.SerializeToString(), "not an ONNX model", None),
    ],
)
def test_files_that_are_no_models(
    tmp_path: Path, content: bytes, what: str, hint: str | None
) -> None:
    path = tmp_path / "some.onnx"
    path.write_bytes(content)
    for source in (path, str(path)):
        error = error_of(source)
        assert isinstance(error, ModelFileError)
        assert what in error.what
        assert (error.where or "").startswith(str(path))
        assert hint is None or hint in (error.hint or "")
    assert what in error_of(content).what


def test_random_bytes() -> None:
    for seed in range(300):
        data = random.Random(seed).randbytes(1 + seed * 7)
        assert isinstance(error_of(data), ModelFileError)


@pytest.mark.parametrize("step", [97, 1009])
def test_a_model_that_is_cut_off(step: int) -> None:
    data = DIGITS.read_bytes()
    for length in range(1, len(data), step if len(data) < 10**6 else len(data) // 100):
        error = error_of(data[:length])
        assert isinstance(error, (ModelFileError, GraphError))
    assert "past the end of the file" in error_of(data[: len(data) // 2]).what
    assert "cut off" in (error_of(data[: len(data) // 2]).hint or "")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "No such file" in error_of(tmp_path / "missing.onnx").what
    assert "is a folder" in error_of(tmp_path).what
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in error_of(tmp_path / "pipe").what
    assert "cannot be opened" in error_of(tmp_path / ("n" * 300)).what
    assert "cannot be opened" in error_of("a\0b").what


# -- contents --------------------------------------------------------------------------------------


def change(field: str, value: Any) -> Callable[[ModelProto], None]:
    """Set a field by its path."""

    def apply(model: ModelProto) -> None:
        *path, last = field.split(".")
        target: Any = model
        for name in path:
            target = target[int(name)] if name.isdigit() else getattr(target, name)
        if last.isdigit():
            target[int(last)] = value
        else:
            setattr(target, last, value)

    return apply


def remove(field: str) -> Callable[[ModelProto], None]:
    def apply(model: ModelProto) -> None:
        *path, last = field.split(".")
        target: Any = model
        for name in path:
            target = target[int(name)] if name.isdigit() else getattr(target, name)
        if last.isdigit():
            del target[int(last)]
        else:
            target.ClearField(last)

    return apply


BROKEN: list[tuple[Callable[[ModelProto], None], str]] = [
    (
        change("graph.initializer.0.dims.0", 2**40),
        r"tensor 'w': float32 of shape \[1099511627776, 4\] needs .* are 48",
    ),
    (
        change("graph.initializer.0.dims.0", 2**62),
        r"tensor 'w': its shape .* is larger than any memory",
    ),
    (
        change("graph.initializer.0.dims.0", -3),
        r"tensor 'w': its shape \[-3, 4\] has a negative size",
    ),
    (
        change("graph.initializer.0.data_type", 99),
        r"tensor 'w': there is no element type number 99",
    ),
    (change("graph.initializer.0.data_type", 0), r"tensor 'w': it has no element type"),
    (change("graph.initializer.0.data_type", 8), r"tensor 'w': strings cannot be raw data"),
    (change("graph.initializer.0.raw_data", b"123"), r"tensor 'w': .* needs 48 bytes, there are 3"),
    (
        remove("graph.initializer.0.raw_data"),
        r"tensor 'w': .* needs 12 elements in float_data, there are 0",
    ),
    (change("graph.initializer.0.name", ""), r"an initializer has no name"),
    (
        change("graph.input.0.type.tensor_type.elem_type", 77),
        r"value 'x': there is no element type number 77",
    ),
    (
        change("graph.input.0.type.tensor_type.shape.dim.1.dim_value", -7),
        r"value 'x': size -7 of its axis 1 is negative",
    ),
    (remove("graph.input.0.type"), r"input 'x' of the graph has no type"),
    (change("graph.input.0.name", ""), r"input '' of the graph has no name"),
    (change("graph.output.0.name", "nowhere"), r"'nowhere' is read, but nothing makes it"),
    (change("graph.output.0.name", ""), r"an output of the graph has no name"),
    (
        change("graph.node.0.input.0", "z"),
        r"MatMul node 'product': it reads 'z', which nothing makes",
    ),
    (
        change("graph.node.0.input.0", "y"),
        r"node '(weights|choice|sum|product)': .* the graph has a cycle",
    ),
    (
        change("graph.node.0.input.0", "m"),
        r"MatMul node 'product': it reads 'm'.* the graph has a cycle",
    ),
    (change("graph.node.1.output.0", "m"), r"Add node 'sum': the name 'm' is given to two values"),
    (change("graph.node.1.output.0", "x"), r"Add node 'sum': the name 'x' is given to two values"),
    (
        remove("graph.node.1.input.1"),
        r"Add node 'sum': Add of opset 17 has 2 inputs, the node has 1",
    ),
    (change("graph.node.1.input.1", ""), r"node 'sum': Add takes a, b; 1 inputs are given"),
    (
        change("graph.node.3.attribute.0.name", "axes"),
        r"Softmax node 'weights': .* has no attribute 'axes'",
    ),
    (
        change("graph.node.3.attribute.0.type", 1),
        r"Softmax node 'weights': .* 'axis' is stored as f, not i",
    ),
    (change("graph.node.3.attribute.0.i", 9), r"Softmax node 'weights': axis 9 .* outside"),
    (
        remove("graph.node.2.attribute.0"),
        r"If node 'choice': its attribute 'else_branch' is missing",
    ),
    (
        change("graph.initializer.1.dims.0", 2),
        r"tensor 'b': float32 of shape \[2\] needs 8 bytes, there are 16",
    ),
    (remove("opset_import.0"), r"the model imports no opset of ONNX itself"),
    (change("opset_import.0.version", 0), r"uses opset 0 of ONNX"),
    (change("opset_import.0.version", -5), r"uses opset -5 of ONNX"),
    (change("opset_import.0.version", 2**40), r"uses opset 1099511627776 of ONNX"),
]


@pytest.mark.parametrize(("breaking", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_broken_models_say_where(breaking: Callable[[ModelProto], None], message: str) -> None:
    model = small()
    breaking(model)
    for source in (model, model.SerializeToString()):
        error = error_of(source)
        assert re.search(message, str(error)), str(error)
        assert str(error).startswith(f"[{error.code}] the model: ")


def test_shapes_that_do_not_fit_name_the_node() -> None:
    model = small()
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(3, np.float32), "b"))
    assert re.search(r"Add node 'sum': sizes 4 and 3 do not broadcast", str(error_of(model)))


def test_names_that_are_no_text() -> None:
    data = small().SerializeToString().replace(b"product", b"prod\xff\xfet")
    assert "a name in it is not UTF-8 text" in error_of(data).what


@pytest.mark.parametrize("padding", [0, 2000])
def test_bodies_inside_bodies_without_end(padding: int) -> None:
    graph = onnx.GraphProto(name="g", doc_string=" " * padding).SerializeToString()
    for _ in range(60):
        attribute = _field(6, graph) + _field(1, b"body")
        graph = _field(1, _field(5, attribute) + _field(4, b"Loop"))
    data = ModelProto(ir_version=8).SerializeToString() + _field(7, graph)
    error = error_of(data)
    assert isinstance(error, ModelFileError)
    assert ("nested more than 100 deep" if padding else "not an ONNX model") in error.what


def _field(number: int, content: bytes) -> bytes:
    size, head = len(content), bytearray([number << 3 | 2])
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + content


# -- mutations -------------------------------------------------------------------------------------


def skeleton() -> bytes:
    """The digits model with weights of a few bytes, so that mutations meet its structure."""
    model = onnx.load(DIGITS)
    for tensor in model.graph.initializer:
        if len(tensor.dims) > 1:
            tensor.raw_data = bytes(4)
            del tensor.dims[:]
            tensor.dims.extend([1, 1])
    return bytes(model.SerializeToString())


def mutated(data: bytes, seed: int) -> bytes:
    """A few bytes changed, lost, added or moved."""
    rng, result = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(result))
        kind = rng.randrange(6)
        if kind <= 1:
            result[at] = rng.randrange(256)
        elif kind == 2:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del result[at : at + rng.randint(1, 30)]
        elif kind == 4:
            result[at:at] = rng.randbytes(rng.randint(1, 10))
        else:
            other = rng.randrange(len(result))
            result[at : at + 40] = result[other : other + rng.randint(1, 40)]
        if not result:
            return b"\x00"
    return bytes(result)


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
@pytest.mark.parametrize("base", ["digits", "digits without weights", "small"])
def test_no_mutation_raises_anything_else(base: str) -> None:
    data = {"digits": DIGITS.read_bytes, "small": small().SerializeToString}.get(base, skeleton)()
    found: Counter[str] = Counter()
    for seed in range(500):
        try:
            verify(load(mutated(data, seed)))
            found["ok"] += 1
        except InfuseError as error:
            found[type(error).__name__] += 1
    assert sum(found.values()) == 500
    assert found["ModelFileError"] > 50
