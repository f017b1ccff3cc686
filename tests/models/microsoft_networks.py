"""Networks in ONNX Runtime's own operators: an encoder, a decoder with a past, one with shared
heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OWN = "com.microsoft"
WIDTH, HEADS, SHARED, INNER, WORDS, LAYERS = 64, 4, 2, 96, 40, 2
SIZE = WIDTH // HEADS
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
