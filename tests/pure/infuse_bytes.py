"""A sample graph, and .infuse files taken apart and put together."""

import struct
import zlib

import numpy as np

from infuse import dtypes
from infuse.ir import Graph, Node, Value, constant, dims, tensor
from infuse.ir.file import MAGIC, VERSION
from tests.pure.random_graphs import Branch, Toy

HEADER = struct.Struct("<8sIIQQQQ")


def sample() -> Graph:
    """A small graph with a body, shared and unaligned constants, symbols and annotations."""
    graph = Graph("sample")
    graph.doc, graph.metadata, graph.opsets = "words", {"author": "me"}, {"": 21, "test.toys": 1}
    x = graph.add_input("x", tensor(dtypes.float32, "batch", "seq//2 + 1"))
    weight = constant(np.arange(37, dtype=np.float32), "w")
    tied = Value(tensor(dtypes.float32, 1, 37), "tied", weight.const.reshape(1, 37))  # type: ignore[union-attr]
    a, b, c = (Value(x.type, name) for name in "abc")
    node = graph.add_node(
        Node(Toy(axes=(1, 2), given=(1.5, "x")), [x, weight, None, tied], [a], name="first")
    )
    node.doc, node.metadata, node.origin = "why", {"k": "v"}, ("conv", "relu")
    body = Graph("body")
    body.add_node(Node(Toy(), [a, constant(np.array(["t"], dtype=object), "text")], [b]))
    body.add_output(b, "r")
    graph.add_node(Node(Branch(), [constant(True)], [c], subgraphs={"then": body}))
    c.content = np.array([dims.symbol("batch"), -1], dtype=object)
    c.type = tensor(dtypes.int64, 2)
    graph.add_output(c, "y")
    graph.add_output(constant(np.arange(5, dtype=np.int8), "five"), "z")
    return graph


def repack(table: bytes, weights: bytes) -> bytes:
    """A file with this table and these weights, its header as it should be."""
    start = -(-(64 + len(table)) // 64) * 64
    header = HEADER.pack(MAGIC, VERSION, zlib.crc32(table), 64, len(table), start, len(weights))
    return (header.ljust(64, b"\0") + table).ljust(start, b"\0") + weights


def parts(data: bytes) -> tuple[bytes, bytes]:
    """Table and weights of a file."""
    _, _, _, table, table_length, weights, weights_length = HEADER.unpack_from(data)
    return data[table : table + table_length], data[weights : weights + weights_length]
