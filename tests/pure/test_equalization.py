"""Scales of channels that move between layers: where they can, that the graph computes the same,
and that they are taken only where layers err less.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.compression.equalization import Evening, Sampled, evenings_of, scales_of
from infuse.compression.layers import find_layers
from infuse.compression.rescaling import Site, find_sites, rescaled
from infuse.compression.scratch import ScratchArrays
from infuse.errors import ModelFileError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.scales import SCALES, noted_scales
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.options import METHODS, Int4, Int8
from tests.compression_networks import weights

pytestmark = [pytest.mark.row("Z1")]

ROWS = "%x: float32[7, 32]"
IMAGES = "%x: float32[2, 3, 9, 9]"


def graph_of(rng: np.random.Generator, body: str, inputs: str = ROWS) -> Graph:
    """A graph in which `W(a, b)` are random constants of these shapes."""
    first, *parts = body.split("W(")
    for part in parts:
        shape, rest = part.split(")", 1)
        first += weights(rng, *map(int, shape.split(","))) + rest
    return parse(f'graph "g" ({inputs}) {{ {first} return y = %y }}')


NORMALIZED = """%a = LayerNormalization(%x, W(32), W(32), axis=-1)
  %p = MatMul(%a, W(32, 32)) %q = Gemm(%a, W(32, 32), W(32)) %y = Add(%p, %q)"""
FOLDING = {
    "normalization": (ROWS, NORMALIZED),
    "root mean square": (
        ROWS,
        "%a = RMSNormalization(%x, W(32), axis=-1) %y = MatMul(%a, W(32, 8))",
    ),
    "product and bias": (
        ROWS,
        """%a = MatMul(%x, W(32, 32)) %b = Add(%a, W(32)) %c = Relu(%b)
        %y = MatMul(%c, W(32, 8))""",
    ),
    "Gemm, turned": (
        ROWS,
        """%a = Gemm(%x, W(32, 32), W(32), transB=1) %b = LeakyRelu(%a, alpha=0.1)
        %y = Gemm(%b, W(8, 32), transB=1)""",
    ),
    "slopes": (
        ROWS,
        "%a = MatMul(%x, W(32, 32)) %b = PRelu(%a, W(32)) %y = MatMul(%b, W(32, 8))",
    ),
    "gate": (
        ROWS,
        """%g = MatMul(%x, W(32, 32)) %s = Sigmoid(%g) %u = MatMul(%x, W(32, 32))
        %h = Mul(%s, %u) %y = MatMul(%h, W(32, 8))""",
    ),
    "factor": (ROWS, "%s = Tanh(%x) %a = Mul(%s, W(32)) %y = MatMul(%a, W(32, 8))"),
    "convolutions": (
        IMAGES,
        "%a = Conv(%x, W(8, 3, 3, 3), W(8)) %b = Relu(%a) %y = Conv(%b, W(4, 8, 3, 3))",
    ),
    "depthwise and grouped": (
        IMAGES,
        """%a = Conv(%x, W(8, 3, 1, 1), W(8)) %b = Relu(%a)
        %c = Conv(%b, W(8, 1, 3, 3), W(8), group=8, pads=(1, 1, 1, 1))
        %y = Conv(%c, W(4, 4, 3, 3), group=2)""",
    ),
    "pool": (
        IMAGES,
        """%a = Conv(%x, W(8, 3, 3, 3), W(8)) %b = Relu(%a)
        %c = MaxPool(%b, kernel_shape=(2, 2)) %y = Conv(%c, W(4, 8, 1, 1))""",
    ),
}


@pytest.mark.parametrize("name", FOLDING)
def test_a_rescaled_graph_computes_the_same(name: str, rng: np.random.Generator) -> None:
    inputs, body = FOLDING[name]
    graph = graph_of(rng, body, inputs)
    sites = find_sites(find_layers(graph))
    assert sites
    scales = {
        site: np.float32(10.0 ** rng.uniform(-1, 1, int(str(site.activation.shape[1]))))
        for site in sites
    }
    result = rescaled(graph, scales, ScratchArrays())
    verify(result)
    x = rng.standard_normal([int(str(n)) for n in graph.inputs[0].shape]).astype(np.float32)
    right, same = (evaluate(each, {"x": x})["y"] for each in (graph, result))
    # factors and products round once more: parts of 2^-24, summed over depths of 72 at most
    np.testing.assert_allclose(same, right, rtol=2e-5, atol=2e-5 * float(np.abs(right).max()))
    copies = {layer.node.serial: layer for layer in find_layers(result)}
    for layer in (layer for site in sites for layer in site.layers):
        assert not np.allclose(copies[layer.node.serial].matrices, layer.matrices)


@pytest.mark.parametrize("name", FOLDING)
def test_a_rescaled_graph_says_by_what_each_value_is_divided(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    inputs, body = FOLDING[name]
    graph = graph_of(rng, body, inputs)
    result = graph
    for _ in range(2):  # scales of scales
        scales = {
            site: np.float32(10.0 ** rng.uniform(-1, 1, int(str(site.activation.shape[1]))))
            for site in find_sites(find_layers(result))
        }
        result = rescaled(result, scales, ScratchArrays())
    infuse.save(result, tmp_path / "scaled.infuse")
    infuse.save(result, tmp_path / "scaled.onnx")
    x = rng.standard_normal([int(str(n)) for n in graph.inputs[0].shape]).astype(np.float32)
    values = [node.output.name for node in graph.nodes]
    right = evaluate(graph, {"x": x}, fetch=values)
    for each in (result, *(infuse.load(tmp_path / f"scaled.{end}") for end in ("infuse", "onnx"))):
        own = {value.name for node in each.nodes for value in node.outputs} | {"y"}
        fetched = [value for value in values if value in own]  # ONNX may have others in between
        noted, same = noted_scales(each), evaluate(each, {"x": x}, fetch=fetched)
        assert noted
        for value in fetched:
            array = noted[value].undone(same[value]) if value in noted else same[value]
            bound = 2e-4 * float(np.abs(right[value]).max())
            np.testing.assert_allclose(array, right[value], rtol=2e-4, atol=bound)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 3}', '{"a": [1, "?"]}', '{"a": [1, "AADAfw=="]}', '{"a": ["b", ""]}']
)
def test_notes_of_strangers_are_checked(text: str, rng: np.random.Generator) -> None:
    graph = graph_of(rng, NORMALIZED)
    graph.metadata[SCALES] = text
    with pytest.raises(ModelFileError, match=r"infuse\.scales cannot be read"):
        noted_scales(graph)


@pytest.mark.parametrize(
    "body",
    [
        "%a = MatMul(%x, W(32, 32)) %b = Gelu(%a) %y = MatMul(%b, W(32, 8))",
        "%a = MatMul(%x, W(32, 32)) %p = MatMul(%a, W(32, 32)) %y = Add(%p, %a)",
        "%a = Mul(%x, %x) %y = MatMul(%a, W(32, 8))",
        "%a = MatMul(%x, W(32, 32)) %b = Mul(%a, %a) %y = MatMul(%b, W(32, 8))",
        "%a = MatMul(%x, W(32, 32)) %b = Add(%a, %x) %y = MatMul(%b, W(32, 8))",
        "%a = MatMul(%x, W(32, 1)) %b = Mul(%a, %x) %y = MatMul(%b, W(32, 8))",
        "%y = MatMul(%x, W(32, 8))",
    ],
    ids=["Gelu", "another reader", "square of an input", "square", "sum", "one column", "input"],
)
def test_scales_stay_where_they_cannot_be_folded(body: str, rng: np.random.Generator) -> None:
    assert find_sites(find_layers(graph_of(rng, body))) == []


def site_and_rows(rng: np.random.Generator) -> tuple[Site, np.ndarray]:
    """A normalization that two products read, and rows some of whose channels are large."""
    (site,) = find_sites(find_layers(graph_of(rng, NORMALIZED)))
    rows = rng.standard_normal((400, 1, 32)).astype(np.float32)
    rows[..., ::8] *= 40
    return site, rows


@pytest.mark.parametrize("method", ["int8", "int8-dynamic"])
def test_scales_even_out_large_channels(method: str, rng: np.random.Generator) -> None:
    site, rows = site_and_rows(rng)
    evenings = evenings_of([METHODS[method]()])
    seen = dict.fromkeys(site.layers, rows)
    scales = scales_of(site, seen, evenings)
    assert scales is not None
    assert scales[::8].min() > scales[1:8].max()
    parts = [Sampled.of(layer, rows) for layer in site.layers]
    before, after = (
        evenings[0].trial(each) for each in (parts, [part.divided(scales) for part in parts])
    )
    assert after < 0.5 * before


def test_even_channels_stay(rng: np.random.Generator) -> None:
    site, _ = site_and_rows(rng)
    rows = np.sign(rng.standard_normal((400, 1, 32))).astype(np.float32)
    evenings = evenings_of([Int8(), Int4()])
    assert scales_of(site, dict.fromkeys(site.layers, rows), evenings) is None


@pytest.mark.parametrize(("others", "is_taken"), [(0.96, False), (0.9, True)])
def test_rows_that_scales_are_not_chosen_by_decide(
    others: float, is_taken: bool, rng: np.random.Generator
) -> None:
    site, rows = site_and_rows(rng)

    def trial(parts: Sequence[Sampled]) -> float:
        part = parts[0]
        if np.array_equal(part.matrices, part.layer.matrices):
            return 1.0
        return (
            0.5
            if part.others is part.fitted or np.array_equal(part.others, part.fitted)
            else others
        )

    scales = scales_of(site, dict.fromkeys(site.layers, rows), [Evening(trial)])
    assert (scales is not None) == is_taken


def test_channels_of_zeros_and_rows_that_tell_nothing(rng: np.random.Generator) -> None:
    site, rows = site_and_rows(rng)
    evenings = evenings_of([Int8()])
    rows[..., 1] = 0
    scales = scales_of(site, dict.fromkeys(site.layers, rows), evenings)
    assert scales is not None
    assert scales[1] == 1
    assert np.isfinite(scales).all()
    assert scales_of(site, dict.fromkeys(site.layers, rows[:4]), evenings) is None
    rows[5] = np.nan
    assert scales_of(site, dict.fromkeys(site.layers, rows), evenings) is None
