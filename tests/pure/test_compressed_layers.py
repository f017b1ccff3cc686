"""What is compressed: operators as products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from infuse.compression.layers import find_layers, multiply, products_left_out
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate

pytestmark = [pytest.mark.row("Z1")]


@pytest.mark.parametrize(
    "call",
    [
        "Conv(%x, $w, strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2))",
        "Conv(%x, $w, group=2)",
        "Conv(%x, $w, auto_pad='SAME_UPPER', strides=(2, 2))",
    ],
)
def test_a_convolution_is_a_product_of_its_windows(call: str, rng: np.random.Generator) -> None:
    group = 2 if "group" in call else 1
    w = rng.standard_normal((6, 4 // group, 3, 2)).astype(np.float32)
    text = f"float32[6, {4 // group}, 3, 2]{{{', '.join(map(str, w.ravel().tolist()))}}}"
    graph = parse(f"""graph "g" (%x: float32[2, 4, 9, 8]) {{
      %y = {call.replace("$w", text).replace("'", '"')}
      return y = %y
    }}""")
    (layer,) = find_layers(graph)
    x = rng.standard_normal((2, 4, 9, 8)).astype(np.float32)
    expected = evaluate(graph, {"x": x})["y"].transpose(0, 2, 3, 1)
    windows = layer.rows(x, 10**6, rng)
    result = multiply(windows, layer.matrices).reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.in_layout(layer.matrices), layer.weights)


@pytest.mark.parametrize(
    "how",
    [
        "strides=(2, 2)",
        "strides=(2, 3), pads=(1, 0, 2, 1), output_padding=(1, 2), dilations=(1, 2)",
        'strides=(3, 2), auto_pad="SAME_UPPER"',
        "output_shape=(4, 3)",
    ],
)
def test_a_transposed_convolution_is_a_product_of_pixels(
    how: str, rng: np.random.Generator
) -> None:
    w = rng.standard_normal((4, 5, 3, 2)).astype(np.float32)
    text = f"float32[4, 5, 3, 2]{{{', '.join(map(str, w.ravel().tolist()))}}}"
    graph = parse(f"""graph "g" (%x: float32[2, 4, 3, 4]) {{
      %y = ConvTranspose(%x, {text}, {how})
      return y = %y
    }}""")
    (layer,) = find_layers(graph)
    x = rng.standard_normal((2, 4, 3, 4)).astype(np.float32)
    expected = evaluate(graph, {"x": x})["y"].transpose(0, 2, 3, 1)
    assert layer.sizes == (1, 24, 5)
    result = multiply(layer.rows(x, 10**6, rng), layer.matrices).reshape(expected.shape)
    # Sums of up to 24 products of numbers around 1, in another order.
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.in_layout(layer.matrices), layer.weights)
    assert len(layer.rows(x, 7, rng)) == 7


@pytest.mark.parametrize("turned", [0, 1])
def test_a_gemm_is_a_product_of_its_rows(turned: int, rng: np.random.Generator) -> None:
    shape = (3, 4) if turned else (4, 3)
    w = ", ".join(map(str, range(12)))
    graph = parse(f"""graph "g" (%x: float32[5, 4]) {{
      %y = Gemm(%x, float32[{shape[0]}, {shape[1]}]{{{w}}}, transB={turned})
      return y = %y
    }}""")
    (layer,) = find_layers(graph)
    x = rng.standard_normal((5, 4)).astype(np.float32)
    result = multiply(layer.rows(x, 5, rng), layer.matrices)[:, 0]
    np.testing.assert_allclose(result, evaluate(graph, {"x": x})["y"], rtol=1e-5)
    np.testing.assert_array_equal(layer.in_layout(layer.matrices), layer.weights)


def test_products_that_are_no_layers_are_named_with_a_reason() -> None:
    graph = parse("""graph "g" (%x: float32[4, 4], %w: float32[4, 4], %z: float32[1, 2, 4, 4]) {
      %y = MatMul(%x, %w)
      %t = ConvTranspose(%z, float32[2, 1, 1, 1]{1, 2}, group=2)
      %g = Gemm(%w, float32[4, 1]{1, 2, 3, 4}, float32[1]{5}, beta=2.0)
      return y = %y, t = %t, g = %g
    }""")
    layers = find_layers(graph)
    assert layers == []
    reasons = {node.kind: why for node, why in products_left_out(graph, layers)}
    assert reasons == {
        "MatMul": "it has no constant weights",
        "ConvTranspose": "transposed convolutions in groups are computed in float32",
        "Gemm": "it has factors (alpha, beta), which infuse.optimize puts into its constants",
    }
    (layer,) = find_layers(infuse.optimize(graph, "basic"))
    assert layer.kind == "Gemm"
