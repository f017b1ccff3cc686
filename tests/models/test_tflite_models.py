"""Whole models of TensorFlow Lite: names, sizes, control flow, states, layout, quantized chains."""

import numpy as np
import pytest

import infuse
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.models.tflite_cases import I32, floats
from tests.models.tflite_tools import Net, Quant, agree, compare, infused, litert, tfl

NONE = {"fusedActivationFunction": "none"}
CONV = {"table": "Conv2DOptions", "padding": 0, "strideH": 1, "strideW": 1}


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def signed(net: Net, inputs: dict[str, int], outputs: dict[str, int], key: str = "serving") -> Net:
    """With a signature."""
    made = tfl.SignatureDefT()
    made.signatureKey, made.subgraphIndex = key, 0
    for part, named in (("inputs", inputs), ("outputs", outputs)):
        entries = []
        for name, index in named.items():
            entry = tfl.TensorMapT()
            entry.name, entry.tensorIndex = name, index
            entries.append(entry)
        setattr(made, part, entries)
    net.model.signatureDefs = [*(net.model.signatureDefs or []), made]
    return net


def test_names_of_tensors_and_of_the_only_signature() -> None:
    net = Net()
    x, y = net.input("float32", (2, 3)), net.input("float32", (2, 3))
    z = net.op("ADD", [x, y], "float32", **NONE)
    net.outputs(z, x)
    graph = infuse.load(net.bytes())
    assert [v.name for v in graph.inputs] == ["t0", "t1"]
    assert graph.output_names == ["t2", "t0_2"]
    graph = infuse.load(signed(net, {"left": x, "right": y}, {"sum": z}).bytes())
    assert [v.name for v in graph.inputs] == ["left", "right"]
    assert graph.output_names[0] == "sum"
    graph = infuse.load(signed(net, {"other": x}, {}, "second").bytes())
    assert [v.name for v in graph.inputs] == ["t0", "t1"]


def test_a_model_is_told_by_its_content(tmp_path) -> None:
    net = Net()
    net.outputs(net.op("ABS", [net.input("float32", (2,))], "float32"))
    path = tmp_path / "model.bin"
    path.write_bytes(net.bytes())
    assert kinds(infuse.load(path)) == ["Abs"]


def network(batch: int = -1) -> Net:
    """A small image network: convolutions, a residual, pooling, a dense layer."""
    net = Net()
    x = net.input("float32", (batch, 16, 16, 3))

    def conv(value: int, inputs: int, outputs: int, size: int, stride: int = 1) -> int:
        w = net.const(floats(outputs, size, size, inputs, low=-0.3, high=0.3))
        return net.op("CONV_2D", [value, w, net.const(floats(outputs))], "float32",
                      **{**CONV, "strideH": stride, "strideW": stride},
                      fusedActivationFunction="relu6")  # fmt: skip

    def depthwise(value: int, channels: int, stride: int) -> int:
        w = net.const(floats(1, 3, 3, channels))
        return net.op("DEPTHWISE_CONV_2D", [value, w, net.const(floats(channels))], "float32",
                      table="DepthwiseConv2DOptions", padding=0, strideH=stride, strideW=stride,
                      depthMultiplier=1, fusedActivationFunction="relu6")  # fmt: skip

    y = conv(x, 3, 8, 3, 2)
    for channels, stride in ((8, 1), (8, 2), (8, 1)):
        inner = conv(depthwise(conv(y, 8, 16, 1), 16, stride), 16, channels, 1)
        y = net.op("ADD", [y, inner], "float32", **NONE) if stride == 1 else inner
    y = net.op("MEAN", [y, net.ints(1, 2)], "float32", table="ReducerOptions", keepDims=False)
    y = net.op("FULLY_CONNECTED", [y, net.const(floats(5, 8)), -1], "float32", **NONE)
    return net.outputs(net.op("SOFTMAX", [y], "float32", beta=1.0))


def test_transposes_stay_at_the_border_only() -> None:
    net = network()
    graph = infuse.load(net.bytes())
    assert kinds(graph).count("Transpose") == 2
    feed = np.random.default_rng(3).random((3, 16, 16, 3), np.float32)
    expected = litert(net.bytes(), [feed])
    compare(net, infused(graph, [feed]), expected, 1e-5)
    better = infuse.optimize(graph)
    assert kinds(better).count("Transpose") <= 1
    compare(net, infused(better, [feed]), expected, 1e-5)


