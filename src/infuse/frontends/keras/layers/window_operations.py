"""Operations of `keras.ops` on windows and images, on segments of rows, and on matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.convolutions import channels_back, channels_in_front
from infuse.frontends.keras.layers.movement import interpolation as _modes
from infuse.frontends.keras.layers.operations import Operation, operation, real, tensor
from infuse.frontends.keras.layers.pooling import adaptive_pool, pool
from infuse.ir.graph import Value
from infuse.ops.conversion import finite_limit
from infuse.ops.quantization import limits
from infuse.tracing.arrays import decompositions
from infuse.tracing.arrays.array import applied


def _pooled(build: Callable[[str, int], Any], kind: str) -> Operation:
    def built(call: KerasCall, inputs: Any, **_: Any) -> Value:
        x = real(call, inputs)
        return call.g.cast(build(kind, x.rank - 2)(call, x), x.dtype)

    return built


for _name, _kind, _whole in (("Average", "AveragePool", "ReduceMean"),
                             ("Max", "MaxPool", "ReduceMax")):  # fmt: skip
    operation(f"{_name}Pool")(_pooled(pool, _kind))
    operation(f"Adaptive{_name}Pool")(_pooled(adaptive_pool, _whole))


@operation("Resize")
def resize(
    call: KerasCall,
    images: Any,
    size: Sequence[int],
    interpolation: str = "bilinear",
    data_format: Any = None,
    **options: Any,
) -> Value:
    """Images of another size."""
    for name in ("antialias", "crop_to_aspect_ratio", "pad_to_aspect_ratio"):
        if options.get(name):
            raise call.unsupported(f"{name} = True")
    g, x = call.g, tensor(call, images)
    if interpolation != "nearest" and not x.dtype.is_float:
        raise call.unsupported(f"{interpolation} interpolation of {x.dtype}")
    single = x.rank == 3
    front = channels_in_front(call, call.unsqueezed(x, 0) if single else x, 4)
    modes = _modes(call, interpolation)
    y = g("Resize", front, None, None, g.ints(*map(int, size)), axes=(2, 3), **modes)
    y = channels_back(call, y)
    return call.squeezed(y, 0) if single else y


@operation("DepthToSpace", "SpaceToDepth")
def depth_to_space(
    call: KerasCall, x: Any, block_size: int, data_format: str = "channels_last"
) -> Value:
    """Channels as places of a larger image, or the other way round."""
    first = data_format == "channels_first"
    value = tensor(call, x)
    front = value if first else call.g.permute(value, 0, 3, 1, 2)
    kind = call.layer.kind.removeprefix("ops.")
    y = call.g(kind, front, blocksize=int(block_size))
    return y if first else call.g.permute(y, 0, 2, 3, 1)


def _segment(reduction: str) -> Operation:
    def build(
        call: KerasCall, data: Any, segment_ids: Any, num_segments: int | None = None,
        sorted: bool = False,
    ) -> Value:  # fmt: skip
        if sorted or num_segments is None:
            raise call.unsupported("a sorted segment, or an unknown number of them,")
        g, rows = call.g, tensor(call, data)
        ids = g.cast(tensor(call, segment_ids), dtypes.int64)
        if ids.rank != 1:
            raise call.unsupported("segments of several axes")
        count = int(num_segments)
        start: float = 1 if reduction == "mul" else 0
        if reduction in ("max", "min"):
            low, high = (
                (-_largest(rows), _largest(rows)) if rows.dtype.is_float else limits(rows.dtype)
            )
            start = low if reduction == "max" else high
        # One more row takes what belongs to no segment.
        inside = g("GreaterOrEqual", ids, g.number(0, dtypes.int64))
        place = g("Where", inside, ids, g.number(count, dtypes.int64))
        sizes = g("Concat", g.ints(count + 1), g("Shape", rows, start=1), axis=0)
        base = g("Expand", g.number(start, rows.dtype), sizes)
        made = g("ScatterND", base, call.unsqueezed(place, 1), rows, reduction=reduction)
        return g.slice(made, 0, 0, count)

    return build


def _largest(x: Value) -> float:
    return float(finite_limit(x.dtype) or 0)


for _name, _kind in (("Sum", "add"), ("Prod", "mul"), ("Max", "max"), ("Min", "min")):
    operation(f"Segment{_name}")(_segment(_kind))


# -- matrices --------------------------------------------------------------------------------------


def _decomposed(function: Callable[..., Any]) -> Operation:
    """What a function of traced arrays makes of floats."""

    def build(call: KerasCall, x: Any, **options: Any) -> Value:
        return applied(call.g, partial(function, **options), real(call, x))[0]

    return build


operation("Det")(_decomposed(decompositions.det))
operation("Inv")(_decomposed(decompositions.inv))
operation("Cholesky")(_decomposed(decompositions.cholesky))


operation("Slogdet")(lambda call, x: applied(call.g, decompositions.slogdet, real(call, x)))
operation("Logdet")(lambda call, x: applied(call.g, decompositions.slogdet, real(call, x))[1])


@operation("Solve")
def solve(call: KerasCall, a: Any, b: Any) -> Value:
    """The solutions of linear equations; b has matrices, or vectors where it lacks an axis."""
    left, right = real(call, a), real(call, b)
    is_vector = right.rank == left.rank - 1
    right = call.unsqueezed(right, right.rank) if is_vector else right
    (y,) = applied(call.g, decompositions.solve, left, right)
    return call.squeezed(y, y.rank - 1) if is_vector else y
