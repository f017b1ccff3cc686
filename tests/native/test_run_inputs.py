"""What `run` takes in place of arrays by name, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import infuse
from infuse.errors import InputError
from infuse.ir.parser import parse

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
ONE = """graph "one" (%x: float32[n, 2]) {
  %y = Add(%x, float32[]{1.0})
  return y = %y
}"""
TWO = """graph "two" (%x: float32[n, 2], %z: float32[n, 2]) {
  %y = Add(%x, %z)
  return y = %y
}"""
TEXTS = """graph "texts" (%x: string[n]) {
  %upper = StringNormalizer(%x, case_change_action="UPPER")
  return y = %upper
}"""


class Table:
    """What a DataFrame of pandas looks like."""

    columns = ("a", "b")
    shape = X.shape

    def to_numpy(self) -> np.ndarray:
        return X

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return X

    def __getitem__(self, name: str) -> np.ndarray:
        return X[:, 0]

    def __len__(self) -> int:
        return len(X)


@pytest.fixture(params=["compiled", "session", "background"])
def one(request: pytest.FixtureRequest) -> Iterator[Any]:
    how = "background" if request.param == "background" else "wait"
    with infuse.compile(parse(ONE), infuse.CompileOptions(compile=how, threads=1)) as model:
        yield model.session() if request.param == "session" else model


@pytest.mark.parametrize("array", [X, torch.from_numpy(X), X[::1].copy(order="F")], ids=type)
def test_an_array_is_that_of_the_only_input(one: Any, array: Any) -> None:
    np.testing.assert_array_equal(one.run(array)["y"], X + 1, strict=True)
    np.testing.assert_array_equal(one.run({"x": array})["y"], X + 1, strict=True)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (Table(), r"a Table, not arrays by name.*\{'x': table\.to_numpy\('float32'\)\}"),
        (None, r"are None, not arrays by name.*model\.run\(\{'x': …\}\).*x: float32\[n, 2\]"),
        ([X], r"a list, not arrays by name.*arrays in order"),
        ("x", "a str, not arrays by name"),
        (X.astype(np.float64), "element type float64"),
        (torch.from_numpy(X).requires_grad_(), r"not an array.*x\.detach\(\)"),
        (torch.from_numpy(X).bfloat16(), r"not an array.*view\(ml_dtypes\.bfloat16\)"),
        ({"x": torch.from_numpy(X).requires_grad_()}, r"not an array.*x\.detach\(\)"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_array_says_what_to_give(one: Any, inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        one.run(inputs)


def test_one_array_does_not_do_for_two_inputs() -> None:
    with infuse.compile(parse(TWO)) as model:
        for inputs in (X, torch.from_numpy(X)):
            with pytest.raises(InputError, match=r"needs 2.*\{'x': …, 'z': …\}"):
                model.run(inputs)
        with pytest.raises(InputError, match=r"table\[\[name\]\]"):
            model.run(Table())


def test_an_input_with_a_default_need_not_be_there() -> None:
    graph = parse(TWO.replace("n, 2", "3, 2"))
    graph.inputs[1].default = X
    with infuse.compile(infuse.optimize(graph, fix_defaults=False)) as model:
        np.testing.assert_array_equal(model.run(X)["y"], X + X)


def test_texts_are_arrays_too() -> None:
    with infuse.compile(parse(TEXTS)) as model:
        assert model.host_steps
        assert [*model.run(np.array(["a", "b"], object))["y"]] == ["A", "B"]
        with pytest.raises(InputError, match=r"a list, not arrays by name.*\{'x': …\}"):
            model.run(["a", "b"])
