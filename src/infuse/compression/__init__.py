"""Smaller and faster graphs, with a contract on what they may lose."""

from infuse.compression.forms import BlockOptions
from infuse.compression.narrowing import Narrowing, narrow_graph
from infuse.compression.pipeline import Request, compress_graph
from infuse.compression.recovery import tune_graph
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.setting import MethodOptions
from infuse.compression.sparse import SparseOptions
from infuse.compression.static import StaticOptions
from infuse.compression.tuning import TuneOptions, tune

__all__ = [
    "BlockOptions",
    "CompressionReport",
    "LayerReport",
    "MethodOptions",
    "Narrowing",
    "Request",
    "SparseOptions",
    "StaticOptions",
    "TuneOptions",
    "compress_graph",
    "narrow_graph",
    "tune",
    "tune_graph",
]
