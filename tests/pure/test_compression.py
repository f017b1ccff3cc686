"""Compression without a compiler: layers as matrices, ranges, weights, and what is written into
graphs.
"""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.compression.contract import Bound, Deadline
from infuse.compression.evaluation import digest_of
from infuse.compression.forms import BlockForm, DynamicForm, Form
from infuse.compression.gptq import gptq, gptq_channels
from infuse.compression.insertion import with_forms
from infuse.compression.layers import (
    Layer,
    find_embeddings,
    find_layers,
    multiply,
)
from infuse.compression.methods import plans_of
from infuse.compression.observation import Observations, Range
from infuse.compression.ranges import CALIBRATORS, candidates, scale_of
from infuse.compression.sensitivity import with_switches
from infuse.compression.setting import MethodOptions, Setting
from infuse.compression.static import (
    StaticOptions,
    between_layers,
    mean_error,
    plan_static,
    relative_error,
)
from infuse.compression.weights import blocks, round_to_nearest
from infuse.data.dataset import feeds_of
from infuse.data.metrics import signal_to_noise
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate, evaluate_values
from infuse.options import Int8Dynamic
from tests.compression_networks import (
    image_network,
    images,
    rows,
    text_network,
    weights as elements,
)

pytestmark = [pytest.mark.row("Z1")]
Data = dict[str, np.ndarray]


def observed(graph: Graph, data: Data, seed: int = 0) -> tuple[list[Layer], Observations]:
    """What `observe` sees, by the interpreter."""
    layers, rng = find_layers(graph), np.random.default_rng(seed)
    values = [*(layer.activation for layer in layers), *between_layers(graph, layers)]
    seen = Observations({v: Range() for v in values}, {layer: [] for layer in layers})
    for feeds in feeds_of(graph, data):
        arrays = evaluate_values(graph, feeds)
        for value in seen.ranges:
            seen.ranges[value].add(arrays[value], 400, rng)
        for layer in layers:
            seen.rows[layer].append(layer.rows(arrays[layer.activation], 20, rng))
    seen.rows = {layer: np.concatenate(parts) for layer, parts in seen.rows.items()}
    return layers, seen


# -- ranges and weights ----------------------------------------------------------------------------


def test_scales_hold_zero_and_the_limits() -> None:
    scale = scale_of(-1, 3, dtypes.uint8, symmetric=False)
    assert scale.zero == 64
    for number in (-1, 0, 3):
        assert abs(float(scale.rounded(np.float32([number]))[0]) - number) <= scale.step / 2
    assert scale.rounded(np.float32([0]))[0] == 0
    middle = scale_of(-1, 3, dtypes.int8, symmetric=True)
    assert (middle.zero, middle.step) == (0, np.float32(3 / 127))
    assert scale_of(0, 0, dtypes.uint8, symmetric=False).step == 1


def test_every_calibrator_gives_ranges_inside_of_what_was_seen(rng: np.random.Generator) -> None:
    seen = Range()
    values = rng.standard_normal(40000).astype(np.float32)
    values[0] = 100
    seen.add(values, 40000, rng)
    widths, errors = {}, {}
    for name in CALIBRATORS:
        for label, scale in candidates(seen, name):
            widths[label] = float(scale.step) * 255
            errors[label] = float(np.mean((scale.rounded(seen.sample) - seen.sample) ** 2))
            assert widths[label] <= (seen.high - seen.low) * 1.0001
    assert widths["min-max"] == pytest.approx(seen.high - seen.low, rel=1e-5)
    assert widths["percentile 99.9"] < 10
    assert errors["mse"] <= min(errors["min-max"], errors["percentile 99.9"])
    assert widths["entropy"] < 0.5 * widths["min-max"]
    assert {label for label, _ in candidates(seen, "auto")} >= {"min-max", "mse", "entropy"}


def test_a_constant_activation_has_a_scale(rng: np.random.Generator) -> None:
    seen = Range()
    seen.add(np.zeros(50, np.float32), 50, rng)
    for _, scale in candidates(seen, "auto"):
        assert np.array_equal(scale.rounded(np.zeros(3, np.float32)), np.zeros(3))


def test_weights_are_rounded_per_channel(rng: np.random.Generator) -> None:
    matrices = rng.standard_normal((2, 30, 7)).astype(np.float32) * np.float32(
        [1e-3, 1, 10] * 2 + [0]
    )
    weights = round_to_nearest(matrices)
    assert weights.integers.dtype == np.int8
    assert np.abs(weights.numbers - matrices).max(axis=(0, 1))[0] < 1e-4
    assert signal_to_noise(weights.numbers, matrices) > 35
    whole = round_to_nearest(matrices, per_channel=False)
    assert len(np.unique(whole.scales)) == 1


