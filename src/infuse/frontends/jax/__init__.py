"""Functions of JAX: what a function does is traced to a jaxpr, whose primitives become nodes.

JAX is imported when a function is traced only; the tables know primitives by name.
"""

from __future__ import annotations

from infuse.frontends.jax.live import from_jax

__all__ = ["from_jax"]
