"""Smaller and faster graphs, with a contract on what they may lose."""

from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.sparse import SparseOptions
from infuse.compression.static import StaticOptions

__all__ = [
    "CompressionReport",
    "LayerReport",
    "Request",
    "SparseOptions",
    "StaticOptions",
    "compress_graph",
]