@pytest.mark.parametrize(("bits", "noise"), [(4, 18), (8, 42)])
def test_weights_in_blocks(bits: int, noise: float, rng: np.random.Generator) -> None:
    matrix = rng.standard_normal((96, 5)).astype(np.float32)
    weights = blocks(matrix, bits, 32)
    assert weights.integers.shape == (96, 5)
    assert weights.scales.shape == (3, 5)
    assert signal_to_noise(weights.numbers, matrix) > noise


def test_a_mean_error_counts_where_it_stands_out(rng: np.random.Generator) -> None:
    errors = rng.standard_normal((400, 1, 3)) + np.array([0, 1, 0])
    mean = mean_error(errors)
    assert mean is not None
    assert abs(mean[[0, 2]]).max() < 0.2
    assert mean[1] == pytest.approx(1, abs=0.2)
    assert mean_error(errors[:4]) is None


# -- graphs ----------------------------------------------------------------------------------------


def test_static_integers_in_a_network_of_images(rng: np.random.Generator) -> None:
    graph = image_network(rng)
    layers, seen = observed(graph, images(rng))
    plan = plan_static(graph, layers, seen, StaticOptions())
    assert len(plan.layers) == len(layers) == 4
    result = with_forms(graph, plan.layers, plan.between)
    verify(result)
    kinds = [node.kind for node in result.nodes]
    assert kinds.count("QuantizeLinear") == len({layer.activation for layer in layers})
    feeds = images(rng, 1)
    expected = evaluate(graph, feeds)["scores"]
    assert signal_to_noise(evaluate(result, feeds)["scores"], expected) > 30
    assert [node.kind for node in graph.nodes].count("QuantizeLinear") == 0


def test_layers_that_read_one_activation_round_it_each_in_its_way(
    rng: np.random.Generator,
) -> None:
    graph = infuse.optimize(
        parse(f"""graph "shared" (%x: float32[4, 16]) {{
          %a = Relu(%x)
          %b = MatMul(%a, {elements(rng, 16, 5)})
          %c = MatMul(%a, {elements(rng, 16, 7)})
          %d = Tanh(%b)
          %e = Tanh(%c)
          return first = %d, second = %e
        }}""")
    )
    layers, seen = observed(graph, {"x": rng.standard_normal((40, 16)).astype(np.float32)})
    assert len({layer.activation for layer in layers}) == 1
    types = (dtypes.uint8, dtypes.uint16)
    forms: dict[Layer, Form] = {
        layer: plan_static(graph, [layer], seen, StaticOptions(activations=dtype)).layers[layer]
        for layer, dtype in zip(layers, types, strict=True)
    }
    result = with_forms(graph, forms, {})
    verify(result)
    read = [node.input(0) for node in result.nodes if node.kind == "MatMul"]
    makers = [value.producer for value in read if value is not None]
    assert [maker.input(0).dtype for maker in makers if maker is not None] == list(types)


def test_biases_are_integers_in_steps_of_the_sums(rng: np.random.Generator) -> None:
    graph = image_network(rng)
    layers, seen = observed(graph, images(rng))
    plan = plan_static(graph, layers, seen, StaticOptions(bias_correction=False))
    result = with_forms(graph, plan.layers, plan.between)
    for node in result.nodes:
        if node.kind == "Conv":
            x, w, b = (v.producer for v in node.inputs if v is not None)
            assert x is not None
            assert w is not None
            assert b is not None
            assert b.inputs[0].dtype == dtypes.int32
            steps = x.inputs[1].const * w.inputs[1].const
            np.testing.assert_allclose(b.inputs[1].const, steps, rtol=1e-6)


def test_bias_correction_lessens_the_mean_error(rng: np.random.Generator) -> None:
    graph = image_network(rng)
    layers, seen = observed(graph, images(rng, 60))
    coarse = {}
    for corrects in (False, True):
        options = StaticOptions(bias_correction=corrects, per_channel=False)
        plan = plan_static(graph, layers, seen, options)
        coarse[corrects] = sum(plan.errors.values())
    assert coarse[True] <= coarse[False]


def test_dynamic_integers_share_the_range_of_an_activation(rng: np.random.Generator) -> None:
    graph = parse("""graph "g" (%x: float32[n, 4]) {
      %a = MatMul(%x, float32[4, 2]{1, 2, 3, 4, 5, 6, 7, 8})
      %b = Gemm(%x, float32[4, 2]{8, 7, 6, 5, 4, 3, 2, 1}, float32[2]{0.5, 1})
      return a = %a, b = %b
    }""")
    forms: dict[Layer, Form] = {
        layer: DynamicForm(round_to_nearest(layer.matrices)) for layer in find_layers(graph)
    }
    result = with_forms(graph, forms, {})
    verify(result)
    kinds = [node.kind for node in result.nodes]
    assert kinds.count("DynamicQuantizeLinear") == 1
    assert kinds.count("MatMulInteger") == 2
    feeds = {"x": rng.standard_normal((6, 4)).astype(np.float32)}
    expected = evaluate(graph, feeds)
    for name, array in evaluate(result, feeds).items():
        assert signal_to_noise(array, expected[name]) > 35


