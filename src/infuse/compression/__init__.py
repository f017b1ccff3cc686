"""Smaller and faster graphs, with a contract on what they may lose."""

from infuse.compression.narrowing import Narrowing, narrow_graph
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.pruning.search import PruneRequest
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.static import StaticOptions
from infuse.compression.tuning import TuneOptions, tune

__all__ = [
    "CompressionReport",
    "LayerReport",
    "Narrowing",
    "PruneRequest",
    "Request",
    "StaticOptions",
    "TuneOptions",
    "compress_graph",
    "narrow_graph",
    "tune",
]
