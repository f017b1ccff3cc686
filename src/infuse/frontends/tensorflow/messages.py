"""TensorFlow's protobuf messages, as far as they say what a model computes."""

from __future__ import annotations

from typing import Any, Final

from infuse.frontends.protobuf import schema

MESSAGES: Final[dict[str, type[Any]]] = schema(
    "tensorflow",
    {
        "Dim": "size 1 int64; name 2 string",
        "TensorShape": "dim 2 repeated Dim; unknown_rank 3 bool",
        "Tensor": "dtype 1 int32; tensor_shape 2 TensorShape; tensor_content 4 bytes;"
        "half_val 13 repeated int32; float_val 5 repeated float; double_val 6 repeated double;"
        "int_val 7 repeated int32; string_val 8 repeated bytes; scomplex_val 9 repeated float;"
        "int64_val 10 repeated int64; bool_val 11 repeated bool; dcomplex_val 12 repeated double;"
        "uint32_val 16 repeated uint32; uint64_val 17 repeated uint64",
        "Listed": "s 2 repeated bytes; i 3 repeated int64; f 4 repeated float; b 5 repeated bool;"
        "type 6 repeated int32; shape 7 repeated TensorShape; func 9 repeated Named",
        "Named": "name 1 string; attr 2 map Attribute",
        "Attribute": "s 2 bytes; i 3 int64; f 4 float; b 5 bool; type 6 int32;"
        "shape 7 TensorShape; tensor 8 Tensor; list 1 Listed; func 10 Named; placeholder 9 string",
        "Node": "name 1 string; op 2 string; input 3 repeated string; attr 5 map Attribute",
        "Argument": "name 1 string; type 3 int32; type_attr 4 string; number_attr 5 string;"
        "type_list_attr 6 string",
        "Signature": "name 1 string; input_arg 2 repeated Argument; output_arg 3 repeated Argument",
        "Function": "signature 1 Signature; node_def 3 repeated Node; ret 4 map string;"
        "control_ret 6 map string",
        "Library": "function 1 repeated Function",
        "Graph": "node 1 repeated Node; library 2 Library",
        "TensorInfo": "name 1 string; dtype 2 int32; tensor_shape 3 TensorShape",
        "SignatureDef": "inputs 1 map TensorInfo; outputs 2 map TensorInfo; method_name 3 string",
        "Saver": "restore_op_name 3 string",
        "MetaInfo": "tags 4 repeated string",
        "NodeList": "value 1 repeated string",
        "Collection": "node_list 1 NodeList",
        "Asset": "tensor_info 1 TensorInfo; filename 2 string",
        "MetaGraph": "meta_info_def 1 MetaInfo; graph_def 2 Graph; saver_def 3 Saver;"
        "collection_def 4 map Collection; signature_def 5 map SignatureDef;"
        "asset_file_def 6 repeated Asset",
        "SavedModel": "saved_model_schema_version 1 int64; meta_graphs 2 repeated MetaGraph",
        "BundleHeader": "num_shards 1 int32; endianness 2 int32",
        "Extent": "start 1 int64; length 2 int64",
        "Slice": "extent 1 repeated Extent",
        "BundleEntry": "dtype 1 int32; shape 2 TensorShape; shard_id 3 int32; offset 4 int64;"
        "size 5 int64; slices 7 repeated Slice",
    },
)
"""The classes of messages by name."""
