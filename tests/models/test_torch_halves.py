"""Floats of 16 bits beside torch in eager mode: what it computes in float32, and rounds once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.models.torch_tools import Case, compare

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
RANDOM = torch.Generator().manual_seed(9)
ALL = torch.arange(-32768, 32768, 37, dtype=torch.int32).to(torch.int16).view(torch.half)
NORMAL = ALL[(ALL.abs() > 1e-3) | (ALL == 0)]
PLACES = torch.tensor([0, 3, 3, 5, 1, 2, 2])
STARTS = torch.tensor([0, 2, 2, 5])


def _x(*shape: int) -> torch.Tensor:
    return (torch.rand(*shape, generator=RANDOM) * 18 - 9).half()


def _scaled(number: Any) -> Case:
    return (
        lambda x: (
            *(x * number, x / number, number / x, x // number),
            *(torch.div(x, number, rounding_mode=mode) for mode in ("floor", "trunc")),
        ),
        [NORMAL],
    )


HALVES: dict[str, Case] = {
    # 1e5 is infinite and 1e-8 is zero among halves: x · 1e5 was infinite, x / 1e-8 too
    **{f"factors of {number}": _scaled(number) for number in (1e5, 1e-8, 0.1, 3.7, 2)},
    "factors without axes": (
        lambda x: (x * torch.tensor(1e5), x / torch.tensor(0.1), x + torch.tensor(0.1)), [NORMAL]
    ),
    "sums of parts": (
        lambda x: (torch.add(x, x, alpha=0.1), torch.sub(x, x, alpha=3.7),
                   torch.rsub(x, x, alpha=0.3)),
        [NORMAL],
    ),
    "angles": (torch.atan2, [_x(200), _x(200)]),
    "lengths": (torch.hypot, [_x(200), _x(200)]),
    "quotients that are added": (
        lambda x, y: torch.addcdiv(x, y, x, value=3.14), [_x(200), _x(200)]
    ),
    "scores of attention": (
        F.scaled_dot_product_attention, [_x(4, 3, 8), _x(4, 6, 8), _x(4, 6, 8)]
    ),
    "bags": (
        lambda w, p: F.embedding_bag(PLACES, w, STARTS, mode="sum", per_sample_weights=p),
        [_x(6, 5), _x(7)],
    ),
    "means of squares": (lambda x: F.rms_norm(x, [8]), [_x(4, 8) * 1e-6]),
}  # fmt: skip
ORDERS: dict[str, Case] = {
    "products": (lambda x, y: torch.addcmul(x, x, y, value=1e-3),
                 [torch.full((40,), 3e38), torch.full((40,), 10.0)]),
    "quotients": (lambda x, y: torch.addcdiv(x, x, y, value=1e-3),
                  [torch.full((40,), 3e38), torch.full((40,), 0.1)]),
}  # fmt: skip


def _accuracy(name: str) -> float:
    """Of some sums that lie halfway, torch takes the other neighbour."""
    return 1e-3 if name == "sums of parts" else 2e-5


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_rounded_once(name: str) -> None:
    compare(HALVES[name], rtol=_accuracy(name))


@pytest.mark.parametrize("name", ["factors of 100000.0", "sums of parts", "scores of attention"])
def test_halves_are_rounded_once_by_compiled_code(name: str) -> None:
    compare(HALVES[name], compiled=True, rtol=_accuracy(name))


@pytest.mark.parametrize("name", ORDERS)
def test_the_number_is_the_first_factor(name: str) -> None:
    """3e38 · 10 · 0.001 was infinite."""
    compare(ORDERS[name])
