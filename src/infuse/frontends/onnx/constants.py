"""The elements of Constant nodes, which have many forms."""

from __future__ import annotations

from typing import Final

import numpy as np
from onnx import AttributeProto

from infuse.errors import ModelFileError
from infuse.frontends.onnx.attributes import value_of
from infuse.frontends.onnx.tensors import Tensors
from infuse.ir.graph import Array

_LISTS: Final = {"value_floats": np.float32, "value_ints": np.int64, "value_strings": np.object_}
_SCALARS: Final = {"value_float": np.float32, "value_int": np.int64, "value_string": np.object_}


def constant_elements(name: str, attribute: AttributeProto, tensors: Tensors) -> Array:
    """What the one attribute of a Constant node says; ModelFileError where it is none of those."""
    if name in _LISTS or name in _SCALARS:
        return np.array(
            value_of(attribute, name, {}, tensors.payloads),
            dtype=_LISTS.get(name) or _SCALARS[name],
        )
    if name == "value":
        return tensors.array(attribute.t)
    if name == "sparse_value":
        return tensors.dense(attribute.sparse_tensor)
    raise ModelFileError(f"a Constant has no attribute {name!r}")
