"""The sizes of kernel calls as named fields: each class is the twin of a struct in a kernel
header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from infuse.ir.dims import Dim, Expr

KernelSizes = tuple[Any, ...]
"""One of the classes below: fields are sizes, truth values, or such sizes again."""
Size = Any
"""A size: a `Dim` in a program, an int where its symbols have values."""
Sizes = TypeVar("Sizes", bound=type)
HEADERS: Final[dict[type, str]] = {}
"""The header that has the struct, by class."""


def declared_in(header: str) -> Callable[[Sizes], Sizes]:
    """Register a class as the twin of the struct of its name in `kernels/header`."""

    def register(sizes: Sizes) -> Sizes:
        HEADERS[sizes] = header
        return sizes

    return register


def struct_text(sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
    """C++ text of the struct, every field named."""
    names = sizes._fields  # type: ignore[attr-defined]
    fields = (
        f".{name} = {_field_text(value, size_text)}"
        for name, value in zip(names, sizes, strict=True)
    )
    return f"{type(sizes).__name__}{{{', '.join(fields)}}}"


def _field_text(value: Any, size_text: Callable[[Dim], str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return size_text(value) if isinstance(value, (int, Expr)) else struct_text(value, size_text)


@declared_in("conv.hpp")
class ConvSizes(NamedTuple):
    """A convolution of images, or of lines of height 1, channels last."""

    batch: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    out_channels: Size
    kernel_height: Size
    kernel_width: Size
    stride_height: Size
    stride_width: Size
    dilation_height: Size
    dilation_width: Size
    pad_top: Size
    pad_left: Size
    groups: Size


@declared_in("depthwise_sizes.hpp")
class DepthwiseSizes(NamedTuple):
    """A convolution with filters of one channel each; `channels` are those of its input."""

    batch: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    kernel_height: Size
    kernel_width: Size
    stride_height: Size
    stride_width: Size
    dilation_height: Size
    dilation_width: Size
    pad_top: Size
    pad_left: Size


@declared_in("chain.hpp")
class ChainSizes(NamedTuple):
    """A depthwise convolution with 1 × 1 convolutions before and after it."""

    mid: DepthwiseSizes
    in_channels: Size
    pitch: Size
    out_channels: Size


@declared_in("pool.hpp")
class PoolSizes(NamedTuple):
    """Pooling of images, channels last."""

    batch: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    kernel_height: Size
    kernel_width: Size
    stride_height: Size
    stride_width: Size
    dilation_height: Size
    dilation_width: Size
    pad_top: Size
    pad_left: Size
    pad_bottom: Size
    pad_right: Size
    count_padding: bool


@declared_in("gemm.hpp")
class GemmSizes(NamedTuple):
    """m rows of k elements, `lda` from one to the next, times a packed matrix of n columns."""

    m: Size
    n: Size
    k: Size
    lda: Size


@declared_in("matmul.hpp")
class MatmulSizes(NamedTuple):
    """Products of `batch` pairs of computed matrices with any strides."""

    batch: Size
    m: Size
    n: Size
    k: Size
    a_batch: Size
    a_row: Size
    a_col: Size
    b_batch: Size
    b_row: Size
    b_col: Size


@declared_in("nbits.hpp")
class NBitsSizes(NamedTuple):
    """A product with weights of few bits in blocks of `block`; rows of the left operand are `row`
    apart.
    """

    m: Size
    n: Size
    k: Size
    block: Size
    row: Size


@declared_in("reduce.hpp")
class ReduceSizes(NamedTuple):
    """A reduction of the middle of three axes; `cols` neighbouring results form a row."""

    outer: Size
    reduce: Size
    inner: Size
    cols: Size


@declared_in("norm.hpp")
class GroupSizes(NamedTuple):
    """A normalization over groups of channels."""

    batch: Size
    pixels: Size
    channels: Size
    groups: Size


@declared_in("attention_masks.hpp")
class AttentionSizes(NamedTuple):
    """Attention; the query i sees the keys to i + causal_offset where it is causal."""

    batch: Size
    heads: Size
    kv_heads: Size
    queries: Size
    keys: Size
    dim: Size
    value_dim: Size
    causal_offset: Size


@declared_in("rotary.hpp")
class RotarySizes(NamedTuple):
    """Heads of which `half` pairs of channels turn: neighbours where they are interleaved."""

    batch: Size
    heads: Size
    length: Size
    dim: Size
    half: Size
    interleaved: bool


@declared_in("cache.hpp")
class CacheSizes(NamedTuple):
    """A cache of `past` rows, `length` new ones, of which `stored` leave."""

    batch: Size
    heads: Size
    past: Size
    length: Size
    stored: Size
    dim: Size
