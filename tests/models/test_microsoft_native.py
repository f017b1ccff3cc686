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
from onnx import ModelProto, TensorProto, helper, numpy_helper

import infuse
from benchmarks.torchvision_schemas import make_importable
from infuse.errors import RuntimeFailure
from tests.models.onnx_tools import assert_close, session

OWN = "com.microsoft"
WIDTH, HEADS, SHARED, INNER, WORDS, LAYERS = 64, 4, 2, 96, 40, 2
SIZE = WIDTH // HEADS
TOLERANCE = 2e-5
FLOAT, INT, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
Sizes = Sequence[int | str]


class Network:
    """A model under construction, with random weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int, scale: float = 0.2) -> str:
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(
        self,
        kind: str,
        *inputs: str,
        outputs: Sequence[str] = (),
        domain: str = OWN,
        **attributes: Any,
    ) -> str:
        names = list(outputs) or [f"made{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0]

    def plain(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.add(kind, *inputs, domain="", **attributes)

    def dense(self, x: str, width: int, out: int) -> str:
        return self.plain("MatMul", x, self.weight(width, out))

    def model(
        self, inputs: Mapping[str, tuple[int, Sizes]], outputs: Mapping[str, Sizes | None]
    ) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [
                helper.make_tensor_value_info(name, dtype, shape)
                for name, (dtype, shape) in inputs.items()
            ],
            [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
            self.weights,
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def bert() -> ModelProto:
    """An encoder as the optimizer of ONNX Runtime writes it, with a mask of the words that
    count.
    """
    net = Network(1)
    tables = [net.weight(n, WIDTH, scale=1) for n in (WORDS, 20, 2)]
    scales = [net.weight(WIDTH, scale=1) for _ in range(2)]
    words, mask = "words", "mask"
    x = net.add(
        "EmbedLayerNormalization",
        words,
        "segments",
        *tables,
        *scales,
        mask,
        outputs=["e", "counts"],
    )
    for number in range(LAYERS):
        given = [net.weight(WIDTH, 3 * WIDTH), net.weight(3 * WIDTH), ("counts", mask)[number]]
        a = net.dense(net.add("Attention", x, *given, num_heads=HEADS), WIDTH, WIDTH)
        norm = [net.weight(WIDTH, scale=1) for _ in range(2)]
        x = net.add("SkipLayerNormalization", a, x, *norm, net.weight(WIDTH), epsilon=1e-12)
        y = net.add("BiasGelu", net.dense(x, WIDTH, INNER), net.weight(INNER))
        norm = [net.weight(WIDTH, scale=1) for _ in range(2)]
        x = net.add(
            "SkipLayerNormalization",
            net.dense(y, INNER, WIDTH),
            x,
            *norm,
            net.weight(WIDTH),
            epsilon=1e-12,
        )
    net.add(
        "FusedGemm",
        net.plain("Gather", x, net.constant(0), axis=1),
        net.weight(WIDTH, 3),
        outputs=["y"],
    )
    net.nodes[-1].attribute.append(helper.make_attribute("activation", "Tanh"))
    rows: Sizes = ["batch", "length"]
    return net.model(
        dict.fromkeys(("words", "segments", "mask"), (INT, rows)),
        {"y": ["batch", 3], x: [*rows, WIDTH]},
    )


def gpt2() -> ModelProto:
    """A decoder with keys and values of the past in one tensor per layer."""
    net = Network(2)
    places = net.plain("Add", net.plain("Gather", net.weight(WORDS, WIDTH), "words"), "places")
    x, skip = places, ""
    stored: dict[str, Sizes] = {}
    for number in range(LAYERS):
        norm = [net.weight(WIDTH, scale=1) for _ in range(2)]
        if skip:
            names = [f"n{number}", "", "", f"s{number}"]
            net.add("SkipLayerNormalization", x, skip, *norm, outputs=names, epsilon=1e-5)
            normal, x = names[0], names[3]
        else:
            normal = net.plain("LayerNormalization", x, *norm, epsilon=1e-5)
        given = [net.weight(WIDTH, 3 * WIDTH), net.weight(3 * WIDTH), "mask", f"past{number}"]
        stored[f"present{number}"] = [2, "batch", HEADS, "total", SIZE]
        a = net.add(
            "Attention",
            normal,
            *given,
            outputs=[f"a{number}", f"present{number}"],
            num_heads=HEADS,
            unidirectional=1,
        )
        names = [f"m{number}", "", "", f"t{number}"]
        norm = [net.weight(WIDTH, scale=1) for _ in range(2)]
        net.add(
            "SkipLayerNormalization",
            x,
            net.dense(a, WIDTH, WIDTH),
            *norm,
            outputs=names,
            epsilon=1e-5,
        )
        y = net.add("FastGelu", net.dense(names[0], WIDTH, INNER), net.weight(INNER))
        x, skip = names[3], net.dense(y, INNER, WIDTH)
    norm = [net.weight(WIDTH, scale=1) for _ in range(2)]
    last = net.add("SkipLayerNormalization", x, skip, *norm, epsilon=1e-5)
    net.add("FusedMatMul", last, net.weight(WORDS, WIDTH), outputs=["y"], transB=1, alpha=0.5)
    inputs = {
        "words": (INT64, ["batch", "length"]),
        "places": (FLOAT, ["batch", "length", WIDTH]),
        "mask": (INT, ["batch", "total"]),
        **{f"past{i}": (FLOAT, [2, "batch", HEADS, "past", SIZE]) for i in range(LAYERS)},
    }
    return net.model(inputs, {"y": ["batch", "length", WORDS], **stored})


def llama(packed: bool, turned: bool, window: int) -> ModelProto:
    """A decoder as the model builder of onnxruntime-genai writes it: how many keys count follows
    from the mask.
    """
    net = Network(3)
    mask = net.plain("Cast", "mask", to=INT64)
    sums = net.plain("ReduceSum", mask, net.constant(np.array([1])), keepdims=1)
    last = net.plain("Cast", net.plain("Sub", sums, net.constant(np.array([1]))), to=INT)
    total = net.plain("Gather", net.plain("Shape", "mask"), net.constant(1), axis=0)
    total = net.plain("Cast", total, to=INT)
    angles = np.arange(64)[:, None] * 10.0 ** -np.arange(SIZE // 2)
    tables = [net.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    x, skip = net.plain("Gather", net.weight(WORDS, WIDTH), "words"), ""
    widths = [WIDTH, SHARED * SIZE, SHARED * SIZE]
    for number in range(LAYERS):
        if skip:
            names = [f"n{number}", "", "", f"s{number}"]
            net.add(
                "SkipSimplifiedLayerNormalization",
                x,
                skip,
                net.weight(WIDTH, scale=1),
                outputs=names,
                epsilon=1e-5,
            )
            normal, x = names[0], names[3]
        else:
            scale = net.weight(WIDTH, scale=1)
            normal = net.plain(
                "SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5, stash_type=1
            )
        parts = [net.dense(normal, WIDTH, sum(widths)), "", ""]
        if not packed:
            parts = [net.dense(normal, WIDTH, width) for width in widths]
            if turned:
                for i, count in enumerate((HEADS, SHARED)):
                    parts[i] = net.add(
                        "RotaryEmbedding", parts[i], "places", *tables, num_heads=count
                    )
        given = [*parts, f"pk{number}", f"pv{number}", last, total, *(() if turned else tables)]
        made = [f"a{number}", f"k{number}", f"v{number}"]
        options = {"num_heads": HEADS, "kv_num_heads": SHARED, "local_window_size": window}
        net.add("GroupQueryAttention", *given, outputs=made, do_rotary=int(not turned), **options)
        names = [f"m{number}", "", "", f"t{number}"]
        a = net.dense(made[0], WIDTH, WIDTH)
        net.add(
            "SkipSimplifiedLayerNormalization",
            x,
            a,
            net.weight(WIDTH, scale=1),
            outputs=names,
            epsilon=1e-5,
        )
        gate = net.add("QuickGelu", net.dense(names[0], WIDTH, INNER), alpha=1.0)
        y = net.plain("Mul", gate, net.dense(names[0], WIDTH, INNER))
        x, skip = names[3], net.dense(y, INNER, WIDTH)
    norm = net.add(
        "SkipSimplifiedLayerNormalization", x, skip, net.weight(WIDTH, scale=1), epsilon=1e-5
    )
    net.plain("MatMul", norm, net.weight(WIDTH, WORDS), outputs=["y"])
    cache: Sizes = ["batch", SHARED, "past", SIZE]
    inputs: dict[str, tuple[int, Sizes]] = {
        "words": (INT64, ["batch", "length"]),
        "mask": (INT64, ["batch", "total"]),
    }
    if turned:
        inputs["places"] = (INT64, ["batch", "length"])
    outputs: dict[str, Sizes] = {"y": ["batch", "length", WORDS]}
    for number in range(LAYERS):
        inputs |= {f"p{kind}{number}": (FLOAT, cache) for kind in "kv"}
        outputs |= {f"{kind}{number}": ["batch", SHARED, "total", SIZE] for kind in "kv"}
    return net.model(inputs, outputs)


def feeds(proto: ModelProto, sizes: Mapping[str, int], mask: Any = None) -> dict[str, Any]:
    """Random words, segments and pasts; places follow the past."""
    rng = np.random.default_rng(5)
    found: dict[str, Any] = {}
    for info in proto.graph.input:
        tensor = info.type.tensor_type
        shape = tuple(d.dim_value or sizes[d.dim_param] for d in tensor.shape.dim)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype == np.float32:
            found[info.name] = rng.standard_normal(shape).astype(np.float32)
        elif info.name == "places":
            found[info.name] = np.broadcast_to(np.arange(shape[1]) + sizes["past"], shape).astype(
                dtype
            )
        else:
            found[info.name] = rng.integers(
                0, 2 if info.name == "segments" else WORDS, shape
            ).astype(dtype)
        if info.name == "mask":
            found[info.name] = np.ones(shape, dtype) if mask is None else np.asarray(mask, dtype)
    return found


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
        with infuse.compile(graph, threads=2) as model:
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
    with infuse.compile(infuse.load(proto), threads=1) as model:
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
    with infuse.compile(infuse.load(proto), threads=1) as model:
        for batch, length in ((2, 5), (1, 8)):
            ids = rng.integers(0, WORDS, (batch, length))
            mask = (np.arange(length) < rng.integers(2, length + 1, (batch, 1))).astype(np.int64)
            given = dict(zip(names, (ids, mask)))
            assert_close([model.run(given)["y"]], peer.run(["y"], given), TOLERANCE)


def test_optimizer_for_the_runtime() -> None:
    """A network that was optimized for ONNX Runtime is native too."""
    proto = bert()
    graph = infuse.optimize(infuse.load(proto), "all", runtime="onnxruntime")
    assert any(n.op.domain == OWN for n in graph.nodes)
    given = feeds(proto, {"batch": 2, "length": 4})
    names = [v.name for v in proto.graph.output]
    with infuse.compile(graph, threads=1) as model:
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
    with infuse.compile(graph, threads=1) as model:
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
    with infuse.compile(infuse.load(proto), threads=1) as model:
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
    with infuse.compile(infuse.load(proto), threads=1) as model:
        found = model.run({"x": x})
    assert_close(
        [found[n] for n in expected], [v.astype(np.float32) for v in expected.values()], TOLERANCE
    )
