"""The parts of batching by themselves: what a batch costs, which size to take, and filling up
ragged inputs.
"""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse.errors import ConfigurationError, InputError
from infuse.runtime.shapes import TensorSpec
from infuse.serving.engine.batching.forming import larger
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.engine.batching.timing import TimeModel
from infuse.serving.engine.signature import Checker, batch_symbol
from infuse.serving.messages import InferRequest, RequestedOutput, Tensor
from tests.serving.batching_tools import spec

pytestmark = pytest.mark.row("S4")


# --------------------------------------------------------------------------------------------- time


def model_of(**seconds: float) -> TimeModel:
    times = TimeModel()
    for name, value in seconds.items():
        times.observe(int(name[1:]), value)
    return times


def test_nothing_is_known_at_first() -> None:
    times = TimeModel()
    assert not times.measured
    assert times.predict(8) == 0.0
    assert times.best(5) == 5


def test_sizes_between_and_beyond_lie_on_lines() -> None:
    times = model_of(n1=1.0, n4=2.5, n8=4.5)
    assert times.predict(2) == pytest.approx(1.5)
    assert times.predict(6) == pytest.approx(3.5)
    assert times.predict(16) == pytest.approx(8.5)


def test_a_single_size_is_scaled_upwards_only() -> None:
    times = model_of(n4=2.0)
    assert times.predict(8) == pytest.approx(4.0)
    assert times.predict(1) == pytest.approx(2.0)


def test_without_gain_the_smallest_batch_is_best() -> None:
    assert model_of(n1=1.0, n2=2.0, n4=4.0, n8=8.0).best(8) == 1


def test_with_gain_all_that_waits_is_best() -> None:
    times = model_of(n1=1.0, n8=2.0)
    assert times.best(8) == 8
    assert times.best(3) == 3


def test_a_target_takes_the_largest_batch_that_meets_it() -> None:
    times = model_of(n1=1.0, n2=1.5, n4=2.5, n8=4.5)
    assert times.best(8, 3.0) == 4
    assert times.best(8, 0.1) == 1


def test_far_larger_batches_are_tried_seldom() -> None:
    assert [larger(1, trial) for trial in range(1, 9)] == [2, 2, 2, 4, 2, 2, 2, 4]
    assert [larger(3, 4**power) for power in range(4)] == [6, 12, 24, 48]
    assert larger(1, 0) == 2


def test_a_slow_run_among_many_moves_the_mean_little() -> None:
    times = TimeModel()
    for _ in range(20):
        times.observe(1, 1.0)
    times.observe(1, 1000.0)
    assert times.predict(1) == pytest.approx(1.1, rel=0.02)


def test_the_mean_follows_a_lasting_change() -> None:
    times = TimeModel()
    for seconds in [1.0] * 20 + [3.0] * 60:
        times.observe(1, seconds)
    assert times.predict(1) == pytest.approx(3.0, rel=0.02)


@given(st.dictionaries(st.integers(1, 64), st.floats(1e-5, 1.0), min_size=1), st.integers(1, 64))
def test_the_best_size_is_one_that_waits(seconds: dict[int, float], most: int) -> None:
    times = TimeModel()
    for rows, value in seconds.items():
        times.observe(rows, value)
    assert 1 <= times.best(most) <= most
    assert times.predict(most) > 0


# ------------------------------------------------------------------------------------------- ragged


def entry(padding: Padding, *arrays: np.ndarray[Any, Any]) -> Entry:
    async def make() -> Entry:
        key, lengths = padding.key(arrays)
        made = Entry(
            InferRequest("m"),
            arrays,
            len(arrays[0]),
            key,
            [0],
            asyncio.get_running_loop().create_future(),
        )
        made.lengths = lengths
        return made

    return asyncio.run(make())


def ragged() -> Padding:
    inputs = [
        spec("ids", "n", "length", dtype=np.int64),
        spec("mask", "n", "length", dtype=np.int64),
    ]
    return Padding(
        inputs, [spec("states", "n", "length", 2), spec("pooled", "n", 2)], {"ids": 7, "mask": 0}
    )


def test_ragged_inputs_are_filled_up_and_outputs_cut_back() -> None:
    padding = ragged()
    short = entry(padding, np.ones((1, 2), np.int64), np.ones((1, 2), np.int64))
    long = entry(padding, np.ones((2, 4), np.int64), np.ones((2, 4), np.int64))
    assert short.key == long.key
    ids, mask = padding.filled([short, long])
    np.testing.assert_array_equal(ids[0], [[1, 1, 7, 7]])
    np.testing.assert_array_equal(mask[0], [[1, 1, 0, 0]])
    assert ids[1].shape == (2, 4)
    assert padding.cut(0, np.zeros((1, 4, 2)), short).shape == (1, 2, 2)
    assert padding.cut(1, np.zeros((1, 2)), short).shape == (1, 2)


