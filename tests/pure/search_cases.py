"""Small networks in which the equalities of the search are found."""

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import int64s
from infuse.testing.patterns import graph_of

X, Y, Z, S = (Variable(name) for name in "xyzs")


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape).astype(np.float32)


def conv(x: Any, *shape: int, bias: bool = False, seed: int = 0, **attributes: Any) -> Call:
    """A convolution with random filters of this shape."""
    more = [weights(shape[0], seed=seed)] if bias else []
    return Call("Conv", (x, weights(*shape, seed=seed), *more), attributes)


def part(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Call:
    return ops.slice(x, *(int64s(n) for n in (start, stop, axis, step)))


def pool(x: Any) -> Call:
    return ops.average_pool(x, kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(1, 1))


def shuffled(x: Any, groups: int, each: int, *rest: int) -> Call:
    """The channels of x, groups · each, in the other order."""
    split = ops.transpose(
        ops.reshape(x, int64s(1, groups, each, *rest)), perm=(0, 2, 1, *range(3, 3 + len(rest)))
    )
    return ops.reshape(split, int64s(1, groups * each, *rest))


def rolled(x: Any, axis: int, size: int, by: int) -> Call:
    return ops.concat(part(x, axis, by, size), part(x, axis, 0, by), axis=axis)


def branches(x: Any) -> Call:
    """Convolutions of one image, one of them after a pooling."""
    first = ops.relu(conv(x, 3, 8, 1, 1, bias=True, seed=1))
    second = conv(ops.relu(conv(x, 4, 8, 1, 1, bias=True, seed=2)), 2, 4, 3, 3, pads=(1, 1, 1, 1))
    third = ops.relu(conv(pool(x), 5, 8, 1, 1, bias=True, seed=3))
    return ops.concat(first, second, third, axis=1)


IMAGE = (1, 8, 6, 5)
SHARED = weights(4, 3)
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "branches": ((branches(X),), {"x": IMAGE}),
    "factors on branches": (
        (conv(X, 3, 8, 1, 1) * weights(1, 3, 1, 1), conv(X, 4, 8, 1, 1, seed=5) * weights(4, 1, 1)),
        {"x": IMAGE},
    ),
    "residual": (
        (
            ops.relu(
                conv(X, 6, 8, 1, 1, bias=True, strides=(2, 2))
                + conv(Y, 6, 4, 1, 1, bias=True, seed=1),
            ),
        ),
        {"x": IMAGE, "y": (1, 4, 3, 3)},
    ),
    "joined image": (
        (conv(ops.concat(X, Y, axis=1), 3, 6, 3, 3, pads=(1, 1, 1, 1)),),
        {"x": (2, 4, 5, 5), "y": (2, 2, 5, 5)},
    ),
    "joined batch": (
        (conv(ops.concat(X, Y, axis=0), 3, 4, 1, 1),),
        {"x": (2, 4, 5, 5), "y": (1, 4, 5, 5)},
    ),
    "joined filters": (
        (ops.concat(conv(X, 3, 8, 1, 1), conv(X, 2, 8, 1, 1), axis=1),),
        {"x": IMAGE},
    ),
    "windows": (
        (
            conv(X, 3, 8, 1, 1),
            conv(X, 4, 8, 3, 3, pads=(1, 1, 1, 1)),
            conv(X, 4, 8, 3, 3, pads=(2, 2, 2, 2), dilations=(2, 2)),
        ),
        {"x": IMAGE},
    ),
    "channels alone": (
        (conv(ops.concat(X, Y, axis=1), 6, 1, 3, 3, group=6),),
        {"x": (1, 4, 5, 5), "y": (1, 2, 5, 5)},
    ),
    "pools": (
        (
            pool(conv(X, 3, 8, 1, 1)),
            ops.global_average_pool(conv(X, 4, 8, 1, 1)),
            pool(ops.concat(X, Y, axis=1)),
        ),
        {"x": IMAGE, "y": (1, 2, 6, 5)},
    ),
    "points": ((conv(conv(X, 3, 8, 1, 1), 7, 3, 1, 1),), {"x": IMAGE}),
    "rolled": (
        (Y + rolled(rolled(X, 1, 6, 2), 2, 5, 3), ops.relu(part(rolled(X, 1, 6, 2), 2, 1, 4))),
        {"x": (2, 6, 5, 3), "y": (2, 6, 5, 3)},
    ),
    "shuffled": (
        (
            conv(part(shuffled(ops.concat(X, Y, axis=1), 2, 4, 3, 3), 1, 4, 8), 2, 4, 1, 1),
            ops.relu(shuffled(X, 2, 2, 3, 3)),
        ),
        {"x": (1, 4, 3, 3), "y": (1, 4, 3, 3)},
    ),
    "shuffled twice": (
        (
            part(
                shuffled(ops.concat(part(shuffled(X, 2, 4, 3), 1, 0, 4), Y, axis=1), 2, 4, 3),
                1,
                0,
                4,
            )
            * weights(4, 1),
        ),
        {"x": (1, 8, 3), "y": (1, 4, 3)},
    ),
    "shuffled filters": (
        (
            conv(shuffled(X, 2, 4, 3, 3), 8, 1, 3, 3, group=8),
            conv(shuffled(X, 2, 4, 3, 3), 3, 8, 1, 1),
            shuffled(conv(X, 6, 8, 1, 1, bias=True), 2, 3, 3, 3),
        ),
        {"x": (1, 8, 3, 3)},
    ),
    "chain": ((ops.matmul(ops.matmul(X, weights(4, 5)), weights(5, 2)),), {"x": (2, 3, 4)}),
    "chain to the right": (
        (ops.matmul(X, ops.matmul(Y, Z)),),
        {"x": (2, 3), "y": (3, 5), "z": (5, 4)},
    ),
    "products at once": (
        (
            ops.matmul(X, weights(4, 5)) + weights(5),
            ops.matmul(X, weights(4, 2)) + weights(2),
            ops.matmul(X, weights(4, 3)),
        ),
        {"x": (2, 3, 4)},
    ),
    "columns": (
        (ops.concat(ops.matmul(X, weights(4, 5)), ops.matmul(X, weights(4, 2)), axis=-1),),
        {"x": (2, 3, 4)},
    ),
    "joined rows": (
        (ops.matmul(ops.concat(X, Y, axis=1), weights(4, 5)),),
        {"x": (2, 3, 4), "y": (2, 1, 4)},
    ),
    "joined depth": (
        (ops.matmul(ops.concat(X, Y, axis=2), weights(6, 5)),),
        {"x": (2, 3, 4), "y": (2, 3, 2)},
    ),
    "cut product": (
        (
            part(ops.matmul(X, weights(4, 5)), 2, 1, 3),
            part(ops.matmul(X, weights(4, 5)), 1, 0, 3, 2),
        ),
        {"x": (2, 3, 4)},
    ),
    "sums": (
        (
            ops.matmul(X + Y, weights(4, 5)),
            ops.matmul(X, SHARED) - ops.matmul(Y, SHARED),
            ops.matmul(X, weights(4, 6, seed=1)) + ops.matmul(X, weights(4, 6, seed=2)),
        ),
        {"x": (2, 3, 4), "y": (2, 3, 4)},
    ),
    "factors": (
        (
            ops.matmul(X, weights(4, 5)) * weights(5) * weights(1),
            ops.matmul(X * weights(4), weights(4, 5, seed=1)),
            conv(Y * weights(1, 8, 1, 1), 3, 8, 3, 3),
        ),
        {"x": (2, 3, 4), "y": IMAGE},
    ),
    "a number": (
        (ops.matmul(X * S, Y), ops.matmul(Y, X) * S),
        {"x": (3, 4), "y": (4, 3), "s": (1,)},
    ),
    "transposed": (
        (
            ops.matmul(ops.transpose(X, perm=(1, 0, 2)), weights(4, 5)),
            ops.transpose(ops.matmul(X, weights(4, 5)), perm=(1, 0, 2)),
            ops.transpose(ops.matmul(X, Y), perm=(0, 2, 1)),
        ),
        {"x": (2, 3, 4), "y": (2, 4, 3)},
    ),
    "orders": (
        (
            ops.transpose(ops.transpose(ops.relu(X), perm=(1, 2, 0)), perm=(1, 2, 0))
            + weights(2, 1, seed=1),
            ops.transpose(ops.concat(X, part(X, 1, 1, 2), axis=1), perm=(0, 2, 1)),
            part(ops.transpose(X, perm=(2, 0, 1)), 2, 0, 2),
            ops.concat(ops.transpose(X, perm=(1, 0, 2)), ops.transpose(Y, perm=(1, 0, 2)), axis=0),
        ),
        {"x": (2, 3, 4), "y": (2, 5, 4)},
    ),
    "shapes": (
        (
            ops.reshape(ops.reshape(X, int64s(6, 4)), int64s(3, 8)) + weights(3, 8),
            ops.relu(ops.reshape(X, int64s(24))),
        ),
        {"x": (2, 3, 4)},
    ),
    "pieces": (
        (
            part(part(X, 0, 1, 8), 0, 2, 6, 2),
            ops.concat(part(X, 0, 1, 3), part(X, 0, 3, 7), axis=0),
            ops.concat(ops.concat(X, Y, axis=0), Y, axis=0) * weights(4),
            ops.concat(ops.relu(X), ops.relu(Y), axis=0),
            ops.concat(X + weights(1, 4), Y + weights(1, 4), axis=0),
            ops.gather(X, int64s(2, 3, 4), axis=0),
        ),
        {"x": (9, 4), "y": (2, 4)},
    ),
}


def case_graph(name: str) -> Graph:
    results, operands = CASES[name]
    return graph_of(*results, **operands)
