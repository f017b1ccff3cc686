"""Models of TensorFlow Lite (LiteRT): `.tflite` files, read without TensorFlow.

The flatbuffer is read by `wire.py`, of a schema that `schema.py` describes, rather than by the
package `tflite`: that one checks no offset against the file, so a damaged model may be read as
another one or without end, it lacks the element types since 2.18, and is a dependency of 160
modules for what is one page here.

Inputs and outputs keep the layout of the file (NHWC); operators that are NCHW here stand between
transposes, which `tracing/layout.py` moves to the border of the images and the optimizer takes
away where it can. A first size of -1 is the symbol `batch`, one for all inputs. Scaled integers
arrive as QuantizeLinear and DequantizeLinear around operators on real numbers, with the scales and
zero points of the model.
An operator that has weights of int8 and operands of float32 computes with the dequantized weights:
it does not round the other operand to int8, as TensorFlow Lite does on some processors.
"""

from __future__ import annotations

from infuse.frontends.malformed import wellformed
from infuse.frontends.tflite.model import LiteModel
from infuse.frontends.tflite.reader import LiteReader
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

_HINT = "the file was damaged, or is not a TensorFlow Lite model; fetch or convert it again"


def load(data: memoryview, where: str) -> Graph:
    """The graph of a model: that of its only signature, or of its first subgraph.

    Inputs and outputs have the names of the signature, or else of the tensors. A variable is an
    input with a default, and an output called `NAME.out`.
    """
    with wellformed(where, "the model", _HINT):
        reader = LiteReader(LiteModel(data))
        with uncollected(), numbering(reader.g.sizes.taken):
            return reader.graph()


__all__ = ["load"]