def test_a_batch_that_is_not_fixed_is_a_symbol() -> None:
    net = network()
    graph = infuse.load(net.bytes())
    assert str(graph.inputs[0].type) == "float32[batch, 16, 16, 3]"
    assert str(graph.outputs[0].type) == "float32[batch, 5]"


def test_a_shape_made_of_the_batch() -> None:
    net = Net()
    x = net.input("float32", (-1, 4, 6))
    shape = net.op("SHAPE", [x], "int32", outType=2)
    batch = net.op("STRIDED_SLICE", [shape, net.ints(0), net.ints(1), net.ints(1)], "int32",
                   shrinkAxisMask=1)  # fmt: skip
    parts = [batch, *(net.const(np.array(n, I32)) for n in (2, 12))]
    wanted = net.op("PACK", parts, "int32", axis=0, valuesCount=3)
    net.outputs(net.op("RESHAPE", [x, wanted], "float32"))
    graph = agree(net, floats(3, 4, 6))
    assert str(graph.outputs[0].type) == "float32[batch, 2, 12]"


@pytest.mark.parametrize("activation", ["PRELU", "HARD_SWISH", "RELU"])
def test_images_stay_in_one_layout_through_residuals(activation: str) -> None:
    net = Net()
    x = net.input("float32", (1, 8, 8, 4))
    y = net.op("ABS", [x], "float32")
    for size, channels in ((4, 4), (4, 8)):
        w = net.const(floats(size, 3, 3, channels if channels == 4 else size))
        inner = net.op("CONV_2D", [y, w, net.const(floats(size))], "float32", **CONV, **NONE)
        both = net.op("ADD", [inner, y], "float32", **NONE)
        alpha = [net.const(floats(1, 1, size))] if activation == "PRELU" else []
        y = net.op(activation, [both, *alpha], "float32")
    pads = np.array([[0, 0], [1, 0], [0, 1], [0, 3]], I32)
    wide = net.op("PAD", [y, net.const(pads)], "float32")
    scale = net.op("MEAN", [wide, net.ints(1, 2)], "float32", table="ReducerOptions", keepDims=True)
    y = net.op("MUL", [wide, net.op("LOGISTIC", [scale], "float32")], "float32", **NONE)
    y = net.op("CONCATENATION", [y, wide], "float32", axis=-1, **NONE)
    y = net.op(
        "CONV_2D",
        [y, net.const(floats(2, 1, 1, 14)), net.const(floats(2))],
        "float32",
        **CONV,
        **NONE,
    )
    net.outputs(y)
    graph = agree(net, floats(1, 8, 8, 4), tolerance=1e-5)
    better = infuse.optimize(graph)
    assert kinds(better).count("Transpose") <= 4
    compare(net, infused(better, [floats(1, 8, 8, 4)]), litert(net.bytes(), [floats(1, 8, 8, 4)]),
            1e-5)  # fmt: skip


def test_a_quantized_chain_becomes_products_of_integers() -> None:
    net, scale = Net(), Quant(0.05, -4)
    x = net.input("int8", (1, 8, 8, 4), scale)
    rng = np.random.default_rng(5)
    for _ in range(2):
        w = net.const(rng.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8), Quant([0.002] * 4))
        b = net.const(rng.integers(-500, 500, 4).astype(I32), Quant([0.0001] * 4))
        x = net.op("CONV_2D", [x, w, b], ("int8", scale), version=3,
                   fusedActivationFunction="relu", **CONV)  # fmt: skip
    net.outputs(x)
    feed = rng.integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    graph = infuse.optimize(agree(net, feed))
    assert kinds(graph).count("Transpose") == 2
    compare(net, infused(graph, [feed]), litert(net.bytes(), [feed]), 0)


def test_weights_of_int8_are_dequantized() -> None:
    net = Net()
    x = net.input("float32", (2, 4))
    w = np.array([[1, -2, 3, 4], [5, 6, -7, 8]], np.int8)
    net.outputs(net.op("FULLY_CONNECTED", [x, net.const(w, Quant(0.5)), -1], "float32", **NONE))
    feed = floats(2, 4)
    (found,) = infused(infuse.load(net.bytes()), [feed])
    np.testing.assert_allclose(found, feed @ (w.T * np.float32(0.5)), rtol=1e-6)