def test_weights_of_few_bits_keep_activations(rng: np.random.Generator) -> None:
    graph = text_network(rng)
    forms: dict[Layer, Form] = {
        layer: BlockForm(blocks(layer.matrices[0], 8, 32)) for layer in find_layers(graph)
    }
    result = with_forms(graph, forms, {})
    verify(result)
    feeds = rows(rng, 3)
    expected = evaluate(graph, feeds)["scores"]
    assert signal_to_noise(evaluate(result, feeds)["scores"], expected) > 35


def test_rows_of_embeddings_are_integers(rng: np.random.Generator) -> None:
    table = rng.standard_normal((300, 4)).astype(np.float32)
    elements = ", ".join(map(str, table.ravel().tolist()))
    graph = parse(f"""graph "g" (%ids: int64[n], %i: int64[2]) {{
      %x = Gather(float32[300, 4]{{{elements}}}, %ids, axis=0)
      %y = Gather(float32[2, 4]{{1, 2, 3, 4, 5, 6, 7, 8}}, %i, axis=0)
      return x = %x, y = %y
    }}""")
    (embedding,) = find_embeddings(graph)
    setting = Setting(graph, [], [embedding], [], None, MethodOptions(), None, 0, None)
    (plan,) = plans_of(Int8Dynamic(), setting)
    result = with_forms(graph, plan.forms, {})
    verify(result)
    feeds = {"ids": np.array([5, 0, 299, -1]), "i": np.array([0, 1])}
    answer = evaluate(result, feeds)
    assert signal_to_noise(answer["x"], table[feeds["ids"]]) > 38
    large = [v.const.dtype for v in result.constants() if v.const is not None and v.rank == 2]
    assert np.dtype(np.int8) in large


def test_gptq_errs_less_than_rounding_to_nearest(rng: np.random.Generator) -> None:
    mixing = rng.standard_normal((96, 96)) * np.geomspace(1, 0.05, 96)
    x = (rng.standard_normal((500, 96)) @ mixing).astype(np.float32)
    matrix = rng.standard_normal((96, 11)).astype(np.float32)
    errors = {}
    for name, weights in (
        ("nearest", blocks(matrix, 4, 32)),
        ("gptq", gptq(matrix, x.T @ x, 4, 32)),
    ):
        errors[name] = float(np.sum((x @ (weights.numbers - matrix)) ** 2))
    assert errors["gptq"] < 0.6 * errors["nearest"]


def test_gptq_takes_activations_that_are_zero(rng: np.random.Generator) -> None:
    x = rng.standard_normal((50, 64)).astype(np.float32)
    x[:, 10:40] = 0
    matrix = rng.standard_normal((64, 3)).astype(np.float32)
    weights = gptq(matrix, x.T @ x, 8, 32)
    assert np.isfinite(weights.numbers).all()
    assert signal_to_noise(x @ weights.numbers, x @ matrix) > 40


def test_parts_of_a_concatenation_are_rounded_before_they_meet() -> None:
    graph = parse("""graph "g" (%x: float32[1, 1, 4, 4]) {
      %a = Relu(%x)
      %b = Neg(%x)
      %c = Concat(%a, %b, axis=1)
      %y = Conv(%c, float32[1, 2, 1, 1]{1, 2})
      return y = %y
    }""")
    (layer,) = find_layers(graph)
    seen = Observations({layer.activation: Range()}, {})
    rng = np.random.default_rng(0)
    seen.ranges[layer.activation].add(np.float32([-2, 2]), 2, rng)
    seen.rows[layer] = rng.standard_normal((20, 1, 2)).astype(np.float32)
    plan = plan_static(graph, [layer], seen, StaticOptions("min-max"))
    result = with_forms(graph, plan.layers, {})
    concat = next(node for node in result.nodes if node.kind == "Concat")
    assert [v.producer.kind for v in concat.operands() if v.producer] == ["QuantizeLinear"] * 2


def test_an_activation_that_is_not_finite_stays_in_float32(rng: np.random.Generator) -> None:
    graph = text_network(rng)
    data = rows(rng, 4)
    data["x"][1, 3] = np.inf
    layers, seen = observed(graph, data)
    plan = plan_static(graph, layers, seen, StaticOptions())
    assert "not finite" in plan.refused[layers[0]]
    assert layers[0] not in plan.layers