def test_inputs_that_are_not_named_are_grouped_by_shape() -> None:
    padding = Padding([spec("x", "n", "length")], [spec("y", "n")], {})
    assert padding.key([np.zeros((1, 2))])[0] != padding.key([np.zeros((1, 3))])[0]
    assert padding.key([np.zeros((1, 2))])[0] == padding.key([np.zeros((5, 2))])[0]


@pytest.mark.parametrize(
    ("inputs", "outputs", "pad", "words"),
    [
        ([spec("x", "n", "a")], [spec("y", "n")], {"z": 0.0}, "does not have"),
        (
            [spec("x", "n", "a"), spec("m", "n", "a")],
            [spec("y", "n")],
            {"x": 0.0},
            "must name the input 'm'",
        ),
        ([spec("x", "n", "a")], [spec("y", "n", "a - 1")], {"x": 0.0}, "has the size a - 1"),
    ],
)
def test_padding_that_cannot_be_right_is_refused(
    inputs: Any, outputs: Any, pad: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Padding(inputs, outputs, pad)


# ------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("inputs", "outputs", "symbol"),
    [
        ([spec("x", "n", 3)], [spec("y", "n")], "n"),
        ([spec("x", 1, 3)], [spec("y", 1)], ""),
        ([spec("x", "n", 3)], [spec("y", "n", "n")], ""),
        ([spec("x", "n"), spec("w", "m")], [spec("y", "n")], ""),
        ([spec("x", "n + 1")], [spec("y", "n + 1")], ""),
        ([spec("x", "n")], [spec("y")], ""),
        ([spec("x", "n", "t")], [spec("y", "n", "n + t")], ""),
        ([spec("x", "n")], [TensorSpec("y", np.dtype(np.float32), ("n",), late=True)], ""),
    ],
)
def test_the_batch_dimension_is_the_first_of_all_and_nothing_else(
    inputs: Any, outputs: Any, symbol: str
) -> None:
    assert batch_symbol(inputs, outputs) == symbol


def checker() -> Checker:
    return Checker(
        [spec("x", "n", 2), spec("w", "n", dtype=np.int64)],
        [spec("y", "n", 2), spec("z", "n")],
        ["n"],
        {},
    )


def tensors(**arrays: np.ndarray[Any, Any]) -> list[Tensor]:
    names = {"f": "FP32", "i": "INT64"}
    return [Tensor(name, names[array.dtype.kind], array) for name, array in arrays.items()]


def test_inputs_come_in_the_order_of_the_model() -> None:
    given_inputs = tensors(w=np.zeros(3, np.int64), x=np.ones((3, 2), np.float32))
    x, w = checker().arrays(InferRequest("m", inputs=given_inputs))
    assert x.shape == (3, 2)
    assert w.shape == (3,)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (tensors(x=np.ones((3, 2), np.float32)), "the input 'w' is missing"),
        (tensors(x=np.ones((3, 2), np.float32), v=np.zeros(3, np.int64)), "no input 'v'"),
        (tensors(x=np.ones((3, 2), np.float32)) * 2, "twice"),
        (
            tensors(x=np.ones((3, 2), np.float32), w=np.zeros(3, np.float32)),
            "is FP32, and the model takes INT64",
        ),
        (tensors(x=np.ones((3, 4), np.float32), w=np.zeros(3, np.int64)), "size 4 instead of 2"),
        (tensors(x=np.ones((3, 2), np.float32), w=np.zeros(4, np.int64)), "n is 3 in x but 4 in w"),
        (
            tensors(x=np.ones(2, np.float32), w=np.zeros(2, np.int64)),
            "axis instead of|axes instead of",
        ),
    ],
)
def test_inputs_that_are_not_the_models_are_refused(inputs: list[Tensor], words: str) -> None:
    with pytest.raises(InputError, match=words):
        checker().arrays(InferRequest("m", inputs=inputs))


def test_outputs_are_those_that_are_asked_for_in_their_order() -> None:
    assert checker().requested_outputs(InferRequest("m")) == [0, 1]
    assert checker().requested_outputs(
        InferRequest("m", outputs=[RequestedOutput("z"), RequestedOutput("y")])
    ) == [1, 0]
    for names in (["q"], ["y", "y"]):
        with pytest.raises(InputError):
            checker().requested_outputs(
                InferRequest("m", outputs=[RequestedOutput(name) for name in names])
            )
