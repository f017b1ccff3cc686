"""Operators without a kernel of their own, expressed in simpler ones before the graph is
lowered.
"""

from infuse.lowering.expand.driver import expand

__all__ = ["expand"]
