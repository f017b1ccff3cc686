"""Operators without a kernel of their own, expressed in simpler ones before the graph is lowered."""

from infuse.codegen.expand import halves, images, movement, normalization, products, resampling  # noqa: F401
from infuse.codegen.expand.driver import expand

__all__ = ["expand"]
