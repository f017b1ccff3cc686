"""What generated variants of rules' own patterns found wrong once, and must be refused with the
reason.
"""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.types import tensor
from infuse.ops.core.samples import Bools, Floats
from infuse.ops.core.sizes import int64s
from infuse.passes.selection import find_rule
from infuse.rewrite import Driver, explain
from infuse.testing.patterns import graph_of

X, V, A = Variable("X"), Variable("V"), Variable("A")
THIRDS = Call("Split", ((4, 6),), {"axis": -1, "num_outputs": 3})


def f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def attention(hidden: Any, *shape: int, dtype: dtypes.DType = dtypes.float32) -> Call:
    q, kt, v = (Floats((*shape, *last), dtype=dtype) for last in ((5, 4), (4, 6), (6, 7)))
    scores = ops.matmul(q, kt) * np.asarray(0.5, dtype.numpy)
    return ops.matmul(
        ops.softmax(ops.where(Bools((5, 6)), scores, np.asarray(hidden, dtype.numpy))), v
    )


TANH = ops.tanh((X + (0.044715 * X) * (X * X)) * f32(0.7978846)) + 1.0
CENTRED = V - ops.reduce_mean(V, A, keepdims=1)

FOUND: dict[str, tuple[str, Call, str]] = {
    "a factor of one element gives a number an axis": (
        "FuseTanhGelu",
        (X * TANH) * 0.5,
        "stretches the shape",
    ),
    "so does a divisor inside the error function": (
        "FuseErfGelu",
        (X * (ops.erf(X / f32(1.4142135)) + 1.0)) * 0.5,
        "stretches the shape",
    ),
    "a scale of fewer axes than are normalized": (
        "FuseNormalizationScale",
        Call("LayerNormalization", ((2, 3, 4), f32(1, 2, 3, 4)), {"axis": 1})
        * np.ones((3, 1), np.float32),
        "stretches the scale",
    ),
    "an addend with more axes than the scale": (
        "FuseNormalizationShift",
        Call("LayerNormalization", ((2, 3, 4), f32(1, 2, 3, 4)), {"axis": 0})
        + np.ones((2, 1, 4), np.float32),
        "stretches the scale",
    ),
    "a part of a Split that nobody reads": (
        "RemoveSplitConcat",
        ops.concat(THIRDS, THIRDS[1], axis=1),
        "some parts are not joined",
    ),
    "ε below zero": (
        "FuseLayerNormalization",
        CENTRED / ops.sqrt(ops.reduce_mean(CENTRED * CENTRED, A, keepdims=1) + f32(-1)[0]),
        "ε is negative",
    ),
    "a limit that is not a number": (
        "MergeClips",
        ops.relu(ops.clip((4,), None, f32(np.nan)[0])),
        "a limit is not a number",
    ),
    "in float64 scores are not lost beside -1e9": (
        "FuseAttention",
        attention(-1e9, 2, 3, dtype=dtypes.float64),
        "what is hidden still counts",
    ),
    "no heads": ("FuseAttention", attention(-1e9, 2, 0), "there are no heads"),
    "weights for other channels": (
        "FuseBatchNormalizationConv",
        ops.conv(
            ops.batch_normalization(
                tensor(dtypes.float32, "n", "c", "h"), *(np.ones(4, np.float32),) * 4
            ),
            np.ones((2, 2, 1), np.float32),
        ),
        "the channels do not fit",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once_is_refused(name: str) -> None:
    rule, written, reason = FOUND[name]
    said = explain(find_rule(rule), graph_of(written, X=(), V=(3, 4), A=int64s(-1)))
    assert not any(e.fires for e in said)
    assert any(reason in e.reason for e in said), [e.reason for e in said]


def test_an_exponent_keeps_its_type_when_a_transpose_moves() -> None:
    powers = ops.pow(ops.transpose(Variable("x"), perm=(1, 0)), np.float32(1.1394837))
    graph = graph_of(powers, x=tensor(dtypes.bfloat16, 2, 3))
    Driver([find_rule("SinkTranspose")]).run(graph)
    exponent = graph.nodes[0].inputs[1]
    assert [n.kind for n in graph.nodes] == ["Pow", "Transpose"]
    assert exponent is not None
    assert exponent.dtype is dtypes.float32
