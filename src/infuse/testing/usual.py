"""What networks are usually made of, and whole ones: what a library of prebuilt kernels is to have
code of its own for.
"""

from __future__ import annotations

from collections.abc import Iterator

from infuse.ir.graph import Graph
from infuse.testing.blocks import block_graphs
from infuse.testing.encoders import encoder_graphs
from infuse.testing.ends import end_graphs
from infuse.testing.networks import convolutional_graphs


def usual_graphs() -> Iterator[Graph]:
    """Blocks, operators at the ends of graphs, and networks."""
    yield from block_graphs()
    yield from end_graphs()
    yield from network_graphs()


def network_graphs() -> Iterator[Graph]:
    """Networks."""
    yield from convolutional_graphs()
    yield from encoder_graphs()