def branches() -> Net:
    net = Net()
    flag, x = net.input("bool", (1,)), net.input("float32", (3,))
    main = net.graph
    made = []
    for kind in ("ABS", "NEG"):
        made.append(net.subgraph())
        net.outputs(net.op(kind, [net.input("float32", (3,))], "float32"))
    net.graph = main
    net.outputs(net.op("IF", [flag, x], "float32", thenSubgraphIndex=made[0],
                       elseSubgraphIndex=made[1]))  # fmt: skip
    return net


@pytest.mark.parametrize("flag", [True, False])
def test_if(flag: bool) -> None:
    agree(branches(), np.array([flag]), floats(3))


def loop() -> Net:
    """While n < 5: n + 1, x · 1.5."""
    net = Net()
    n, x = net.input("int32", ()), net.input("float32", (3,))
    main = net.graph
    condition = net.subgraph()
    a, _ = net.input("int32", ()), net.input("float32", (3,))
    net.outputs(net.op("LESS", [a, net.const(np.array(5, I32))], "bool"))
    body = net.subgraph()
    a, b = net.input("int32", ()), net.input("float32", (3,))
    more = net.op("ADD", [a, net.const(np.array(1, I32))], "int32", **NONE)
    net.outputs(more, net.op("MUL", [b, net.const(np.array(1.5, np.float32))], "float32", **NONE))
    net.graph = main
    net.outputs(*net.op("WHILE", [n, x], "int32", "float32", condSubgraphIndex=condition,
                        bodySubgraphIndex=body))  # fmt: skip
    return net


@pytest.mark.parametrize("first", [0, 4, 7])
def test_while(first: int) -> None:
    agree(loop(), np.array(first, I32), floats(3))


def test_all_operators_that_are_not_known_are_named() -> None:
    net = Net()
    x = net.input("float32", (3,))
    x = net.op("CUSTOM Mine", [net.op("ABS", [x], "float32")], "float32")
    x = net.op("CUSTOM Yours", [net.op("CUSTOM Mine", [x], "float32")], "float32")
    net.outputs(net.op("STABLEHLO_TANH", [x], "float32"))
    with pytest.raises(UnsupportedOperatorError) as caught:
        infuse.load(net.bytes())
    for text in ("CUSTOM Mine (2", "CUSTOM Yours (1", "STABLEHLO_TANH", "3 operators"):
        assert text in caught.value.what


def sparse(values: np.ndarray, rows: np.ndarray) -> tuple[Net, int]:
    """A product with sparse weights of (4, 6): rows of blocks of three elements."""
    net = Net()
    x = net.input("float32", (2, 6))
    w = net.tensor("float32", (4, 6), data=values)
    sparsity = tfl.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap = [0, 1, 2], [1]
    levels = []
    for size in (4, 0, 3):
        level = tfl.DimensionMetadataT()
        level.format, level.denseSize = int(size == 0), size
        if size == 0:
            level.arraySegmentsType = level.arrayIndicesType = 1
            level.arraySegments, level.arrayIndices = tfl.Int32VectorT(), tfl.Int32VectorT()
            level.arraySegments.values = rows.tolist()
            level.arrayIndices.values = [1, 0, 1, 0]
        levels.append(level)
    sparsity.dimMetadata = levels
    net.graph.tensors[w].sparsity = sparsity
    dense = net.op("DENSIFY", [w], "float32")
    net.outputs(net.op("FULLY_CONNECTED", [x, dense, -1], "float32", **NONE))
    return net, w


def test_sparse_weights() -> None:
    net, _ = sparse(floats(12), np.array([0, 1, 1, 3, 4]))
    agree(net, floats(2, 6))


@pytest.mark.parametrize("rows", [[0, 1, 1, 3, 5], [0, 1, 1, 3], [0, 3, 1, 3, 4], [1, 1, 1, 3, 4]])
def test_sparse_weights_that_lie(rows: list[int]) -> None:
    net, _ = sparse(floats(12), np.array(rows))
    with pytest.raises(ModelFileError):
        infuse.load(net.bytes())


def test_constants_stay_in_the_file() -> None:
    data = network().bytes()
    whole = np.frombuffer(data, np.uint8)
    graph = infuse.load(data)
    large = [v.const for v in graph.constants() if v.const is not None and v.const.size >= 64]
    assert large
    assert all(np.shares_memory(array, whole) for array in large)


def test_evaluate_by_name() -> None:
    net = Net()
    net.outputs(net.op("ABS", [net.input("float32", (2,))], "float32"))
    found = evaluate(infuse.load(net.bytes()), {"t0": np.array([-1, 2], np.float32)})
    np.testing.assert_array_equal(found["t1"], [1, 2])


