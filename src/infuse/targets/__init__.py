"""What code is made for: machines as numbers, and targets by name. No other room knows a width, a
cache or a unit.
"""

from infuse.targets.base import KERNELS as KERNELS, PLAIN as PLAIN, Target as Target
from infuse.targets.machine import (
    TILE_SIDE as TILE_SIDE,
    Caches as Caches,
    DotType as DotType,
    DotUnit as DotUnit,
    Machine as Machine,
)
