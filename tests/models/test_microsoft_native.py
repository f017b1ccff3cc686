"""Networks in ONNX Runtime's own operators, compiled, beside ONNX Runtime on the same file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

import infuse
from benchmarks.torchvision_schemas import make_importable
from infuse.errors import RuntimeFailure
from tests.models.microsoft_networks import (
    FLOAT,
    HEADS,
    INNER,
    INT,
    OWN,
    WIDTH,
    WORDS,
    Network,
    Sizes,
    bert,
    feeds,
    gpt2,
    llama,
)
from tests.models.onnx_tools import assert_close, session

TOLERANCE = 2e-5


def check(
    proto: ModelProto, runs: Sequence[tuple[Mapping[str, int], Any]], needed: set[str]
) -> None:
    """Compile the file as it stands, and optimized; compare all outputs for these sizes and
    masks.
    """
    assert needed <= {n.op_type for n in proto.graph.node if n.domain == OWN}
    peer = session(proto)
    names = [v.name for v in proto.graph.output]
    for level in ("none", "all"):
        graph = infuse.optimize(infuse.load(proto), level)
        with infuse.compile(graph, infuse.CompileOptions(threads=2)) as model:
            assert not getattr(model, "host_steps", ())
            for sizes, mask in runs:
                given = feeds(proto, sizes, mask)
                found = model.run(given)
                assert_close([found[n] for n in names], peer.run(None, given), TOLERANCE)


def test_encoder() -> None:
    """Masks that hide the end of a row."""
    runs = [
        ({"batch": 2, "length": 5}, [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]),
        ({"batch": 1, "length": 9}, None),
        ({"batch": 3, "length": 1}, None),
    ]
    check(
        bert(),
        runs,
        {"Attention", "EmbedLayerNormalization", "SkipLayerNormalization", "BiasGelu", "FusedGemm"},
    )


def test_decoder_with_a_past() -> None:
    """A prompt, further words one by one and several at once, words that do not count."""
    runs = [
        ({"batch": 2, "length": 4, "past": 0, "total": 4}, None),
        ({"batch": 2, "length": 1, "past": 6, "total": 7}, [[0, 0, 1, 1, 1, 1, 1], [1] * 7]),
        ({"batch": 1, "length": 3, "past": 5, "total": 8}, None),
    ]
    check(gpt2(), runs, {"Attention", "SkipLayerNormalization", "FastGelu", "FusedMatMul"})


@pytest.mark.parametrize(
    ("packed", "turned", "window"),
    [(False, False, -1), (True, False, -1), (False, True, 3)],
    ids=["turns", "packed", "turned before, windowed"],
)
def test_decoder_with_shared_heads(packed: bool, turned: bool, window: int) -> None:
    """Prompts of different lengths, padded at the end, and one word at a time."""
    runs = [
        ({"batch": 2, "length": 4, "past": 0, "total": 4}, None),
        ({"batch": 1, "length": 1, "past": 6, "total": 7}, None),
        ({"batch": 2, "length": 1, "past": 6, "total": 7}, None),
    ]
    needed = {"GroupQueryAttention", "SkipSimplifiedLayerNormalization", "QuickGelu"}
    check(llama(packed, turned, window), runs, needed)


def test_keys_outside_of_the_cache_are_refused() -> None:
    """More keys than are stored."""
    net = Network(4)
    parts = ["q", "k", "v", "pk", "pv", "last", "total"]
    net.add("GroupQueryAttention", *parts, outputs=["y", "nk", "nv"], num_heads=2, kv_num_heads=1)
    inputs: dict[str, tuple[int, Sizes]] = {
        "q": (FLOAT, [1, 1, 16]),
        "k": (FLOAT, [1, 1, 8]),
        "v": (FLOAT, [1, 1, 8]),
    }
    inputs |= {
        "pk": (FLOAT, [1, 1, 4, 8]),
        "pv": (FLOAT, [1, 1, 4, 8]),
        "last": (INT, [1]),
        "total": (INT, []),
    }
    proto = net.model(
        inputs, {"y": [1, 1, 16], "nk": [1, 1, "stored", 8], "nv": [1, 1, "stored", 8]}
    )
    given = {
        n: np.ones([1 if isinstance(d, str) else d for d in s], np.float32)
        for n, (_, s) in inputs.items()
    }
    given |= {"last": np.int32([4]), "total": np.array(5, np.int32)}
    with infuse.compile(infuse.load(proto), infuse.CompileOptions(threads=1)) as model:
        good = model.run(given)
        assert good["nk"].shape == (1, 1, 5, 8)
        for last in (5, -1, 2**31 - 1):
            with pytest.raises(RuntimeFailure):
                model.run({**given, "last": np.int32([last])})


@pytest.mark.parametrize(
    ("family", "needed"),
    [
        ("bert", {"SkipLayerNormalization", "BiasGelu"}),
        ("gpt2", {"SkipLayerNormalization", "FastGelu"}),
    ],
)
def test_optimizer_of_the_runtime(tmp_path: Path, family: str, needed: set[str]) -> None:
    """A network of the transformers library, as ONNX Runtime's own optimizer fuses it."""
    torch = pytest.importorskip("torch")
    make_importable()
    transformers = pytest.importorskip("transformers")
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    sizes = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "vocab_size": WORDS,
    }
    if family == "bert":
        config = transformers.BertConfig(**sizes, intermediate_size=INNER)
    else:
        config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    names = ["input_ids", "attention_mask"]

    class Words(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers.AutoModel.from_config(config)

        def forward(self, ids: Any, mask: Any) -> Any:
            more = {} if family == "bert" else {"use_cache": False}
            return self.model(input_ids=ids, attention_mask=mask, **more).last_hidden_state

    path, example = tmp_path / "words.onnx", torch.ones(2, 5, dtype=torch.int64)
    axes = {n: {0: "batch", 1: "length"} for n in names}
    options = {
        "input_names": names,
        "output_names": ["y"],
        "dynamic_axes": axes,
        "opset_version": 17,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Words().eval(), (example, example), path, dynamo=False, **options)
    proto = optimizer.optimize_model(
        str(path), family, num_heads=HEADS, hidden_size=WIDTH, opt_level=0
    ).model
    kinds = {n.op_type for n in proto.graph.node if n.domain == OWN}
    assert needed <= kinds, kinds
    rng, peer = np.random.default_rng(0), session(proto)
    with infuse.compile(infuse.load(proto), infuse.CompileOptions(threads=1)) as model:
        for batch, length in ((2, 5), (1, 8)):
            ids = rng.integers(0, WORDS, (batch, length))
            mask = (np.arange(length) < rng.integers(2, length + 1, (batch, 1))).astype(np.int64)
            given = dict(zip(names, (ids, mask)))
            assert_close([model.run(given)["y"]], peer.run(["y"], given), TOLERANCE)


def test_optimizer_for_the_runtime() -> None:
    """A network that was optimized for ONNX Runtime is native too."""
    proto = bert()
    graph = infuse.optimize(infuse.load(proto), infuse.Rules("all", runtime="onnxruntime"))
    assert any(n.op.domain == OWN for n in graph.nodes)
    given = feeds(proto, {"batch": 2, "length": 4})
    names = [v.name for v in proto.graph.output]
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        found = model.run(given)
    assert_close([found[n] for n in names], session(proto).run(None, given), TOLERANCE)


def test_operators_that_mean_what_others_do() -> None:
    """Operators that are read as ONNX's own: one model of them all, beside ONNX Runtime."""
    net = Network(6)
    kinds = {
        "trilu": ("Trilu", ["x"], {"upper": 0}),
        "gathered": ("GatherND", ["x", net.constant(np.array([[0, 1], [2, -1]]))], {}),
        "wider": ("ExpandDims", ["x", net.constant(np.array(-1, np.int32))], {}),
        "product": ("TransposeMatMul", ["x", "x"], {"transB": 1, "alpha": 0.5}),
        "range": ("Range", [net.constant(np.float32(1)), net.constant(np.float32(4))], {}),
        "steps": (
            "Range",
            [net.constant(np.array(9)), net.constant(np.array(0)), net.constant(np.array(-4))],
            {},
        ),
        "padded": (
            "Pad",
            ["x", net.constant(np.array([1, 0, 0, 2])), net.constant(np.float32(7))],
            {},
        ),
        "sampled": ("GridSample", ["image", "grid"], {"mode": "bicubic", "padding_mode": "border"}),
        "far": ("CDist", ["x", "other"], {"metric": "euclidean"}),
        "farther": ("CDist", ["x", "other"], {}),
    }
    for name, (kind, inputs, options) in kinds.items():
        net.add(kind, *inputs, outputs=[name], **options)
    shapes = {"x": [4, 5], "other": [3, 5], "image": [1, 2, 4, 5], "grid": [1, 3, 2, 2]}
    proto = net.model({n: (FLOAT, s) for n, s in shapes.items()}, {})
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in kinds)
    given = {n: net.rng.uniform(-1, 1, s).astype(np.float32) for n, s in shapes.items()}
    graph = infuse.load(proto)
    assert {n.op.domain for n in graph.nodes} == {"", OWN}
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        assert not getattr(model, "host_steps", ())
        found = model.run(given)
    assert_close([found[n] for n in kinds], session(proto).run(None, given), TOLERANCE)


