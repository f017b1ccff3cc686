"""The weights of a file that is about to be written, in their coded forms."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from infuse import dtypes
from infuse.ir.coding.clusters import check_bits, clustered
from infuse.ir.coding.narrow import stored_bytes
from infuse.ir.coding.weights import encoded
from infuse.ir.flat import records as r
from infuse.ir.graph import Array

FEWEST = 1024
"""Elements from which a weight is clustered: less saves nothing that counts."""
_FLOATS = frozenset(d.numpy for d in dtypes.ALL if d.is_float and d.bits >= 16)


def coded(
    net: r.Net, arrays: Sequence[Array], cluster_bits: int | None
) -> tuple[r.Net, list[Array]]:
    """The records of a file and the bytes of its spans, where each weight is coded that becomes
    smaller, and equal weights are stored once.

    With `cluster_bits`, floats of two and more axes are replaced by the means of 2^bits clusters
    first; weights with elements that are not finite are left as they are. OptionError for another
    number of bits than 2 to 8.
    """
    if cluster_bits is not None:
        check_bits(cluster_bits)

    def form(array: Array) -> tuple[bool, Array]:
        if cluster_bits is not None and _is_clustered(array):
            array = clustered(array, cluster_bits)
        code = encoded(array)
        if code is None:
            return False, stored_bytes(array)
        return True, np.frombuffer(code, np.uint8)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        forms = list(threads.map(form, arrays))
    numbers: dict[tuple[bool, bytes], int] = {}
    stored: list[Array] = []
    places = []
    for is_coded, content in forms:
        key = is_coded, hashlib.sha256(content.data).digest()
        places.append(numbers.setdefault(key, len(stored)))
        if places[-1] == len(stored):
            stored.append(content)
    tensors = [
        tensor._replace(weight=places[tensor.weight - 1] + 1) if tensor.weight else tensor
        for tensor in net.tensors
    ]
    marks = sorted(number for (is_coded, _), number in numbers.items() if is_coded)
    return net._replace(tensors=tensors, weights=_spans(stored), coded=marks), stored


def _is_clustered(array: Array) -> bool:
    return (
        array.dtype in _FLOATS
        and array.ndim >= 2
        and array.size >= FEWEST
        and bool(np.isfinite(array).all())
    )


def _spans(contents: Sequence[Array]) -> list[r.Span]:
    """Places of contents behind each other, aligned."""
    spans, end = [], 0
    for content in contents:
        spans.append(r.Span(end, content.nbytes))
        end += -(-content.nbytes // r.ALIGNMENT) * r.ALIGNMENT
    return spans
