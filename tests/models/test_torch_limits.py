"""Zeros, the ends of the range, and nothing at all: programs beside torch in eager mode."""

from __future__ import annotations

import math
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
NAN, INF = math.nan, math.inf
SPECIAL = torch.tensor([-0.0, 0.0, 1.0, -1.0, NAN, INF, -INF, 3.4e38, -3.4e38])
ORDERS = (0, 0.5, 1, 2, 3, INF, -INF, -1)
FUNCTIONS = [
    F.relu,
    F.relu6,
    F.elu,
    F.celu,
    F.selu,
    F.hardtanh,
    lambda x: F.hardtanh(x, 0.0, 1.0),
    F.hardsigmoid,
    F.leaky_relu,
]
EXTREMES = {
    "large": torch.tensor([1.5e19, 2e19, -1e19, 3e19]),
    "largest": torch.tensor([3.4e38, -3.4e38, 1e38, 2e38]),
    "small": torch.tensor([1e-30, 2e-30, -1e-30, 3e-30]),
    "special": torch.tensor([NAN, INF, -0.0, 1.0]),
}


@pytest.mark.parametrize("compiled", [False, True])
def test_zeros_keep_their_signs_as_in_torch(compiled: bool) -> None:
    compare((lambda x: [f(x) for f in FUNCTIONS], [SPECIAL]), compiled, signs=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_infinities_stay_where_there_is_no_limit(compiled: bool) -> None:
    """Clip of ONNX, which ends at the largest finite numbers, gave 3.4e38."""

    def clamped(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            x.clamp(min=0.0), x.clamp(max=1.0), x.clamp(min=-2), x.clamp_min(1), x.clamp_max(0),
            torch.clip(x, max=-1.0), x.double().clamp(max=0.0), x.half().clamp(min=0.0),
            x.nan_to_num(0.0, 3.0, -3.0).int().clamp(max=1),
        ]  # fmt: skip

    compare((clamped, [SPECIAL]), compiled, signs=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_no_image_has_groups_of_channels(compiled: bool) -> None:
    """Sizes were found by a division by the images."""

    def told(x: torch.Tensor) -> Any:
        return torch.native_group_norm(x, None, None, 0, 2, 1, 1, 1e-5)

    weights = torch.ones(2)
    for function in (lambda x: F.group_norm(x, 1, weights, weights), told):
        compare((function, [torch.zeros(0, 2)]), compiled)
    compare((lambda x: F.group_norm(x, 2), [torch.zeros(0, 4, 3, 3)]), compiled)


def test_no_channel_is_normalized() -> None:
    none = torch.zeros(0)
    compare((lambda x: F.batch_norm(x, x, x), [none]))
    compare((lambda x: F.batch_norm(x, x, x), [none]), compiled=True)


def test_truth_is_added_and_multiplied() -> None:
    def counted(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        kind = torch.bool
        return [
            x.sum(1, dtype=kind), x.prod(1, dtype=kind), y.sum(1, dtype=kind),
            y.prod(1, dtype=kind),
            x.prod(0, dtype=kind), x.sum(dtype=kind), x[:, :0].prod(1, dtype=kind), x.prod(),
        ]  # fmt: skip

    truth = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
    compare((counted, [truth, torch.tensor([[0.5, -1.0], [0.0, NAN], [0.0, -0.0]])]))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_length_of_one_number_is_the_number(compiled: bool) -> None:
    """torch 2.13 takes no power where one element is reduced; of more, squares above 3.4e38 are
    infinite.
    """

    def lengths(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.linalg.vector_norm(x, order, dim=dim, keepdim=keep)
            for order in ORDERS
            for dim, keep in ((1, False), (-1, True))
        ] + [torch.linalg.vector_norm(x, dim=0), torch.linalg.vector_norm(x[:2])]

    compare((lengths, [torch.cat(list(EXTREMES.values()))[:, None]]), compiled)


def test_lengths_of_one_number_and_of_no_axes() -> None:
    def lengths(x: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.linalg.vector_norm(x, order) for order in ORDERS]
        return [*found, torch.norm(x), F.normalize(x.reshape(1, 1), dim=1)]

    for value in (-3e38, 2e-38, 0.0, -INF, NAN):
        compare((lengths, [torch.tensor([[value]])]))
        compare((lengths, [torch.tensor(value)]))


@pytest.mark.parametrize("compiled", [False, True])
def test_vectors_whose_squares_are_too_large_have_no_direction(compiled: bool) -> None:
    x = torch.tensor([[1.5e19, 2e19, -1e19, 3e19], [1.0, 2.0, 3.0, 4.0]])
    compare((lambda x: (F.normalize(x, dim=1), torch.linalg.vector_norm(x, dim=1)), [x]), compiled)
    compare((lambda x: F.cosine_similarity(x, x.flip(1), dim=1), [x]), compiled)


IMAGE = torch.arange(84.0).reshape(1, 2, 6, 7)
VOLUME = torch.arange(128.0).reshape(1, 2, 4, 4, 4)
PADDED: dict[str, Case] = {
    f"{mode} {pads}": (lambda x, mode=mode, pads=pads: F.pad(x, pads, mode=mode), [x])
    for mode in ("reflect", "replicate", "circular", "constant")
    for x, pads in (
        (IMAGE, (-1, 2, 1, -2)),
        (IMAGE, (3, -3, -5, 4)),
        (IMAGE[0], (6, -6)),
        (VOLUME, (2, -2, -1, 1, 0, 1)),
        (VOLUME, (-3, 3, 0, 0, -2, -1)),
    )
    if mode != "circular" or min(pads) > -3  # else torch 2.13 reads memory that nobody wrote
}


@pytest.mark.parametrize("name", PADDED)
def test_what_is_cut_off_was_there_when_the_rest_was_reflected(name: str) -> None:
    compare(PADDED[name])


@pytest.mark.parametrize(
    "name", ["reflect (2, -2, -1, 1, 0, 1)", "replicate (-3, 3, 0, 0, -2, -1)"]
)
def test_negative_pads_compiled(name: str) -> None:
    compare(PADDED[name], compiled=True)
