"""Faults of runtimes: seen in a file that shows them and not in its twin, and real where a version
is installed in which they were seen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.doctor.examine import installed, numbers, table

Array = np.ndarray[Any, Any]
F = np.float32
REFUSED = "refused"
ML, MS = "ai.onnx.ml", "com.microsoft"
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Sample:
    """A model of the nodes `shown`, whose fault the node of `at` shows, its right result for
    `feeds` (None where a script of findings/ runs it), and `twin`: the nodes of a model without the
    fault.
    """

    fault: str
    shown: Sequence[onnx.NodeProto]
    feeds: Mapping[str, Array]
    right: Array | None
    twin: Sequence[onnx.NodeProto]
    constants: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 20
    at: str = "y"
    twin_opset: int | None = None
    producer: str = ""

    def model(self, twin: bool = False) -> onnx.ModelProto:
        nodes = self.twin if twin else self.shown
        opset = self.twin_opset if twin and self.twin_opset else self.opset
        used = {name for node in nodes for name in node.input}
        dtypes = {np.dtype(object): TensorProto.STRING}
        inputs = [
            helper.make_tensor_value_info(
                n, dtypes.get(x.dtype) or helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
            )
            for n, x in self.feeds.items()
        ]
        kind = TensorProto.FLOAT
        if self.right is not None:
            kind = helper.np_dtype_to_tensor_dtype(self.right.dtype)
        return helper.make_model(
            helper.make_graph(
                nodes,
                "g",
                inputs,
                [helper.make_tensor_value_info("y", kind, None)],
                [
                    numpy_helper.from_array(np.asarray(c), n)
                    for n, c in self.constants.items()
                    if n in used
                ],
            ),
            opset_imports=[
                helper.make_opsetid("", opset),
                helper.make_opsetid(ML, 3),
                helper.make_opsetid(MS, 1),
            ],
            ir_version=10,
            producer_name=self.producer,
        )


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    domain, _, short = kind.rpartition(".")
    names = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(
        short, names, outputs.split(), outputs.rsplit(maxsplit=1)[-1], domain=domain, **attributes
    )


def quantized(*scales: str) -> list[onnx.NodeProto]:
    nodes, value = [], "x"
    for number, scale in enumerate(scales):
        result = "y" if number == len(scales) - 1 else f"d{number}"
        nodes.append(node("QuantizeLinear", f"{value} {scale} z", f"q{number}"))
        nodes.append(node("DequantizeLinear", f"q{number} {scale} z", result))
        value = result
    return nodes


def rounded(x: Array, *scales: float) -> Array:
    for scale in scales:
        x = (np.clip(np.rint(x / F(scale)), -128, 127) * F(scale)).astype(F)
    return x


def trees(kind: str, votes: Sequence[tuple[int, int, float]], **attributes: Any) -> onnx.NodeProto:
    prefix = "target" if kind == "Regressor" else "class"
    leaves, ids, weights = zip(*votes)
    attributes |= {
        f"{prefix}_treeids": [0] * len(votes),
        f"{prefix}_nodeids": leaves,
        f"{prefix}_ids": ids,
        f"{prefix}_weights": weights,
    }
    return node(
        f"{ML}.TreeEnsemble{kind}",
        "x",
        "y" if kind == "Regressor" else "label y",
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        **attributes,
    )


def softmax(x: Array) -> Array:
    e = np.exp(np.asarray(x, np.float64) - np.max(x, axis=-1, keepdims=True))
    result: Array = (e / e.sum(-1, keepdims=True)).astype(F)
    return result


def attended(q: Array, k: Array, v: Array, heads: int) -> Array:
    split = [t.reshape(1, t.shape[1], heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v)]
    scores = split[0] @ split[1].transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1] / heads)
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    result: Array = softmax(np.where(mask, scores, -np.inf)) @ split[2]
    return result.transpose(0, 2, 1, 3).reshape(q.shape)


ONE = np.array([[0.3]], F)
LINE = np.linspace(-1, 1, 9, dtype=F)
CODES = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
WITH_NAN = np.array([3, np.nan, 1, 2, 1, 5], F)
Q, K, V = (RNG.standard_normal((1, n, 8)).astype(F) for n in (2, 4, 4))
LOGITS = np.array([-30.0, 0.0, 2.0], F)
BYTES = np.array([[255, 0, 0], [130, 128, 126]], np.uint8)
_BYTES_RIGHT = np.rint(softmax((BYTES.astype(F) - 128) * F(0.05)) / np.float64(F(0.011)))
WEIGHTS = {
    "w": RNG.integers(0, 256, (32, 8), np.uint8),
    "half": np.full((1, 8), 0.25, np.float16),
    "single": np.full((1, 8), 0.25, F),
    "zero": np.full((1, 8), 128, np.uint8),
}
ROWS = RNG.standard_normal((2, 32)).astype(F)
_PRODUCT = (ROWS.astype(np.float64) @ ((WEIGHTS["w"].astype(F) - 128) * 0.25)).astype(F)
_BLOCKS = {"axis": 0, "block_size": 32}
CHANNELS = np.array([1, 10, 100, 1000], F).reshape(1, 4, 1, 1)
_SQUARES = CHANNELS.astype(np.float64).ravel() ** 2


def windows(before: int, after: int, size: int) -> Array:
    sums = [_SQUARES[max(0, c - before) : c + after + 1].sum() for c in range(4)]
    result = CHANNELS.ravel() / (1 + np.array(sums) / size)
    return result.astype(F).reshape(CHANNELS.shape)


def causal(keys: str) -> list[onnx.NodeProto]:
    options = {"num_heads": 2, "unidirectional": 1}
    return [node(f"{MS}.MultiHeadAttention", f"q {keys} {keys}", **options)]


def moved(zero: str) -> list[onnx.NodeProto]:
    return [
        node("DequantizeLinear", f"x scale{zero}", "d"),
        node("Transpose", "d", "t", perm=[1, 0]),
        node("Add", "t one"),
    ]


_MOVES = {"scale": np.array(0.5, F), "zero": np.array(0, np.int8), "one": np.array(1, F)}
_MOVED = (CODES.T * F(0.5) + 1).astype(F)
_PAIRS = {"s1": np.array(0.3, F), "s2": np.array(0.07, F), "z": np.array(0, np.int8)}
_LINEAR = {"classlabels_ints": [0, 1], "post_transform": "SOFTMAX"}
_IMAGE = RNG.standard_normal((1, 1, 2, 4)).astype(F)
_LSTM = {
    "w": RNG.standard_normal((1, 8, 3)).astype(F),
    "r": RNG.standard_normal((1, 8, 2)).astype(F),
    "p": np.full((1, 6), 2.0, F),
}
_STEPS = RNG.standard_normal((4, 1, 3)).astype(F)


def lstm(x: Array) -> Array:
    """The last state of an LSTM with peepholes, by its equations."""
    w, r, p = (_LSTM[name][0].astype(np.float64) for name in "wrp")
    h = c = np.zeros(2)

    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    for step in x[:, 0]:
        i, o, f, g = np.split(w @ step + r @ h, 4)
        f = sigmoid(f + p[4:6] * c)
        c = f * c + sigmoid(i + p[:2] * c) * np.tanh(g)
        h = sigmoid(o + p[2:4] * c) * np.tanh(c)
    result: Array = h.astype(F).reshape(1, 1, 2)
    return result


_WORDS: dict[str, Any] = {
    "mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
    "ngram_counts": [0], "ngram_indexes": [0], "pool_int64s": [1], "weights": [2.0],
}  # fmt: skip

SAMPLES = [
    Sample(
        "onnxruntime-binary-classifiers-skip-softmax",
        [trees("Classifier", [(1, 0, 2.0), (2, 0, 3.0)], classlabels_int64s=[0, 1],
               post_transform="SOFTMAX")],
        {"x": ONE},
        softmax(np.array([[-2.0, 2.0]])),
        [trees("Classifier", [(1, 0, 2.0), (2, 1, 3.0)], classlabels_int64s=[0, 1],
               post_transform="SOFTMAX")],
    ),
    Sample(
        "onnxruntime-binary-classifiers-skip-softmax",
        [node(f"{ML}.LinearClassifier", "x", "label y", coefficients=[2.0], intercepts=[0.5],
              **_LINEAR)],
        {"x": ONE},
        softmax(np.array([[-1.1, 1.1]])),
        [node(f"{ML}.LinearClassifier", "x", "label y", coefficients=[2.0, -2.0],
              intercepts=[0.5, 0.5], **_LINEAR)],
    ),
    Sample(
        "onnxruntime-tree-regressor-drops-base-value",
        [trees("Regressor", [(1, 0, 1.0), (2, 1, 2.0)], n_targets=2, base_values=[10.0, 20.0])],
        {"x": ONE},
        np.array([[11, 20]], F),
        [trees("Regressor", [(1, 0, 1.0), (2, 0, 2.0)], n_targets=1, base_values=[10.0])],
    ),
    Sample(
        "onnxruntime-optimizer-joins-two-quantizations",
        quantized("s1", "s2"),
        {"x": LINE},
        rounded(LINE, 0.3, 0.07),
        quantized("s1", "s1"),
        _PAIRS,
        at="q1",
    ),
    Sample(
        "onnxruntime-causal-mask-opens-for-last-query",
        causal("k"),
        {"q": Q, "k": K},
        attended(Q, K, K, 2),
        causal("q"),
    ),
    Sample(
        "onnxruntime-scales-without-zero-points-clip-at-zero",
        moved(""),
        {"x": CODES},
        _MOVED,
        moved(" zero"),
        _MOVES,
        at="d",
    ),
    Sample(
        "onnxruntime-refuses-moved-int8-from-opset-21",
        moved(" zero"),
        {"x": CODES},
        _MOVED,
        moved(""),
        _MOVES,
        opset=21,
        at="d",
    ),
    Sample(
        "onnxruntime-softmax-of-bytes-divides-by-a-whole-number",
        [node(f"{MS}.QLinearSoftmax", "x xs xz ys yz", axis=1, opset=13)],
        {"x": BYTES},
        _BYTES_RIGHT.astype(np.uint8),
        [node(f"{MS}.QLinearSoftmax", "x xs xz whole yz", axis=1, opset=13)],
        {
            "xs": np.array(0.05, F),
            "xz": np.array(128, np.uint8),
            "ys": np.array(0.011, F),
            "yz": np.array(0, np.uint8),
            "whole": np.array(1 / 256, F),
        },
    ),
    Sample(
        "onnxruntime-refuses-weights-with-half-scales",
        [node("DequantizeLinear", "w half zero", "d", output_dtype=1, **_BLOCKS),
         node("MatMul", "x d")],
        {"x": ROWS},
        _PRODUCT,
        [node("DequantizeLinear", "w single zero", "d", **_BLOCKS), node("MatMul", "x d")],
        WEIGHTS,
        opset=23,
        at="d",
    ),
    Sample(
        "onnxruntime-level-rounds-activations-to-bytes",
        [node("DequantizeLinear", "w single zero", "d", **_BLOCKS), node("MatMul", "x d")],
        {"x": ROWS},
        _PRODUCT,
        [node("DequantizeLinear", "w single zero", "d", **_BLOCKS), node("Mul", "d d")],
        WEIGHTS,
        opset=21,
        at="d",
    ),
    Sample(
        "onnxruntime-log-of-sigmoid-is-infinite",
        [node("Sigmoid", "x", "s"), node("Log", "s")],
        {"x": LOGITS},
        (-np.logaddexp(0, -LOGITS.astype(np.float64))).astype(F),
        [node("Sigmoid", "x", "s"), node("Exp", "s")],
        at="s",
    ),
    Sample(
        "onnxruntime-refuses-normalization-over-even-windows",
        [node("LRN", "x", size=2, alpha=1.0, beta=1.0)],
        {"x": CHANNELS},
        windows(0, 1, 2),
        [node("LRN", "x", size=3, alpha=1.0, beta=1.0)],
    ),
    Sample(
        "onnxruntime-split-to-sequence-drops-an-axis",
        [node("SplitToSequence", "x one", "q", keepdims=0), node("SequenceAt", "q first")],
        {"x": CODES.astype(F)},
        CODES[:1].astype(F),
        [node("SplitToSequence", "x one", "q", keepdims=1), node("SequenceAt", "q first")],
        {"one": np.array(1), "first": np.array(0)},
        at="q",
    ),
    Sample(
        "onnxruntime-sums-of-int64-are-computed-in-float64",
        [node("ReduceSum", "x", keepdims=0)],
        {"x": np.array([2**53, 1])},
        np.array(2**53 + 1),
        [node("Shape", "x", "s"), node("ReduceSum", "s", keepdims=0)],
    ),
    Sample(
        "onnxruntime-unique-loses-numbers-beside-nan",
        [node("Unique", "x")],
        {"x": WITH_NAN},
        np.array([1, 2, 3, 5, np.nan], F),
        [node("Cast", "x", "i", to=TensorProto.INT32), node("Unique", "i", "u"),
         node("Cast", "u", to=TensorProto.FLOAT)],
    ),
    Sample(
        "onnxruntime-maximum-depends-on-where-nan-stands",
        [node("ReduceMax", "x", keepdims=0)],
        {"x": WITH_NAN},
        np.array(np.nan, F),
        [node("ReduceSum", "x", keepdims=0)],
    ),
    Sample(
        "openvino-resize-ignores-aspect-policy",
        [node("Resize", "x - - sizes", keep_aspect_ratio_policy="not_larger", mode="nearest",
              axes=[2, 3])],
        {"x": _IMAGE},
        _IMAGE.repeat(2, 2).repeat(2, 3),
        [node("Resize", "x - - sizes", mode="nearest", axes=[2, 3])],
        {"sizes": np.array([8, 8])},
    ),
    Sample(
        "openvino-lstm-ignores-peepholes",
        [node("LSTM", "x w r - - - - p", "all y", hidden_size=2)],
        {"x": _STEPS},
        lstm(_STEPS),
        [node("LSTM", "x w r", "all y", hidden_size=2)],
        _LSTM,
    ),
    Sample(
        "openvino-normalizes-even-windows-elsewhere",
        [node("LRN", "x", size=2, alpha=1.0, beta=1.0)],
        {"x": CHANNELS},
        windows(0, 1, 2),
        [node("LRN", "x", size=3, alpha=1.0, beta=1.0)],
    ),
    Sample(
        "openvino-drops-16-bit-quantization",
        [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "d"),
         node("MatMul", "d eye")],
        {"x": np.array([[-2.0, -0.5, 0.25, 1.5]], F)},
        np.array([[0, 0, 0.25, 1]], F),
        [node("QuantizeLinear", "x wide byte", "q"), node("DequantizeLinear", "q wide byte", "d"),
         node("MatMul", "d eye")],
        {
            "scale": np.array(1 / 65535, F),
            "zero": np.array(0, np.uint16),
            "wide": np.array(1 / 255, F),
            "byte": np.array(0, np.uint8),
            "eye": np.eye(4, dtype=F),
        },
        opset=21,
        at="q",
    ),
    Sample(
        "openvino-64-bits-are-computed-in-32",
        [node("Add", "x x")],
        {"x": np.array([3_000_000_000])},
        np.array([6_000_000_000]),
        [node("Shape", "x", "s"), node("Add", "s s")],
    ),
    Sample(
        "openvino-compares-integers-as-floats",
        [node("Equal", "x number")],
        {"x": np.array([16_777_217], np.int32)},
        np.array([False]),
        [node("Cast", "x", "b", to=TensorProto.BOOL), node("Cast", "b", "i", to=TensorProto.INT32),
         node("Equal", "i number")],
        {"number": np.array(16_777_216, np.int32)},
    ),
    Sample(
        "openvino-short-integers-saturate",
        [node("Add", "x x")],
        {"x": np.array([200], np.uint8)},
        np.array([144], np.uint8),
        [node("Cast", "x", "i", to=TensorProto.INT32), node("Add", "i i", "s"),
         node("Cast", "s", to=TensorProto.UINT8)],
    ),
    Sample(
        "onnxruntime-attention-with-a-past-needs-present-outputs",
        [node(f"{MS}.MultiHeadAttention", "q q q - - - past past", num_heads=2)],
        {"q": Q, "past": np.zeros((1, 2, 3, 4), F)},
        None,
        [node(f"{MS}.MultiHeadAttention", "q q q - - - past past", "a b y", num_heads=2)],
    ),
    Sample(
        "onnxruntime-group-normalization-far-from-zero-is-nan",
        [node("GroupNormalization", "x s s", num_groups=2)],
        {"x": CHANNELS},
        None,
        [node("InstanceNormalization", "x s s")],
        {"s": np.ones(4, F)},
        opset=21,
    ),
    Sample(
        "onnxruntime-time-warping-of-equal-costs-goes-around-the-corner",
        [node(f"{MS}.DynamicTimeWarping", "x", "p"), node("Cast", "p", to=TensorProto.FLOAT)],
        {"x": CODES.astype(F)},
        None,
        [node("Neg", "x")],
        at="p",
    ),
    *(
        Sample(
            "onnxscript-optimizer-drops-small-additions",
            [node(kind, "x small")],
            {"x": LINE},
            None,
            [node(kind, "x same")],
            {"small": np.array(small, F), "same": np.array(same, F)},
        )
        for kind, small, same in (
            ("Add", 1e-8, 1e-7), ("Sub", -1e-9, 0), ("Mul", 1.000009, 1), ("Div", 1.000009, 1.1),
        )
    ),
    Sample(
        "onnxruntime-quantizer-divides-by-beta-of-gemm",
        [node("Gemm", "x x c", transB=1, beta=3.0)],
        {"x": LINE.reshape(3, 3)},
        None,
        [node("Gemm", "x x c", transB=1)],
        {"c": np.ones(3, F)},
    ),
    Sample(
        "onnxruntime-quantizer-flattens-masked-attention",
        [node("Add", "x mask", "m"), node("Softmax", "m")],
        {"x": LINE.reshape(3, 3)},
        None,
        [node("Add", "x bias", "m"), node("Softmax", "m")],
        {"mask": np.array([0, 0, -1e4], F), "bias": np.array([0, 0, 4], F)},
    ),
    Sample(
        "onnxruntime-quantizer-flattens-masked-attention",
        [node("Sub", "one x", "i"), node("Mul", "i least", "m"), node("Add", "x m", "s"),
         node("Softmax", "s")],
        {"x": LINE.reshape(3, 3)},
        None,
        [node("Sub", "one x", "i"), node("Mul", "i one", "m"), node("Add", "x m", "s"),
         node("Softmax", "s")],
        {"one": np.array(1, F), "least": np.array(np.finfo(F).min, F)},
    ),
    Sample(
        "onnx-version-converter-keeps-old-operators-by-name-alone",
        [node("Hardmax", "x")],
        {"x": LINE.reshape(3, 3)},
        None,
        [node("Hardmax", "x")],
        opset=12,
        twin_opset=13,
    ),
    Sample(
        "onnx-version-converter-keeps-old-operators-by-name-alone",
        [node("Resize", "x scales")],
        {"x": _IMAGE},
        None,
        [node("Softmax", "x")],
        {"scales": np.array([1, 1, 2, 3], F)},
        opset=10,
    ),
    Sample(
        "onnx-version-converter-keeps-old-operators-by-name-alone",
        [node("Upsample", "x scales", mode="linear")],
        {"x": _IMAGE},
        None,
        [node("Upsample", "x scales", mode="nearest")],
        {"scales": np.array([1, 1, 2, 3], F)},
        opset=9,
    ),
    Sample(
        "skl2onnx-exports-sublinear-term-frequencies-as-other-numbers",
        [node("Cast", "x", "i", to=TensorProto.INT64), node("TfIdfVectorizer", "i", "t", **_WORDS),
         node("Log", "t")],
        {"x": LINE},
        None,
        [node("Cast", "x", "i", to=TensorProto.INT64), node("TfIdfVectorizer", "i", **_WORDS)],
        producer="skl2onnx",
    ),
    *(
        Sample(
            f"mnn-converter-overlooks-{kind.lower()}",
            [node(kind, inputs, **attributes)],
            {"x": _IMAGE} if kind == "Resize" else {"x": LINE.reshape(3, 3)},
            None,
            [node(kind, inputs, **twin) if twin is not None else node("Neg", "x")],
            {"zeros": np.zeros((3, 3), np.int64), "scales": np.array([1, 1, 2, 3], F)},
        )
        for kind, inputs, attributes, twin in (
            ("Mod", "x x", {"fmod": 1}, None),
            ("ArgMax", "x", {"select_last_index": 1}, {"select_last_index": 0}),
            ("ArgMin", "x", {"select_last_index": 1}, {}),
            ("ScatterElements", "x zeros x", {"reduction": "add"}, {}),
            ("Resize", "x - scales", {}, {"nearest_mode": "floor"}),
            ("Round", "x", {}, None),
            ("Shrink", "x", {}, None),
            ("Einsum", "x", {"equation": "ii -> i"}, {"equation": "ij->i"}),
        )
    ),
]  # fmt: skip
_NAMES = [f"{sample.fault}-{number}" for number, sample in enumerate(SAMPLES)]
RUN = [sample for sample in SAMPLES if sample.right is not None]
FAULTS = {fault.name: fault for fault in table()}


def in_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return REFUSED
    return session.run(["y"], dict(feeds))[0]


def in_openvino(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Any:
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", hint)
    return compiled(dict(feeds))["y"]


RUNTIMES: dict[str, Callable[[onnx.ModelProto, Mapping[str, Array]], Any]] = {
    "onnxruntime": in_onnxruntime,
    "openvino": in_openvino,
}


def equal(result: Any, right: Array | None) -> bool:
    assert right is not None
    if isinstance(result, str) or np.shape(result) != right.shape:
        return False
    if right.dtype.kind in "iub":
        return bool(np.array_equal(result, right))
    return bool(np.allclose(result, right, rtol=1e-4, atol=1e-5, equal_nan=True))


@pytest.mark.parametrize("sample", SAMPLES, ids=_NAMES)
def test_a_fault_is_seen_at_its_node(sample: Sample, tmp_path: Path) -> None:
    onnx.save(sample.model(), tmp_path / "m.onnx")
    by = FAULTS[sample.fault].by
    seen = infuse.diagnose(tmp_path / "m.onnx", [by]).diagnostics
    assert sample.at in [d.node for d in seen if d.fault.name == sample.fault]


@pytest.mark.parametrize("sample", SAMPLES, ids=_NAMES)
def test_a_twin_without_the_fault_is_clean(sample: Sample, tmp_path: Path) -> None:
    onnx.save(sample.model(twin=True), tmp_path / "m.onnx")
    by = FAULTS[sample.fault].by
    seen = infuse.diagnose(tmp_path / "m.onnx", [by]).diagnostics
    assert sample.fault not in [d.fault.name for d in seen]


@pytest.mark.parametrize("sample", RUN, ids=[sample.fault for sample in RUN])
def test_the_runtime_really_differs(sample: Sample) -> None:
    fault = FAULTS[sample.fault]
    version = installed(fault.by)
    if version is None or numbers(version) < numbers(fault.versions[0]):
        pytest.skip(f"{fault.by} {version} is older than {fault.versions[0]}")
    result = RUNTIMES[fault.by](sample.model(), sample.feeds)
    is_refused = isinstance(result, str)
    assert is_refused == ("refuses" in fault.name)
    assert not equal(result, sample.right), f"right in {fault.by} {version}: state that it is gone"


@pytest.mark.parametrize("sample", RUN, ids=[sample.fault for sample in RUN])
def test_infuse_is_right(sample: Sample, tmp_path: Path) -> None:
    from infuse.ops.core.evaluate import evaluate

    onnx.save(sample.model(), tmp_path / "m.onnx")
    graph = infuse.load(tmp_path / "m.onnx")
    assert equal(evaluate(graph, sample.feeds)["y"], sample.right)


def test_every_fault_of_a_runtime_or_a_tool_has_a_sample() -> None:
    shown = {sample.fault for sample in SAMPLES} | {_OF_EMPTY}
    others = ("torch.onnx", "tflite.converter", "litert")
    assert shown == {name for name, fault in FAULTS.items() if fault.by not in others}


_OF_EMPTY = "onnxruntime-negative-axes-of-empty-tensors-are-ignored"


@pytest.mark.parametrize(
    ("name", "axis", "seen"),
    [
        ("onnxruntime==1.31.1", -1, True),
        ("onnxruntime==1.31.1", 1, False),
        ("onnxruntime==1.32.0", -1, False),
        ("onnxruntime==2.0", -1, False),
    ],
)
def test_a_fault_that_is_gone_belongs_to_old_versions(
    name: str, axis: int, seen: bool, tmp_path: Path
) -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    nodes = [node("ReduceMax", "x axes")]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(np.array([axis]), "axes")]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "m.onnx",
    )
    faults = [d.fault.name for d in infuse.diagnose(tmp_path / "m.onnx", [name]).notes]
    assert (_OF_EMPTY in faults) is seen
