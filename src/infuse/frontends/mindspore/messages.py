"""MindIR's protobuf messages, as far as they say what a model computes."""

from __future__ import annotations

from typing import Any, Final

from infuse.frontends.protobuf import schema

MESSAGES: Final[dict[str, type[Any]]] = schema(
    "mind_ir",
    {
        "External": "location 1 string; offset 2 int64; length 3 int64",
        "Quantization": "quant_algo_name 1 string",
        "Tensor": "dims 1 repeated int64; data_type 2 int32; float_data 3 repeated float;"
        "int32_data 4 repeated int32; int64_data 6 repeated int64; name 7 string;"
        "raw_data 9 bytes; double_data 10 repeated double; uint64_data 11 repeated uint64;"
        "external_data 12 External; compression_type 16 int32;"
        "quant_params 17 repeated Quantization",
        "Attribute": "name 1 string; f 2 float; i 3 int64; d 4 double; s 5 bytes; t 6 Tensor;"
        "floats 8 repeated float; doubles 9 repeated double; ints 10 repeated int64;"
        "strings 11 repeated bytes; tensors 12 repeated Tensor; ref_attr_name 15 string;"
        "type 16 int32; values 17 repeated Attribute",
        "Input": "name 1 string; tensor 2 repeated Tensor; denotation 4 string;"
        "attr_info 5 Attribute",
        "Node": "input 1 repeated string; output 2 repeated string; op_type 4 string;"
        "attribute 5 repeated Attribute; domain 7 string",
        "MapTensor": "name 1 string",
        "Graph": "node 1 repeated Node; name 2 string; parameter 3 repeated Tensor;"
        "input 5 repeated Input; output 6 repeated Input; map_parameter 10 repeated MapTensor",
        "Primitive": "name 1 string; op_type 2 string; attribute 3 repeated Attribute",
        "Preprocessor": "op 1 repeated Node",
        "Model": "ir_version 1 string; producer_name 2 string; model_version 5 string;"
        "graph 7 Graph; functions 8 repeated Graph; preprocessor 9 Preprocessor;"
        "little_endian 10 bool; primitives 12 repeated Primitive",
    },
)
"""The classes of messages by name."""
