"""Views of tensors: transposed, sliced, spread and reshaped as NumPy does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.tensors import Buffer, Tensor, dense


def elements(view: Tensor, base: Any, values: dict[str, int]) -> Any:
    """The view of an array that a tensor describes."""
    shape, strides = (
        [dims.evaluate(d, values) for d in sizes] for sizes in (view.shape, view.strides)
    )
    start = dims.evaluate(view.offset, values)
    return as_strided(base[start:], shape, [s * base.itemsize for s in strides], writeable=False)


class Views:
    """Random views, done to a tensor and to an array alike."""

    def __init__(self, draw: Callable[[Any], Any], symbolic: bool) -> None:
        self.draw = draw
        shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
        self.values = {f"s{n}": n for n in range(2, 1000)}
        self.symbolic = symbolic
        perm = draw(st.permutations(range(len(shape))))
        self.base = np.arange(int(np.prod(shape)))
        physical = self.base.reshape([shape[p] for p in perm])
        self.array = physical.transpose(np.argsort(perm))
        self.tensor = dense(
            Buffer("arena", 0), dtypes.int64, tuple(map(self.dim, shape)), tuple(perm)
        )

    def dim(self, size: int) -> Dim:
        return dims.symbol(f"s{size}") if self.symbolic and 1 < size < 1000 else size

    def step(self) -> None:
        rank = self.tensor.rank
        kinds = (
            ["insert", "unfold"]
            if rank == 0
            else ["permute", "slice", "insert", "drop", "expand", "unfold"]
        )
        kind = self.draw(st.sampled_from(kinds))
        getattr(self, kind)(self.draw(st.integers(0, max(rank - 1, 0))))

    def permute(self, axis: int) -> None:
        perm = tuple(self.draw(st.permutations(range(self.tensor.rank))))
        self.tensor, self.array = self.tensor.permute(perm), self.array.transpose(perm)

    def slice(self, axis: int) -> None:
        size = self.array.shape[axis]
        if not size:
            return
        start = self.draw(st.integers(0, size - 1))
        step = self.draw(st.sampled_from([1, 1, 2, -1, -2]))
        count = len(range(start, size if step > 0 else -1, step))
        stop = None if step < 0 else size
        self.tensor = self.tensor.slice(axis, start, self.dim(count), step)
        self.array = self.array[(slice(None),) * axis + (slice(start, stop, step),)]

    def insert(self, axis: int) -> None:
        if self.tensor.rank < 6:
            self.tensor, self.array = self.tensor.insert(axis), np.expand_dims(self.array, axis)

    def drop(self, axis: int) -> None:
        self.tensor, self.array = self.tensor.drop(axis), self.array.take(0, axis)

    def expand(self, axis: int) -> None:
        shape = [2, *self.array.shape] if self.tensor.rank < 6 else list(self.array.shape)
        shape[-1] = 3 if shape[-1] == 1 else shape[-1]
        self.tensor = self.tensor.expand(tuple(map(self.dim, shape)))
        self.array = np.broadcast_to(self.array, shape)

    def unfold(self, axis: int) -> None:
        if not self.tensor.rank or self.tensor.rank > 5:
            return
        size = self.array.shape[axis]
        outer = self.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape = [*self.array.shape[:axis], outer, size // outer, *self.array.shape[axis + 1 :]]
        self.tensor, self.array = (
            self.tensor.unfold(axis, outer, self.dim(size // outer)),
            self.array.reshape(shape),
        )

    def check(self) -> None:
        np.testing.assert_array_equal(elements(self.tensor, self.base, self.values), self.array)
        assert sorted(self.tensor.order) == list(range(self.tensor.rank))


@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbols"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_views_are_those_of_numpy(symbolic: bool, data: st.DataObject) -> None:
    views = Views(data.draw, symbolic)
    views.check()
    for _ in range(data.draw(st.integers(1, 6))):
        views.step()
        views.check()


def factorizations(size: int) -> st.SearchStrategy[list[int]]:
    """Shapes of `size` elements."""

    def grow(rest: int, depth: int) -> st.SearchStrategy[list[int]]:
        if depth == 0:
            return st.just([rest])
        divisors = [n for n in range(1, rest + 1) if rest % n == 0]
        return st.sampled_from(divisors).flatmap(
            lambda n: grow(rest // n, depth - 1).map(lambda tail: [n, *tail])
        )

    return st.integers(0, 3).flatmap(lambda depth: grow(size, depth))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_reshape_gives_up_only_where_numpy_copies(data: st.DataObject) -> None:
    views = Views(data.draw, symbolic=False)
    views.permute(0)
    if data.draw(st.booleans()):
        views.slice(data.draw(st.integers(0, views.tensor.rank - 1)))
    shape = tuple(data.draw(factorizations(views.array.size)))
    found = views.tensor.reshape(shape)
    moved = views.array.reshape(shape)
    assert (found is None) == (not np.may_share_memory(moved, views.base))
    if found is not None:
        np.testing.assert_array_equal(elements(found, views.base, {}), moved)
        assert sorted(found.order) == list(range(len(shape)))


def test_reshape_divides_symbols() -> None:
    batch, width = dims.symbol("batch"), dims.symbol("width")
    whole = dense(Buffer("arena", 0), dtypes.float32, (batch, width * 4, 3))
    split = whole.reshape((batch, width, 12))
    assert split is not None
    assert split.strides == (width * 12, 12, 1)
    merged = whole.reshape((batch * width * 4, 3))
    assert merged is not None
    assert merged.strides == (3, 1)
    assert whole.permute((1, 0, 2)).reshape((batch * width * 4, 3)) is None
    assert whole.permute((1, 0, 2)).reshape((width, batch, 12)) is None


def test_scalars_and_empty_tensors_have_views() -> None:
    scalar = dense(Buffer("arena", 0), dtypes.float32, ())
    grown = scalar.reshape((1, 1))
    assert grown is not None
    assert grown.reshape(()) == scalar
    empty = dense(Buffer("arena", 0), dtypes.float32, (0, 3))
    assert empty.is_dense()
    assert empty.permute((1, 0)).is_dense((1, 0))
    assert scalar.expand((2, 3)).strides == (0, 0)
