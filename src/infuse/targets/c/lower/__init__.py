"""How operators become calls of the kernels in kernels/plain.h."""

from infuse.targets.c.lower import (  # noqa: F401  (each registers its lowerings)
    indexing,
    lines,
    movement,
    products,
    windows,
)
