"""What methods work with, and the plans that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from infuse.compression.forms import BlockOptions, Form
from infuse.compression.gates import Gates
from infuse.compression.layers import Embedding, Layer
from infuse.compression.observation import Observations, observe
from infuse.compression.ranges import Scale
from infuse.compression.scratch import ScratchArrays
from infuse.compression.sparse import SparseOptions
from infuse.compression.static import StaticOptions
from infuse.data.dataset import Feeds, spread
from infuse.errors import OptionError
from infuse.ir.graph import Graph, Value
from infuse.options.methods import FewBits, Int8, Method, Sparse, SparseInt8
from infuse.profiling.progress import Progress

CALIBRATION_RUNS = 300
"""Runs that tell ranges at most."""


@dataclass
class Plan:
    """The forms that layers could have, one each, and what is to be said of them."""

    forms: dict[Layer, Form] = field(default_factory=dict)
    between: dict[Value, Scale] = field(default_factory=dict)
    calibrators: dict[Layer, str] = field(default_factory=dict)
    errors: dict[Layer, float] = field(default_factory=dict)
    """The power of the error of a layer's result over that of the result."""
    refused: dict[Layer, str] = field(default_factory=dict)
    limit: float = np.inf
    """The largest of `errors` with which a layer has its form where no contract bounds the loss."""
    family: str = ""
    """Plans of one family differ in how far they go: what a layer changes in the outputs is
    measured for one of them, and in proportion to `errors` for the others."""


@dataclass(frozen=True)
class MethodOptions:
    """What is asked of each method."""

    static: StaticOptions = field(default_factory=StaticOptions)
    blocks: BlockOptions = field(default_factory=BlockOptions)
    sparse: SparseOptions = field(default_factory=SparseOptions)
    equalize: bool = True
    """Whether scales of channels are moved between layers where they err less for it."""
    rotate: bool = True
    """Whether channels are rotated where layers err less for it."""

    @classmethod
    def of(cls, method: Method, equalize: bool = True, rotate: bool = True) -> MethodOptions:
        """What a method is asked for. OptionError for what means nothing."""
        static, blocks, sparse = StaticOptions(), BlockOptions(), SparseOptions()
        if isinstance(method, Int8):
            static = StaticOptions(method.calibrator, bias_correction=method.bias_correction)
        if isinstance(method, FewBits):
            is_foreign = method.runtime == "onnxruntime"
            blocks = BlockOptions(is_foreign, method.rounded_activations)
        if isinstance(method, Sparse | SparseInt8):
            sparse = SparseOptions.parse(str(method.sparsity), method.block)
        return cls(static, blocks, sparse, equalize, rotate)

    @classmethod
    def joined(cls, several: Sequence[MethodOptions]) -> MethodOptions:
        """Those of several methods: of each part what the first one asks for that asks for it."""
        usual = cls()
        changes: dict[str, Any] = {}
        for options in several:
            for each in fields(cls):
                own = getattr(options, each.name)
                if own != getattr(usual, each.name):
                    changes.setdefault(each.name, own)
        return cls(**changes)


@dataclass(frozen=True)
class Setting:
    """What methods work with."""

    graph: Graph
    layers: Sequence[Layer]
    embeddings: Sequence[Embedding]
    recurrent: Sequence[Gates]
    runs: Sequence[Feeds] | None
    options: MethodOptions
    threads: int | None
    seed: int
    progress: Progress | None
    scratch: ScratchArrays = field(default_factory=ScratchArrays)
    """What holds the weights of forms and of graphs that were made on the way."""

    def observed(self, values: Sequence[Value] = (), takes_moments: bool = False) -> Observations:
        """What layers see on the data. OptionError where there are none."""
        if self.runs is None:
            raise OptionError(
                "static quantization needs data that tell the ranges of activations",
                hint="give some (--data, data=), or quantize dynamically (--int8-dynamic)",
            )
        return observe(
            self.graph,
            self.layers,
            values,
            spread(self.runs, CALIBRATION_RUNS),
            takes_moments=takes_moments,
            threads=self.threads,
            seed=self.seed,
            progress=self.progress,
        )
