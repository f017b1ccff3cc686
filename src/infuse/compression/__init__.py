"""Smaller and faster graphs, with a contract on what they may lose."""

from infuse.compression.forms import BlockOptions
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.static import StaticOptions

__all__ = [
    "BlockOptions",
    "CompressionReport",
    "LayerReport",
    "Request",
    "StaticOptions",
    "compress_graph",
]
