"""Smaller and faster graphs, with a contract on what they may lose."""

from infuse.compression.forms import BlockOptions
from infuse.compression.methods import MethodOptions
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.sparse import SparseOptions
from infuse.compression.static import StaticOptions

__all__ = [
    "BlockOptions",
    "CompressionReport",
    "LayerReport",
    "MethodOptions",
    "Request",
    "SparseOptions",
    "StaticOptions",
    "compress_graph",
]
