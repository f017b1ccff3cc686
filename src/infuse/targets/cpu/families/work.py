"""The work that kernels do, counted: what the cost model weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from infuse.catalog import calling_module
from infuse.targets.cpu.families.base import FILES
from infuse.targets.machine import TILE_SIDE, DotType, Machine

Work = tuple[float, ...]
"""Counts of what a call does, each with a weight of its own: arithmetic for one thread, memory for
all.
"""
_WORK: dict[tuple[str, str], Callable[[Sequence[int], Machine, int], Work]] = {}


def counts(family: str, *names: str) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Register what counts the work of candidates: a function of a call's sizes, the machine and
    threads.
    """
    module = calling_module()

    def register(function: Callable[..., Work]) -> Callable[..., Work]:
        for name in names:
            _WORK[family, name] = function
            FILES.note((family, name), module)
        return function

    return register


def candidates(family: str) -> list[str]:
    """The names that the cost model knows in a family."""
    return [name for work_family, name in FILES if work_family == family]


def families() -> list[str]:
    """All families."""
    return list(dict.fromkeys(family for family, _ in FILES))


def work(family: str, name: str, sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    """The counted work of one candidate."""
    FILES.import_for((family, name))
    return _WORK[family, name](sizes, machine, threads)


def ceil_div(a: int, b: int) -> int:
    """A / b, rounded up."""
    return -(-a // b)


FEW_ROWS: Final = {DotType.BF16: 1, DotType.U8S8: 4}
"""Rows that vectors multiply also where there are tile registers (kernels/tiles.hpp)."""
_TILED_SPEED: Final = 8.0
"""How much less time tile registers take for products of bfloat16 than vectors of 512 bits do that
multiply it twice as fast as float32: on a Granite Rapids core some 1300 GFLOP/s of 160. Of bytes
both multiply twice as many as of bfloat16.
"""


def rounded_products(products: float, rows: int, machine: Machine) -> float:
    """Products of bfloat16 with so many rows, counted as the vectors that take as long."""
    return products_in_tiles(products, rows, DotType.BF16, machine)


def split_products(products: float, machine: Machine) -> float:
    """Products of numbers that are two bfloat16 each, which tile registers add up from three."""
    return 3 * rounded_products(products, TILE_SIDE, machine)


def products_in_tiles(products: float, rows: int, unit: DotType, machine: Machine) -> float:
    """Products by a unit, counted as the vectors that take as long: tile registers take less."""
    tiled = unit in machine.tiled and rows > FEW_ROWS[unit]
    return products / _TILED_SPEED if tiled else products


def weights_read_again(
    rows: int, chunk: int, weights: int, machine: Machine, threads: int
) -> float:
    """How many weights are read again from the third level cache, for one chunk of rows after the
    other.
    """
    again = ceil_div(rows, chunk * threads) - 1
    return again * weights if 4 * weights > machine.block_bytes // 2 else 0.0