def test_unique_in_the_order_of_appearance() -> None:
    """Its outputs are some of those of ONNX's operator."""
    net = Network(7)
    net.add("Unique", "x", outputs=["y", "at", "counts"])
    proto = net.model({"x": (FLOAT, ["n"])}, {})
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("y", "at", "counts"))
    given = {"x": np.float32([3, 1, 3, 2, 1, 3])}
    with infuse.compile(infuse.load(proto), infuse.CompileOptions(threads=1)) as model:
        found = model.run(given)
    for name, expected in zip(("y", "at", "counts"), session(proto).run(None, given)):
        np.testing.assert_array_equal(found[name], expected)


def test_operators_of_other_devices() -> None:
    """What ONNX Runtime runs on graphics cards only, beside NumPy."""
    net = Network(8)
    scale, shift = net.weight(6), net.weight(6)
    for name, activation in (("normal", 0), ("swish", 1)):
        net.add("GroupNorm", "x", scale, shift, outputs=[name], groups=3, activation=activation)
    bias = net.weight(6)
    net.add("BiasAdd", "x", bias, "x", outputs=["sum"])
    net.add("BiasSplitGelu", "x", bias, outputs=["gated"])
    proto = net.model(
        {"x": (FLOAT, ["n", 4, 5, 6])}, dict.fromkeys(("normal", "swish", "sum", "gated"))
    )
    gamma, beta, added = (numpy_helper.to_array(w) for w in net.weights)
    x = net.rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    grouped = x.astype(np.float64).reshape(2, 20, 3, 2)
    spread = grouped.std(axis=(1, 3), keepdims=True)
    whole = (grouped - grouped.mean(axis=(1, 3), keepdims=True)) / np.sqrt(spread**2 + 1e-5)
    normal = whole.reshape(x.shape) * gamma + beta
    left, right = np.split((x + added).astype(np.float64), 2, axis=-1)
    gated = left * 0.5 * right * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    expected = {
        "normal": normal,
        "swish": normal / (1 + np.exp(-normal)),
        "sum": 2 * x + added,
        "gated": gated,
    }
    with infuse.compile(infuse.load(proto), infuse.CompileOptions(threads=1)) as model:
        found = model.run({"x": x})
    assert_close(
        [found[n] for n in expected], [v.astype(np.float32) for v in expected.values()], TOLERANCE
    )
