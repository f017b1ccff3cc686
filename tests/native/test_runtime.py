"""Calls of compiled models: inputs and outputs, wrong inputs, sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse.errors import CompiledModelError, InputError, RuntimeFailure
from infuse.runtime import CompiledModel
from infuse.runtime.shapes import Formula, ShapeBinder, TensorSpec
from tests.native.adder_fixtures import cache, expected, folder, make, model, own_cache, values

__all__ = ["cache", "folder", "make", "model", "own_cache"]


# ---------------------------------------------------------------- calls


def test_run_by_name_and_by_position(model: CompiledModel) -> None:
    x, y = values(4), values(4, 7)
    outputs = model.run({"y": y, "x": x})
    assert list(outputs) == ["sum"]
    np.testing.assert_array_equal(outputs["sum"], expected(x, y))
    np.testing.assert_array_equal(model(x, y), expected(x, y))
    with model.session() as session:
        np.testing.assert_array_equal(session.run({"x": x, "y": y})["sum"], expected(x, y))
        np.testing.assert_array_equal(session(x, y), expected(x, y))


def test_description(model: CompiledModel) -> None:
    assert [str(spec) for spec in model.inputs] == ["x: float32[batch, 3]", "y: float32[batch, 3]"]
    assert model.outputs == (TensorSpec("sum", np.dtype("float32"), ("batch", 3)),)
    assert model.name == "adder"
    assert model.weights_bytes == 128
    assert model.arena_bytes == 2 * 4096
    assert model.session(threads=3).arena_bytes == 3 * 4096
    assert repr(model) == (
        "<CompiledModel 'adder': (x: float32[batch, 3], y: float32[batch, 3]) → (sum: "
        "float32[batch, 3]), 2 threads>"
    )


def test_several_outputs_are_a_tuple(make: Callable[..., CompiledModel]) -> None:
    model = make(
        body=(
            "for (int i = 0; i < 3; i++) ((int64_t*)outputs[0])[i] = i; *(bool*)outputs[1] = true; "
            "return 0;"
        ),
        shapes="dims[0] = 3; return 0;",
        inputs=[],
        symbols=[],
        outputs=[
            {"name": "row", "dtype": "int64", "shape": [3]},
            {"name": "flag", "dtype": "bool", "shape": []},
        ],
    )
    row, flag = model()
    assert row.tolist() == [0, 1, 2]
    assert flag.shape == ()
    assert flag.dtype == bool
    assert bool(flag)
    assert list(model.run({})) == ["row", "flag"]


@pytest.mark.parametrize("batch", [0, 1, 5, 30_000])
def test_every_batch(model: CompiledModel, batch: int) -> None:
    x = values(batch)
    result = model(x, x)
    assert result.flags.writeable
    np.testing.assert_array_equal(result, expected(x, x))
    if batch == 30_000:
        assert result.ctypes.data % 64 == 0


def test_outputs_are_new_arrays(model: CompiledModel) -> None:
    x = values(2)
    first = model(x, x)
    copy = first.copy()
    model(x + 1, x)
    np.testing.assert_array_equal(first, copy)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran order": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "read-only": lambda x: read_only(x),
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian, strided": lambda x: np.repeat(x.astype(">f4"), 2, axis=1)[:, ::2],
    "unaligned": lambda x: unaligned(x),
    "list": lambda x: x.tolist(),
    "list of whole numbers": lambda x: x.astype(int).tolist(),
    "memory view": memoryview,
    "subclass": lambda x: x.view(np.recarray),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}


def read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(np.float32).reshape(x.shape)
    view[...] = x
    return view


@pytest.mark.parametrize("name", LAYOUTS)
def test_arrays_of_any_layout(name: str, model: CompiledModel) -> None:
    x, y = values(4), values(4, 100)
    given = LAYOUTS[name](x)
    before = np.array(given)
    np.testing.assert_array_equal(model.run({"x": given, "y": y})["sum"], expected(given, y))
    np.testing.assert_array_equal(model.run({"x": y, "y": given})["sum"], expected(y, given))
    np.testing.assert_array_equal(np.array(given), before)


def test_unaligned_array_is_not_given_to_the_model(make: Callable[..., CompiledModel]) -> None:
    outputs = [{"name": "address", "dtype": "int64", "shape": []}]
    model = make(body="*(int64_t*)outputs[0] = (int64_t)inputs[1]; return 0;", outputs=outputs)
    assert unaligned(values(2)).ctypes.data % 4
    assert model(values(2), unaligned(values(2))) % 4 == 0


def test_bfloat16(make: Callable[..., CompiledModel]) -> None:
    model = make(
        body="*(uint16_t*)outputs[0] = *(const uint16_t*)inputs[0]; return 0;",
        inputs=[{"name": "x", "dtype": "bfloat16", "shape": []}],
        outputs=[{"name": "y", "dtype": "bfloat16", "shape": []}],
        symbols=[],
    )
    assert model(np.array(1.5, ml_dtypes.bfloat16)) == ml_dtypes.bfloat16(1.5)


# ---------------------------------------------------------------- wrong inputs


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"x": values(2)},
            "the input 'y' is missing.*the model takes x: float32\\[batch, 3\\], y:",
        ),
        ({"x": values(2), "y": values(2), "z": 1}, "the model has no input 'z'"),
        (
            {"X": values(2), "y": values(2)},
            "the input 'x' is missing and the model has no input 'X'",
        ),
        ({"x": values(2), "yy": values(2)}, "no input 'yy'.*did you mean 'y'\\?"),
        (
            {"x": values(2).astype(float), "y": values(2)},
            "x has the element type float64.*astype\\('float32'\\)",
        ),
        ({"x": values(2), "y": [[1j, 2, 3]] * 2}, "the input y has the element type complex128"),
        ({"x": values(2), "y": [["a", "b", "c"]] * 2}, "the input y has the element type <U1"),
        ({"x": values(2), "y": None}, "the input y has the element type object"),
        ({"x": values(2), "y": [[1, 2, 3], [4]]}, "the input y is not an array"),
        (
            {"x": values(2)[0], "y": values(2)},
            "x has 1 axis instead of 2.*takes x: float32\\[batch, 3\\].*is \\[3\\]",
        ),
        ({"x": values(2)[None], "y": values(2)}, "the input x has 3 axes instead of 2"),
        ({"x": values(2)[:, :2], "y": values(2)}, "x has size 2 instead of 3 at axis 1"),
        ({"x": values(2), "y": values(3)}, "batch is 2 in x but 3 in y"),
        (
            {"x": np.zeros((2000000, 3), "f"), "y": np.zeros((2000000, 3), "f")},
            "no valid output shapes for batch = 20",
        ),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, Any], message: str, model: CompiledModel) -> None:
    with pytest.raises(InputError, match=message):
        model.run(inputs)
    np.testing.assert_array_equal(model(values(1), values(1)), expected(values(1), values(1)))


def test_wrong_number_of_arrays(model: CompiledModel) -> None:
    with pytest.raises(InputError, match="1 arrays were given to a model with 2 inputs"):
        model(values(1))


def test_integers_are_not_made_of_fractions(make: Callable[..., CompiledModel]) -> None:
    model = make(inputs=[{"name": "ids", "dtype": "int64", "shape": [2]}], outputs=[], symbols=[])
    assert model.run({"ids": [1, 2]}) == {}
    with pytest.raises(InputError, match=r"ids has the element type float64.*ids: int64\[2\]"):
        model.run({"ids": [1.0, 2.0]})
    with pytest.raises(InputError, match="element type int32"):
        model.run({"ids": np.zeros(2, np.int32)})


def test_failure_of_the_model_is_told_and_does_not_last(model: CompiledModel) -> None:
    bad = values(2)
    bad[0, 0] = np.nan
    with pytest.raises(RuntimeFailure, match="the model failed: y starts with NaN"):
        model(values(2), bad)
    np.testing.assert_array_equal(model(bad, values(2))[1], expected(bad, values(2))[1])


@pytest.mark.parametrize(
    ("status", "message"), [(1, "out of memory"), (77, "it ended with status 77")]
)
def test_other_failures(status: int, message: str, make: Callable[..., CompiledModel]) -> None:
    model = make(body=f"context->error[0] = 0; return {status};", inputs=[], outputs=[], symbols=[])
    with pytest.raises(RuntimeFailure, match=rf"the model failed: {message}\.$"):
        model()


def test_no_memory_for_a_context(folder: Path) -> None:
    with pytest.raises(
        RuntimeFailure, match="not enough memory to open the model with 250 threads"
    ):
        CompiledModel.load(folder, threads=250)


# ---------------------------------------------------------------- sizes


def binder(symbols: str, *shapes: str) -> ShapeBinder:
    """A binder for inputs a, b, …, each given as "batch, seq + 1"."""
    sizes = [
        tuple(int(s) if s.strip().isdigit() else s.strip() for s in text.split(";"))
        for text in shapes
    ]
    specs = [TensorSpec(name, np.dtype("int64"), size) for name, size in zip("abcd", sizes)]
    return ShapeBinder(specs, symbols.split())


@pytest.mark.parametrize(
    ("symbols", "shapes", "given", "bound"),
    [
        ("batch seq", ["batch; seq", "batch; seq + 1"], [(2, 5), (2, 6)], [2, 5]),
        ("seq batch", ["batch; seq + 1", "batch; seq"], [(2, 6), (2, 5)], [5, 2]),
        ("n", ["2*n + 3"], [(11,)], [4]),
        ("n m", ["2*n*m", "n"], [(24,), (3,)], [3, 4]),
        ("h", ["h; (h - 1)//2 + 1"], [(7, 4)], [7]),
        ("h", ["h; max(h, 4); min(h, 4); h % 4; -(-h // 4)"], [(7, 7, 4, 3, 2)], [7]),
        ("batch-size a/b", ["batch-size; a/b"], [(3, 9)], [3, 9]),
        ("n", ["n"], [(0,)], [0]),
    ],
)
def test_symbols_are_found(
    symbols: str, shapes: list[str], given: list[tuple[int, ...]], bound: list[int]
) -> None:
    assert binder(symbols, *shapes).bind(given) == bound


@pytest.mark.parametrize(
    ("symbols", "shapes", "given", "message"),
    [
        (
            "seq",
            ["seq; seq + 1"],
            [(5, 5)],
            r"a has size 5 at axis 1, which is not seq \+ 1 with seq = 5",
        ),
        ("n", ["2*n"], [(5,)], r"a has size 5 at axis 0, which is not 2\*n for any n"),
        ("n", ["n + 3"], [(2,)], r"which is not n \+ 3 for any n"),
        ("n m", ["n + m"], [(5,)], "do not tell the values of m, n"),
        ("n", ["n; 12 // n"], [(0, 1)], "size 1 at axis 1, which is not 12 // n"),
    ],
)
def test_sizes_that_do_not_fit(
    symbols: str, shapes: list[str], given: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        binder(symbols, *shapes).bind(given)


@pytest.mark.parametrize(
    "text", ["n.real", "f(n)", "__import__('os')", "n if n else 1", "1.5", "n n", "(", "[n]", "'a'"]
)
def test_formulas_are_only_arithmetic(text: str) -> None:
    with pytest.raises(CompiledModelError, match="is not an expression"):
        Formula(text)


@pytest.mark.parametrize(("symbols", "shape"), [("n m", "n"), ("n", "n; m + 1")])
def test_symbols_and_shapes_must_agree(symbols: str, shape: str) -> None:
    with pytest.raises(CompiledModelError, match="agree on m"):
        binder(symbols, shape)


def test_many_shapes_do_not_fill_the_memory(model: CompiledModel) -> None:
    for batch in range(1500):
        x = values(batch)
        assert model(x, x).shape == (batch, 3)
    assert len(model._signature.plans) <= 1024