def test_call() -> None:
    net = Net()
    x = net.input("float32", (3,))
    main, inner = net.graph, net.subgraph()
    net.outputs(net.op("NEG", [net.input("float32", (3,))], "float32"))
    net.graph = main
    net.outputs(net.op("CALL", [net.op("ABS", [x], "float32")], "float32", subgraph=inner))
    (found,) = infused(infuse.load(net.bytes()), [floats(3)])
    np.testing.assert_array_equal(found, -np.abs(floats(3)))


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("RANDOM_UNIFORM", 0.45, 0.55), ("RANDOM_STANDARD_NORMAL", -0.1, 0.1)],
)
def test_random_numbers(kind: str, low: float, high: float) -> None:
    net = Net()
    net.outputs(net.op(kind, [net.ints(40, 100)], "float32", table="RandomOptions", seed=3))
    for (numbers,) in (infused(infuse.load(net.bytes()), []), litert(net.bytes(), [])):
        assert numbers.shape == (40, 100)
        assert low < numbers.mean() < high


def test_random_classes() -> None:
    net = Net()
    logits = net.const(np.log(np.array([[0.2, 0.8], [1e-9, 1]], np.float32)))
    count = net.const(np.array(3000, I32))
    net.outputs(net.op("MULTINOMIAL", [logits, count], "int32", table="RandomOptions", seed=3))
    for (classes,) in (infused(infuse.load(net.bytes()), []), litert(net.bytes(), [])):
        assert classes.shape == (2, 3000)
        assert 0.77 < classes[0].mean() < 0.83
        assert classes[1].min() == 1


@pytest.mark.parametrize("quantized", [False, True])
def test_compiled(quantized: bool) -> None:
    if quantized:
        net, feed = Net(), np.random.default_rng(5).integers(-128, 128, (1, 8, 8, 4), np.int8)
        x = net.input("int8", (1, 8, 8, 4), Quant(0.05, -4))
        w = net.const(np.random.default_rng(6).integers(-127, 128, (4, 3, 3, 4), np.int8),
                      Quant([0.002, 0.003, 0.001, 0.002]))  # fmt: skip
        b = net.const(np.array([5, -6, 700, -80], I32), Quant(0.05 * np.array([2, 3, 1, 2]) / 1e3))
        net.outputs(net.op("CONV_2D", [x, w, b], ("int8", Quant(0.04, 3)), version=3,
                           fusedActivationFunction="relu", **CONV))  # fmt: skip
    else:
        net, feed = network(), np.random.default_rng(3).random((2, 16, 16, 3), np.float32)
    graph = infuse.load(net.bytes())
    model = infuse.compile(infuse.optimize(graph))
    found = model.run({graph.inputs[0].name: feed})
    compare(net, list(found.values()), litert(net.bytes(), [feed]), 1e-5)


def test_scales_of_a_subgraph_that_are_others() -> None:
    net = Net()
    x = net.input("int8", (3,), Quant(0.1))
    main, inner = net.graph, net.subgraph()
    net.outputs(net.input("int8", (3,), Quant(0.2)))
    net.graph = main
    net.outputs(net.op("CALL", [x], ("int8", Quant(0.2)), subgraph=inner))
    with pytest.raises(ModelFileError, match="another scale"):
        infuse.load(net.bytes())


def test_parts_of_another_scale_are_quantized_again() -> None:
    net = Net()
    x = net.input("int8", (2, 4), Quant(0.1))
    results = ("int8", Quant(0.1)), ("int8", Quant(0.2, 3))
    net.outputs(*net.op("SPLIT", [net.ints(1), x], *results, numSplits=2))
    feed = np.array([[1, -2, 30, 44], [5, 6, 70, -80]], np.int8)
    first, second = infused(infuse.load(net.bytes()), [feed])
    np.testing.assert_array_equal(first, feed[:, :2])
    np.testing.assert_array_equal(second, feed[:, 2:] // 2 + 3)


def test_concatenation_has_no_activation() -> None:
    net = Net()
    x = net.input("float32", (2, 4))
    net.outputs(net.op("CONCATENATION", [x, x], "float32", axis=0, fusedActivationFunction="relu"))
    with pytest.raises(UnsupportedOperatorError, match="fused activation"):
        infuse.load(net.bytes())
