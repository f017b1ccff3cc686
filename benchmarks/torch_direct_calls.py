"""Calls of overloads of Core ATen that no sample of torch's own tests makes: torch's functions call
others in their place, and exported programs these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from benchmarks.torch_calls import Call, note

aten = torch.ops.aten
Make = Callable[[], tuple[Any, ...]]


def _x(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def _n(*sizes: int, low: int = -9) -> torch.Tensor:
    return torch.randint(low, 10, sizes)


def _norm(channels: int) -> tuple[torch.Tensor, ...]:
    return _x(channels), _x(channels), _x(channels), torch.rand(channels) + 0.5


CALLS: Final[list[tuple[Any, Make]]] = [
    *((aten.any.default, lambda x=x: (x,)) for x in (_x(2, 3) > 1, _n(4, low=0), _x(0))),
    *(
        (getattr(aten, name).Scalar, lambda other=other: (_n(3, 4), other))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        for other in (6, -3)
    ),
    *((aten.fmod.Scalar, lambda x=x, o=o: (x, o)) for x, o in ((_x(5) * 9, 2.5), (_n(9), -4))),
    *(
        (aten.remainder.Scalar, lambda x=x, o=o: (x, o))
        for x, o in ((_x(5) * 9, -2.5), (_n(9), -4), (_n(9), 3))
    ),
    *((aten.pow.Scalar, lambda b=b, x=x: (b, x)) for b, x in ((2.5, _x(2, 3)), (3, _n(4, low=0)))),
    *(
        (aten.div.Scalar_mode, lambda x=x, o=o, m=m: (x, o, {"rounding_mode": m}))
        for x, o in ((_x(5) * 9, -2.5), (_n(9), -4))
        for m in ("trunc", "floor")
    ),
    *((aten.prod.default, lambda x=x: (x,)) for x in (_x(2, 3), _n(4), _x(0))),
    *(
        (aten.var.dim, lambda d=d, u=u, k=k: (_x(3, 4, 5), d, u, k))
        for d, u, k in (([1], True, False), ([0, 2], False, True), ([-1], True, True))
    ),
    *(
        (op, lambda pads=pads, shape=shape: (_x(*shape), pads))
        for op in (aten.reflection_pad3d.default, aten.replication_pad3d.default)
        for pads, shape in (
            ([1, 2, 0, 1, 2, 1], (2, 3, 4, 5, 6)),
            ([1, 1, 1, 1, 1, 1], (3, 4, 5, 6)),
        )
    ),
    (aten.scatter.value, lambda: (_x(3, 5), 1, torch.tensor([[0, 2], [4, 1]]), 2.5)),
    (aten.scatter.value, lambda: (_n(3, 5), 0, torch.tensor([[0, 2, 1]]), 7)),
    (aten.copy.default, lambda: (_x(3, 4), _n(4))),
    (aten.copy.default, lambda: (_n(3, 4), _x(3, 4) * 5)),
    (aten.col2im.default, lambda: (_x(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
    (aten.col2im.default, lambda: (_x(2, 12, 9), [5, 5], [2, 2], [1, 1], [1, 1], [2, 2])),
    (
        aten._native_batch_norm_legit_no_training.default,
        lambda: (_x(2, 3, 4), *_norm(3), 0.1, 1e-5),
    ),
    (
        aten._native_batch_norm_legit_no_training.default,
        lambda: (_x(2, 3, 4, 5), None, None, *_norm(3)[2:], 0.1, 1e-3),
    ),
    (
        aten._native_batch_norm_legit.no_stats,
        lambda: (_x(2, 3, 4), *_norm(3)[:2], True, 0.1, 1e-5),
    ),
    (aten.native_dropout.default, lambda: (_x(3, 4), 0.5, False)),
    (aten.avg_pool1d.default, lambda: (_x(2, 3, 9), [3], [2], [1], True, False)),
]
"""Overloads, and what makes arguments of them; a dictionary at the end is of those by name."""


def direct_calls() -> Iterator[Call]:
    """Each of these calls, and what torch makes of it."""
    torch.manual_seed(0)
    calls: list[Call] = []
    for overload, make in CALLS:
        args = make()
        kwargs = args[-1] if isinstance(args[-1], dict) else {}
        args = args[:-1] if kwargs else args
        note(calls, overload, args, kwargs, overload(*args, **kwargs))
    yield from calls
