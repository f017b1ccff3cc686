"""The kernels of processors: what lowerings are registered with."""

from typing import Final

from infuse.lowering.kernel_table import TABLES

KERNELS: Final = TABLES["cpu"]
lowers = KERNELS.lowers
fuses_producers = KERNELS.fuses_producers
resolves_sizes = KERNELS.resolves_sizes
