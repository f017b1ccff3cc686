"""Models that change from one form to another: what is compared, and what is freed."""

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse.errors import RuntimeFailure
from infuse.runtime.shapes import TensorSpec
from infuse.runtime.swapping import SwappingModel, difference

NAN, INF = np.nan, np.inf
pytestmark = pytest.mark.row("X1")


class Doubling:
    """Doubles its input, and adds something."""

    def __init__(self, plus: float = 0.0, fails: bool = False) -> None:
        self.plus, self.fails, self.closed = plus, fails, 0
        self.tier, self.name, self.threads = f"plus {plus}", "net", 1
        self.outputs = (TensorSpec("y", np.dtype(np.float32), (3,)),)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": self(inputs["x"])}

    def __call__(self, x: Any) -> Any:
        if self.fails:
            raise RuntimeFailure("no memory")
        return np.asarray(x) * 2 + self.plus

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        return [self(*inputs)]

    def session(self, threads: int | None = None) -> Any:
        return Doubling(self.plus)

    def close(self) -> None:
        self.closed += 1


def model_of(form: Any) -> SwappingModel:
    return SwappingModel(form)


def ones() -> Any:
    return np.ones(3, np.float32)


@pytest.mark.parametrize("how", ["run", "call", "execute", "session"])
def test_the_first_call_is_what_another_form_is_compared_on(how: str) -> None:
    model = model_of(Doubling())
    assert model.sample(0) is None
    x = ones()
    if how == "run":
        result = model.run({"x": x})["y"]
    elif how == "call":
        result = model(x)
    elif how == "execute":
        (result,) = model.session().execute([x])
    else:
        result = model.session().run({"x": x})["y"]
    x[:] = NAN  # a caller may use its arrays again
    result[:] = NAN
    model(np.zeros(3, np.float32))
    sample = model.sample(0)
    assert sample is not None
    same: Any = Doubling(0.001)
    assert not sample.difference(same, 1e-3)
    assert "the output y differs by 1" in sample.difference(Doubling(1.0), 1e-3)  # type: ignore[arg-type]
    assert "no memory" in sample.difference(Doubling(fails=True), 1e-3)  # type: ignore[arg-type]


def test_sessions_change_before_their_next_call_and_the_old_form_is_freed() -> None:
    first = Doubling()
    reference = weakref.ref(first)
    model = model_of(first)
    session = model.session()
    assert session(ones())[0] == 2
    heard: list[Any] = []
    model.when_swapped(heard.append)
    second: Any = Doubling(1.0)
    model.swap(second)
    assert heard == [second]
    assert (model.tier, session(ones())[0], model(ones())[0]) == ("plus 1.0", 3, 3)
    del first
    gc.collect()
    assert reference() is None


def test_a_closed_model_changes_no_more() -> None:
    first, second = Doubling(), Doubling(1.0)
    model = model_of(first)
    model(ones())
    model.close()
    assert model.sample(0) is None
    swapped: Any = second
    model.swap(swapped)
    assert (first.closed, second.closed, model.current) == (1, 1, first)


def test_a_call_that_fails_is_no_sample() -> None:
    model = model_of(Doubling(fails=True))
    with pytest.raises(RuntimeFailure):
        model(ones())
    assert model.sample(0) is None


SAME: list[tuple[Any, Any]] = [
    ([1.0, -2.0], [1.001, -2.001]),
    ([NAN, INF, -INF, 0.0], [NAN, INF, -INF, -0.0]),
    ([1e-320], [1e-320]),
    ([], []),
    (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0], ml_dtypes.bfloat16)),
    (np.array([1 + 2j]), np.array([1 + 2.001j])),
    (np.array([5, 7], np.int8), np.array([6, 6], np.int8)),
    (np.arange(1000), np.arange(1000) + (np.arange(1000) == 3)),
    (np.array(["a"], object), np.array(["a"], object)),
    (np.array([True]), np.array([True])),
    ([np.zeros(2), np.ones(3)], [np.zeros(2), np.ones(3)]),
    ({"a": np.zeros(2)}, {"a": np.zeros(2)}),
    (None, None),
    (np.float32(2.0), np.array(2.0, np.float32)),
]
OTHER: list[tuple[Any, Any, str]] = [
    ([1.0, -2.0], [1.01, -2.0], "differs by 0.01, and its largest element is 2"),
    ([NAN], [1.0], "not finite"),
    ([INF], [-INF], "not finite"),
    ([1.0], [NAN], "not finite"),
    ([0.0], [1e-300], "differs by 1e-300"),
    (np.zeros(2), np.zeros(3), "is float64 [3], not float64 [2]"),
    (np.zeros(2), np.zeros(2, np.float32), "is float32 [2], not float64 [2]"),
    (np.array([5], np.int8), np.array([7], np.int8), "differs in 1 of 1 elements"),
    (np.array([5]), np.array([6]), "differs in 1 of 1 elements"),
    (np.array([127], np.int8), np.array([-128], np.int8), "differs in 1 of 1"),
    (np.array([False, True]), np.array([True, True]), "differs in 1 of 2"),
    (np.array(["a"], object), np.array(["b"], object), "differs in 1 of 1"),
    ([np.zeros(2)], [], "is another value"),
    ([np.zeros(2)], [np.ones(2)], "differs by 1"),
    ({"a": np.zeros(2)}, {"b": np.zeros(2)}, "has other keys"),
    (None, np.zeros(2), "is another value"),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_what_is_the_same(expected: Any, actual: Any) -> None:
    assert not difference(_array(expected), _array(actual), 1e-3)


@pytest.mark.parametrize(("expected", "actual", "what"), OTHER)
def test_what_is_another_answer(expected: Any, actual: Any, what: str) -> None:
    assert what in difference(_array(expected), _array(actual), 1e-3)


def _array(value: Any) -> Any:
    """Plain numbers as an array."""
    plain = isinstance(value, list) and all(isinstance(each, float) for each in value)
    return np.array(value, np.float64) if plain and value else value
