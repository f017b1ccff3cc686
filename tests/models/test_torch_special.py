"""What torch makes of special values and rare forms of operators, as exported programs and as
TorchScript: beside torch in eager mode.
"""

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


def _t(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def _x(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


IMAGE = _x(1, 2, 9, 8)
RESIZED: dict[str, Case] = {
    f"{mode} {name}": (
        lambda x, mode=mode, options=options: F.interpolate(
            x, mode=mode, antialias=True, **options
        ),
        [IMAGE],
    )
    for mode in ("bicubic", "bilinear")
    for name, options in {
        "down": {"size": (5, 3)},
        "up": {"size": (14, 13)},
        "by factors": {"scale_factor": 0.4},
        "by sizes of factors": {"scale_factor": 0.4, "recompute_scale_factor": True},
    }.items()
}
PLACES = _t(
    [[NAN, -0.9], [-0.9, NAN], [INF, -0.9], [-0.9, -INF]],
    [[NAN, NAN], [0.1, 0.2], [5.0, -5.0], [-1.0, 1.0]],
)[None]
VOLUME_PLACES = _t(
    [[NAN, -0.9, -0.9], [-0.9, NAN, -0.9], [-0.9, -0.9, NAN], [INF, -0.9, -0.9]],
    [[-0.9, -INF, 0.9], [0.9, 0.9, INF], [0.1, 0.2, 0.3], [5.0, -5.0, 0.3]],
)[None, None]
SAMPLED: dict[str, Case] = {
    f"{mode} {padding} {corners} {grid.dim() - 2}d": (
        lambda x, grid, mode=mode, padding=padding, corners=corners: F.grid_sample(
            x, grid, mode=mode, padding_mode=padding, align_corners=corners
        ),
        [_x(1, 1, *((3, 4, 5)[-grid.shape[-1] :])), grid],
    )
    for grid in (PLACES, VOLUME_PLACES)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (False, True)
    if mode != "bicubic" or grid is PLACES
}
TABLE = _x(5, 3)
SPECIAL_TABLE = TABLE.clone()
SPECIAL_TABLE[1:4] = _t([NAN], [INF], [-INF])
BAG, STARTS = _t(1, 4, 0, 4, 4, 2, 3, dtype=torch.int64), _t(0, 1, 3, 3, 5, 6, dtype=torch.int64)
BAGS: dict[str, Case] = {
    f"{mode} without {left_out} of {name}": (
        lambda table, bag, starts, mode=mode, left_out=left_out: F.embedding_bag(
            bag, table, starts, mode=mode, padding_idx=left_out
        ),
        [table, BAG, STARTS],
    )
    for mode in ("sum", "mean", "max")
    for left_out in (None, -1, 0, 4)
    for name, table in {"numbers": TABLE, "special ones": SPECIAL_TABLE}.items()
}
BAGS["with weights"] = (
    lambda table, bag, starts, factors: F.embedding_bag(
        bag, table, starts, mode="sum", per_sample_weights=factors, padding_idx=4
    ),
    [TABLE, BAG, STARTS, _x(7)],
)
BAGS["with an end"] = (
    lambda table, bag, ends: F.embedding_bag(bag, table, ends, include_last_offset=True),
    [TABLE, BAG, _t(0, 1, 3, 3, 7, dtype=torch.int64)],
)
BAGS["of nothing"] = (
    lambda table, bag, starts: F.embedding_bag(bag, table, starts),
    [TABLE, BAG[:0], _t(0, 0, dtype=torch.int64)],
)
LENGTHS = [
    _t(NAN, INF, NAN, 3.0, 1e30, 1e-30, -INF, 0.0, -0.0),
    _t(INF, NAN, 1.0, 4.0, 1e30, 1e-30, NAN, -0.0, -0.0),
]
NUMBERS = _t(NAN, INF, -INF, 1.0, 2.0, 0.0, -0.0, 1e-40, 3.0)
SEARCHED: dict[str, Case] = {
    f"{name} {right}": case
    for right in (False, True)
    for name, case in {
        "bucketize": (
            lambda x, b, right=right: torch.bucketize(x, b, right=right),
            [NUMBERS, _t(1.0, 2.0, 3.0)],
        ),
        "searchsorted": (
            lambda b, x, right=right: torch.searchsorted(b, x, right=right),
            [_t([1.0, 2.0, INF], [-INF, 0.0, 0.0]), _t([NAN, 2.0, INF], [NAN, 0.0, -INF])],
        ),
        "sorter": (
            lambda b, x, s, right=right: torch.searchsorted(b, x, right=right, sorter=s),
            [_t(2.0, 3.0, 1.0), NUMBERS, _t(2, 0, 1, dtype=torch.int64)],
        ),
    }.items()
}
SPREADS: dict[str, Case] = {
    f"{op.__name__} {correction}": (
        lambda x, op=op, correction=correction: op(x, dim=-1, correction=correction),
        [_t([1.0, 2.0, 4.0], [NAN, 1.0, 2.0], [INF, 1.0, 2.0], [3.0, 3.0, 3.0])],
    )
    for op in (torch.var, torch.std)
    for correction in (0, 2, 3, 5)
}
REPEATED = _t(NAN, 1.0, NAN, 2.0, 1.0, -0.0, 0.0)
ONES = _t(3, 3, 1, 1, 3, 2, dtype=torch.int64)
DISTINCT: dict[str, Case] = {
    f"{function.__name__} of {name} {inverse} {counts}": (
        lambda x, function=function, inverse=inverse, counts=counts: function(
            x, return_inverse=inverse, return_counts=counts
        ),
        [x],
    )
    for function in (torch.unique, torch.unique_consecutive)
    for name, x in {
        "floats": REPEATED,
        "integers": ONES,
        "a matrix": ONES.reshape(2, 3),
        "truths": ONES > 1,
        "nothing": REPEATED[:0],
        "NaN": REPEATED[:1],
    }.items()
    for inverse in (False, True)
    for counts in (False, True)
    if inverse or counts
}
OTHERS: dict[str, Case] = {
    "quotients": (
        lambda x: (x // 5, x // -3, 7 // x),
        [_t(-128, 127, -127, -1, 5, dtype=torch.int8)],
    ),
    "wide quotients": (
        lambda x: (x // 3, x // -3),
        [_t(-(2**31), 2**31 - 1, -7, 0, dtype=torch.int32)],
    ),
    "hypot": (torch.hypot, LENGTHS),
    "hypot of wide": (
        torch.hypot,
        [_t(NAN, INF, 3.0, 1e200, 1e-200, dtype=torch.float64),
         _t(INF, NAN, 4.0, 1e200, 1e-200, dtype=torch.float64)],
    ),
    "sign": (torch.sign, [NUMBERS]),
    "sgn": (torch.sgn, [NUMBERS]),
    **{
        f"cosine {a} {b} along {dim}": (
            lambda x, y, dim=dim: F.cosine_similarity(x, y, dim=dim),
            [_x(*a), _x(*b)],
        )
        for a, b, dim in (
            ((2, 3), (2, 1), 1),
            ((3,), (2, 1), -1),
            ((3,), (2, 3), 0),
            ((1, 4), (3, 1), 1),
        )
    },
    "cosine of special ones": (
        lambda x, y: F.cosine_similarity(x, y, dim=1),
        [torch.zeros(3, 2), _t([NAN, 1.0], [INF, 0.0], [0.0, 0.0])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESIZED)
def test_antialiased_images_have_torchs_weights(name: str) -> None:
    compare(RESIZED[name])


@pytest.mark.parametrize("name", SAMPLED)
def test_places_that_are_no_numbers_are_sampled_as_in_torch(name: str) -> None:
    compare(SAMPLED[name])


@pytest.mark.parametrize("name", BAGS)
def test_bags_leave_out_what_is_padding(name: str) -> None:
    compare(BAGS[name])


@pytest.mark.parametrize("name", SEARCHED)
def test_nan_is_past_the_end(name: str) -> None:
    compare(SEARCHED[name])


@pytest.mark.parametrize("name", SPREADS)
def test_spreads_of_too_few_are_infinite(name: str) -> None:
    compare(SPREADS[name])


@pytest.mark.parametrize("name", DISTINCT)
def test_each_nan_is_an_element_of_its_own(name: str) -> None:
    compare(DISTINCT[name])


@pytest.mark.parametrize("name", OTHERS)
def test_special_values_give_what_torch_gives(name: str) -> None:
    compare(OTHERS[name])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("compiled", [False, True])
def test_bits_are_shifted_by_any_count(dtype: torch.dtype, compiled: bool) -> None:
    info = torch.iinfo(dtype)
    numbers = _t(info.min, info.max, info.max // 3, 7, 0, 1, dtype=dtype)
    if info.min:
        numbers = torch.cat([numbers, _t(-1, -7, dtype=dtype)])
    counts = [n for n in (-1, 0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100) if n >= 0 or info.min]
    x = numbers[:, None].expand(-1, len(counts)).contiguous()
    compare((lambda x, n: (x << n, x >> n), [x, _t(*counts, dtype=dtype)]), compiled)
    compare((lambda x: (x << 40, x >> 40), [x]))


LARGE = _t(3.4e38, 1e30, 1e-30, 0.0, -0.0, -1.0, -2.0, INF, NAN)
COMPOSED: dict[str, Case] = {
    "log1p": (torch.log1p, [LARGE]),
    "expm1": (torch.expm1, [LARGE]),
    "logaddexp": (torch.logaddexp, [LARGE[:, None].expand(9, 9).contiguous(), LARGE]),
    "hypot": (torch.hypot, [LARGE[:, None].expand(9, 9).contiguous(), LARGE]),
    "atan2": (torch.atan2, [LARGE[:, None].expand(9, 9).contiguous(), LARGE]),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_functions_made_of_others_do_not_overflow(name: str) -> None:
    compare(COMPOSED[name])


ROWS = _t([3.0, NAN, 1.0, 2.0], [3.0, 1.0, 0.5, 2.0], [INF, -INF, 0.0, 7.0], [1.0, 1.0, NAN, NAN])
DIFFERENT = _t([3.0, NAN, 1.0, 2.0, 5.0], [3.0, 1.0, 0.5, 2.0, -INF], [INF, -INF, 0.0, 7.0, -1.0])
WHOLE = _t([3, -7, 2, 9], [-1, 5, 0, 4], dtype=torch.int32)
MADE: dict[str, Case] = {
    f"{dtype} {start} {end} {step}": (
        lambda x, dtype=dtype, numbers=(start, end, step): (
            torch.arange(*numbers, dtype=dtype) + x,
            torch.linspace(numbers[0], numbers[1], 11, dtype=dtype) + x,
        ),
        [_t(1, dtype=dtype)],
    )
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.float32)
    for start, end, step in (
        (0, 3.1, 1),
        (0.5, 7, 2),
        (0.0, 8.000001, 4.0),
        (9.5, 2.1, -2.0),
        (9, 0, -3),
        (2, 2, 1),
    )
}
ORDERED: dict[str, Case] = {
    "median": (lambda x: x.median(1), [DIFFERENT]),
    "median, kept": (lambda x: torch.median(x, 0, keepdim=True), [DIFFERENT]),
    "median of all": (torch.median, [DIFFERENT]),
    "median of integers": (lambda x: (torch.median(x, 1), torch.median(x)), [WHOLE]),
    "nanmedian": (lambda x: torch.nanmedian(x, 1), [DIFFERENT]),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 1), [DIFFERENT]),
    "kthvalue, kept": (lambda x: torch.kthvalue(x, 1, 0, True), [WHOLE]),
    "cummax": (lambda x: torch.cummax(x, 1), [ROWS]),
    "cummin": (lambda x: torch.cummin(x, 0), [ROWS]),
    "cummax of integers": (lambda x: torch.cummax(x, -1), [WHOLE]),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), [_x(3, 7) * 50]),
    "logcumsumexp of infinite ones": (
        lambda x: torch.logcumsumexp(x, 0), [_t(-INF, -INF, 1.0, 2.0, INF, 3.0, NAN, 1.0)]
    ),
    "fmax": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), [ROWS[0], ROWS[3]]),
    "logaddexp": (torch.logaddexp, [_t(NAN, INF, -INF, INF, 1.0), _t(1.0, INF, -INF, -INF, 2.0)]),
    **{
        f"mean pool {size} {kernel} {stride} {pad}": (
            lambda x, kernel=kernel, stride=stride, pad=pad: F.avg_pool2d(
                x, kernel, stride, pad, ceil_mode=True, divisor_override=5
            ),
            [_x(1, 2, *size)],
        )
        for size, kernel, stride, pad in (
            ((7, 8), 3, 2, 1), ((6, 6), 3, 2, 0), ((5, 5), 2, 2, 1), ((5, 9), 3, 4, 1)
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_numbers_in_steps_lose_their_fractions_first(name: str) -> None:
    compare(MADE[name])


@pytest.mark.parametrize("name", ORDERED)
def test_order_and_running_extremes(name: str) -> None:
    compare(ORDERED[name])


COMPILED = {
    "resized": RESIZED["bicubic down"],
    "sampled": SAMPLED["bilinear zeros False 2d"],
    "bordered": SAMPLED["bilinear border False 2d"],
    "bags": BAGS["mean without -1 of special ones"],
    "lengths": OTHERS["hypot"],
    "signs": OTHERS["sign"],
    "places": SEARCHED["bucketize True"],
    "distinct": DISTINCT["unique of floats True True"],
    "cosine": OTHERS["cosine (3,) (2, 1) along -1"],
    "median": ORDERED["median"],
    "running": ORDERED["cummax"],
    "logarithms": ORDERED["logcumsumexp"],
    "pooled": ORDERED["mean pool (7, 8) 3 2 1"],
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_programs_give_what_torch_gives(name: str) -> None:
    compare(COMPILED[name], compiled=True)