def test_a_sum_of_what_is_not_finite_is_not_rounded(rng: np.random.Generator) -> None:
    graph = parse("""graph "g" (%x: float32[1, 2, 4, 4], %z: float32[1, 2, 4, 4]) {
      %a = Conv(%x, float32[2, 2, 1, 1]{1, 2, 3, 4})
      %b = Conv(%z, float32[2, 2, 1, 1]{4, 3, 2, 1})
      %c = Add(%a, %b)
      %y = Conv(%c, float32[1, 2, 1, 1]{1, 2})
      return y = %y
    }""")
    data = {name: rng.standard_normal((3, 2, 4, 4)).astype(np.float32) for name in "xz"}
    layers, seen = observed(graph, data)
    (waiting,) = between_layers(graph, layers)
    assert list(plan_static(graph, layers, seen, StaticOptions()).between) == [waiting]
    seen.ranges[waiting].is_finite = False
    assert not plan_static(graph, layers, seen, StaticOptions()).between
    del seen.ranges[waiting]
    assert not plan_static(graph, layers, seen, StaticOptions()).between


def test_switches_choose_the_form_of_each_layer(rng: np.random.Generator) -> None:
    graph = image_network(rng)
    layers, seen = observed(graph, images(rng))
    plan = plan_static(graph, layers, seen, StaticOptions())
    switched, name = with_switches(graph, plan.layers)
    verify(switched)
    feeds = images(rng, 1)
    expected = evaluate(graph, feeds)["scores"]
    results = [
        evaluate(switched, {**feeds, name: np.array(row)})["scores"]
        for row in ([False] * 4, [True, False, False, False], [True] * 4)
    ]
    np.testing.assert_array_equal(results[0], expected)
    assert not np.array_equal(results[1], expected)
    assert signal_to_noise(results[1], expected) > signal_to_noise(results[2], expected)


# -- contracts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reference", "score", "higher", "holds"),
    [
        ("1%", 0.9, 0.892, True, True),
        ("1%", 0.9, 0.890, True, False),
        (0.01, 0.9, 0.8901, True, True),
        ("0.01", 0.9, 0.8899, True, False),
        ("1%", 20.0, 20.1, False, True),
        ("1%", 20.0, 20.3, False, False),
        ("0%", 0.9, 0.9, True, True),
    ],
)
def test_bounds(
    text: str | float, reference: float, score: float, higher: bool, holds: bool
) -> None:
    assert Bound.parse(text).holds(reference, score, higher) is holds


@pytest.mark.parametrize("text", ["much", "-1%", "nan", float("inf"), ""])
def test_bounds_that_bound_nothing_are_refused(text: str | float) -> None:
    with pytest.raises(OptionError, match="bounds nothing"):
        Bound.parse(text)


def test_a_deadline_ends() -> None:
    now = [0.0]
    deadline = Deadline(2, lambda: now[0])
    assert deadline.left == 120
    now[0] = 121
    assert deadline.is_over
    assert not Deadline().is_over
    with pytest.raises(OptionError, match="not a valid number of minutes"):
        Deadline(0)


@pytest.mark.parametrize(("groups", "depth", "columns"), [(1, 40, 12), (6, 9, 1), (1, 200, 3)])
def test_integers_of_channels_make_up_for_each_other(
    groups: int, depth: int, columns: int, rng: np.random.Generator
) -> None:
    common = rng.standard_normal((600, groups, 1))
    rows = common + 0.2 * rng.standard_normal((600, groups, depth))
    matrices = rng.standard_normal((groups, depth, columns)).astype(np.float32)
    matrices[:, 3] = 0
    nearest = round_to_nearest(matrices)
    made = gptq_channels(matrices, nearest.scales, rows[:300])
    assert np.abs(made.integers.astype(int)).max() <= 127
    np.testing.assert_array_equal(made.scales, nearest.scales)
    assert not made.integers[:, 3].any()
    exact = multiply(rows[300:], matrices)
    errors = [relative_error(multiply(rows[300:], w.numbers), exact) for w in (nearest, made)]
    assert errors[1] < 0.6 * errors[0]
    # an activation that is always zero, and one that never varies
    rows[:, :, 0], rows[:, :, 1] = 0, 1
    assert np.isfinite(gptq_channels(matrices, nearest.scales, rows).numbers).all()


def test_digests_tell_contents_and_no_addresses() -> None:
    """Equal labels in other objects have one digest, so that a later process knows a search."""
    words = ["".join(["spa", "m"]), "".join(["eg", "gs"])]
    first, second = (np.array([*words, None], object) for _ in range(2))
    second[0] = "".join(["sp", "am"])
    assert first[0] is not second[0]
    assert digest_of([first]) == digest_of([second])
    assert digest_of([first]) != digest_of([first[::-1]])
    assert digest_of([{"x": np.arange(3)}]) != digest_of([{"x": np.arange(3.0)}])
