"""Operators, each defined once, and the functions that write them into expressions
(`ops.gelu(x)`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from infuse.ir.expression import Call, const, maybe, one_of, rest
from infuse.ops import (  # noqa: F401  (each registers its operators)
    activations,
    arithmetic,
    attending,
    blocks,
    comparison,
    contraction,
    control,
    conversion,
    convolution,
    creation,
    gated,
    hashing,
    indexing,
    integers,
    losses,
    movement,
    normalization,
    padding,
    pass_through,
    pooling,
    quantization,
    ranking,
    recurrences,
    recurrent,
    reduction,
    regions,
    resampling,
    running,
    scalars,
    selection,
    sequences,
    shaping,
    signal,
    softmax_family,
    terms,
    text,
    tokens,
    unary,
    unfolding,
    vision,
    windows,
)
from infuse.ops.core import opaque  # noqa: F401  (registers what unknown operators become)
from infuse.ops.core.base import REGISTRY, Op, infer_node
from infuse.ops.core.expressions import call, snake_case
from infuse.ops.domains import (  # noqa: F401
    flexing,
    microsoft,
    microsoft_attention,
    microsoft_bits,
    microsoft_grouped,
    microsoft_integers,
    microsoft_normalization,
    microsoft_quantized,
    microsoft_rotary,
    microsoft_text,
    ml_ensembles,
    ml_features,
    ml_labels,
    ml_linear,
    ml_svm,
    ml_trees,
    training,
)
from infuse.ops.gradients import (  # noqa: F401  (each states gradients of operators)
    attention as _attention,
    contraction as _contraction,
    convolution as _convolution,
    indexing as _indexing,
    movement as _movement,
    normalization as _normalization,
    pooling as _pooling,
    quantization as _quantization,
    recurrent as _recurrent,
    reduction as _reduction,
    resampling as _resampling,
)
from infuse.ops.rows import (  # noqa: F401  (each states what operators do with rows of a batch)
    bodies as _rows_of_bodies,
    indexing as _rows_of_indices,
    layers as _rows_of_layers,
    products as _rows_of_products,
    shapes as _rows_of_shapes,
)

_FUNCTIONS: dict[str, Callable[..., Call]] = {}


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        # Operators of users may have been registered since the last look; ONNX's own come last and
        # have the name.
        _FUNCTIONS.update(
            (snake_case(op), call(op, domain)) for domain, op in sorted(REGISTRY, reverse=True)
        )
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    raise AttributeError(f"there is no operator function {name!r}")


if TYPE_CHECKING:

    def __dir__() -> list[str]: ...


__all__ = ["REGISTRY", "Call", "Op", "const", "infer_node", "maybe", "one_of", "rest"]
