"""The messages of Paddle's programs before PIR, and the numbers of their enumerations."""

from __future__ import annotations

from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.protobuf import schema
from infuse.tracing.calls import words

MESSAGES: Final = schema(
    "infuse_paddle",
    {
        "Version": "version 1 int64",
        "Scalar": "type 1 int32; b 2 bool; i 3 int64; r 4 double",
        "Attr": "name 1 string; type 2 int32; i 3 int32; f 4 float; s 5 string;"
        "ints 6 repeated int32; floats 7 repeated float; strings 8 repeated string;"
        "b 10 bool; bools 11 repeated bool; block_idx 12 int32; l 13 int64;"
        "blocks_idx 14 repeated int32; longs 15 repeated int64; float64s 16 repeated double;"
        "var_name 17 string; vars_name 18 repeated string; float64 19 double;"
        "scalar 20 Scalar; scalars 21 repeated Scalar",
        "Slot": "parameter 1 string; arguments 2 repeated string",
        "Op": "inputs 1 repeated Slot; outputs 2 repeated Slot; type 3 string;"
        "attrs 4 repeated Attr",
        "TensorDesc": "data_type 1 int32; dims 2 repeated int64",
        "DenseTensorDesc": "tensor 1 TensorDesc; lod_level 2 int32",
        "VarType": "type 1 int32; dense_tensor 3 DenseTensorDesc; tensor_array 4 DenseTensorDesc",
        "Var": "name 1 string; type 2 VarType; persistable 3 bool",
        "Block": "idx 1 int32; parent_idx 2 int32; vars 3 repeated Var; ops 4 repeated Op",
        "Program": "blocks 1 repeated Block; version 4 Version",
    },
)
ATTRIBUTES: Final = words("""i f s ints floats strings b bools block_idx l blocks_idx longs
    float64s var_name vars_name float64 scalar scalars""")
"""The field that holds an attribute, by its type."""
SCALARS: Final = {1: "b", 2: "i", 3: "r"}
"""The field that holds a scalar, by its type."""
DTYPES: Final[dict[int, DType]] = {
    0: dtypes.bool_, 1: dtypes.int16, 2: dtypes.int32, 3: dtypes.int64, 4: dtypes.float16,
    5: dtypes.float32, 6: dtypes.float64, 20: dtypes.uint8, 21: dtypes.int8, 22: dtypes.bfloat16,
    32: dtypes.float8e4m3fn, 33: dtypes.float8e5m2, 36: dtypes.uint16, 37: dtypes.uint32,
    38: dtypes.uint64,
}  # fmt: skip
"""Element types by their numbers."""
DENSE_TENSOR: Final = 7


def value_of(attribute: Any) -> Any:
    """What an attribute says, as a plain value."""
    field = ATTRIBUTES[attribute.type]
    value = getattr(attribute, field)
    if field == "scalar":
        return getattr(value, SCALARS[value.type])
    if field == "scalars":
        return [getattr(scalar, SCALARS[scalar.type]) for scalar in value]
    return value if isinstance(value, (bool, int, float, str)) else list(value)
