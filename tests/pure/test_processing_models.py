"""Models as parts of traced programs, and programs before and after models."""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import DataError, InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.ir.parser import parse
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.processing import attach, call_model, prepare_image
from tests.pure.block_runs import picture

pytestmark = pytest.mark.row("C10")

NETWORK = """graph "network" (%x: float32[batch, 3, 8, 8]) {
  %mean = ReduceMean(%x, int64[2]{2, 3}, keepdims=0)
  %w = MatMul(%mean, float32[3, 2]{1, 2, 3, 4, 5, 6})
  %y = Softmax(%w)
  return scores = %y, logits = %w
}"""
SUM = """graph "sum" (%a: float32[n, m], %b: float32[m, 4], %c: float32[n]) {
  %d = MatMul(%a, %b)
  %e = Unsqueeze(%c, int64[1]{1})
  %f = Add(%d, %e)
  return result = %f
}"""
IMAGE = {"image": infuse.Spec("uint8", ("height", "width", 3))}
RNG = np.random.default_rng(0)
MATRIX = np.float32([[1, 2], [3, 4], [5, 6]])


def network() -> infuse.Graph:
    graph = parse(NETWORK)
    verify(graph)
    return graph


def expected(image: Any) -> Any:
    pixels = prepare_image(image, 8)[0]
    return evaluate(network(), {"x": pixels})


def ways(graph: infuse.Graph, feeds: dict[str, Any]) -> dict[str, Any]:
    """The results of a graph, which it has after optimization too."""
    verify(graph)
    results = evaluate(graph, feeds)
    better = evaluate(infuse.optimize(graph), feeds)
    for name, one in results.items():
        np.testing.assert_allclose(better[name], one, rtol=1e-5, atol=1e-6)
    return results


@pytest.mark.parametrize("size", [(8, 8), (30, 41), (1, 5)])
def test_what_comes_before(size: tuple[int, int]) -> None:
    graph = attach(network(), before=lambda image: prepare_image(image, 8)[0], specs=IMAGE)
    assert [v.name for v in graph.inputs] == ["image"]
    assert [str(v.type) for v in graph.outputs] == ["float32[1, 2]"] * 2
    image = picture(*size)
    results = ways(graph, {"image": image})
    for name, right in expected(image).items():
        np.testing.assert_allclose(results[name], right, rtol=1e-6)


def test_what_comes_after() -> None:
    def best(logits: Any, scores: Any) -> dict[str, Any]:
        xp = scores.__array_namespace__()
        return {"class": xp.argmax(scores, axis=-1), "twice": logits * 2}

    graph = attach(network(), after=best)
    assert [str(v.type) for v in graph.inputs] == ["float32[batch, 3, 8, 8]"]
    x = RNG.normal(size=(5, 3, 8, 8)).astype(np.float32)
    results, right = ways(graph, {"x": x}), evaluate(network(), {"x": x})
    np.testing.assert_array_equal(results["class"], right["scores"].argmax(-1))
    np.testing.assert_allclose(results["twice"], right["logits"] * 2)


def test_both_with_what_is_handed_on() -> None:
    def before(image: Any) -> dict[str, Any]:
        pixels, placement = prepare_image(image, 8)
        return {"x": pixels, "placement": placement}

    def after(first: Any, placement: Any, image: Any, factor: Any, second: Any) -> Any:
        rows = image.shape[0]
        return first[0] * factor, placement, second, rows

    specs = {**IMAGE, "factor": infuse.Spec("float32", ())}
    graph = attach(network(), before=before, specs=specs, after=after)
    image = picture(30, 41)
    results = list(ways(graph, {"image": image, "factor": np.float32(3)}).values())
    right = expected(image)
    np.testing.assert_allclose(results[0], right["scores"][0] * 3, rtol=1e-6)
    np.testing.assert_array_equal(results[1], prepare_image(image, 8)[1])
    np.testing.assert_allclose(results[2], right["logits"], rtol=1e-6)
    assert results[3] == 30
    handed = attach(network(), before=before, specs=IMAGE)
    assert handed.output_names == ["scores", "logits", "placement"]


def test_inputs_that_nothing_is_said_of_stay() -> None:
    graph = attach(
        parse(SUM), before=lambda q: {"b": q * 2.0}, specs={"q": infuse.Spec("float32", (3, 4))}
    )
    assert [(v.name, str(v.type)) for v in graph.inputs] == [
        ("q", "float32[3, 4]"),
        ("a", "float32[n, m]"),
        ("c", "float32[n]"),
    ]
    a, q, c = (RNG.normal(size=shape).astype(np.float32) for shape in ((2, 3), (3, 4), (2,)))
    results = ways(graph, {"a": a, "q": q, "c": c})
    np.testing.assert_allclose(results["result"], a @ (q * 2) + c[:, None], rtol=1e-5)
    with pytest.raises(InfuseError):
        evaluate(graph, {"a": a[:, :2], "q": q, "c": c})


def test_a_model_is_called_twice() -> None:
    net = network()

    def program(x: Any, y: Any) -> Any:
        return call_model(net, x)[0], call_model(net, x=y)[1]

    specs = {
        "x": infuse.Spec("float32", (1, 3, 8, 8)),
        "y": infuse.Spec("float32", ("many", 3, 8, "w")),
    }
    graph = infuse.trace(program, specs)
    assert str(graph.outputs[1].type) == "float32[many, 2]"
    x, y = (RNG.normal(size=(n, 3, 8, 8)).astype(np.float32) for n in (1, 4))
    results = list(ways(graph, {"x": x, "y": y}).values())
    np.testing.assert_allclose(results[0], evaluate(net, {"x": x})["scores"], rtol=1e-6)
    np.testing.assert_allclose(results[1], evaluate(net, {"x": y})["logits"], rtol=1e-6)
    with pytest.raises(DataError, match="axis 3 of the array has another size"):
        evaluate(graph, {"x": x, "y": y[..., :7]})
    serials = [node.serial for node in graph.nodes]
    assert len({*serials}) == len(serials)
    assert [node.serial for node in net.nodes] != serials


def test_a_model_with_branches_and_defaults() -> None:
    def inner(x: Any, n: Any) -> Any:
        chosen = infuse.cond(x.__array_namespace__().sum(x) > 0, lambda v: v * 2, lambda v: -v, [x])
        _, power = infuse.loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 2.0), (0, chosen))
        return power

    specs = {"x": infuse.Spec("float32", ("rows",)), "n": infuse.Spec("int64", ())}
    model = infuse.trace(inner, specs)
    model.inputs[1].default = np.array(3)
    graph = infuse.trace(
        lambda y: (call_model(model, y), call_model(model, -y, np.int64(1))),
        {"y": infuse.Spec("float32", ("count",))},
    )
    y = np.float32([1, 2, 3])
    results = ways(graph, {"y": y})
    np.testing.assert_array_equal(results["output_0"], y * 16)
    np.testing.assert_array_equal(results["output_1"], y * 2)
    open_graph = attach(model, after=lambda power: power + 1.0)
    assert open_graph.inputs[1].default is not None
    np.testing.assert_array_equal(evaluate(open_graph, {"x": y})["output"], y * 16 + 1)


@pytest.mark.parametrize(
    ("before", "after", "error", "what"),
    [
        (lambda image: prepare_image(image, 8), None, OptionError, "2 arrays, the model has 1"),
        (lambda image: {"y": image}, None, OptionError, "no input"),
        (lambda picture: picture, None, OptionError, "'picture'"),
        (lambda *images: images, None, OptionError, "'images'"),
        (lambda image: prepare_image(image, 9)[0], None, ShapeError, "axis 2 has 9 and not 8"),
        (
            lambda image: prepare_image(image, 8, layout="NHWC")[0],
            None,
            ShapeError,
            "axis 1 has 8 and not 3",
        ),
        (
            lambda image: prepare_image(image, 8, dtype="float16")[0],
            None,
            TypeMismatchError,
            "astype\\('float32'\\)",
        ),
        (lambda image: prepare_image(image, 8)[0][0], None, ShapeError, "3 axes"),
        (
            lambda image: prepare_image(image, 8)[0],
            lambda a, b, c: a,
            OptionError,
            "parameter 'c' of after",
        ),
        (
            lambda image: prepare_image(image, 8)[0],
            lambda a: None,
            TypeMismatchError,
            "None, not an array",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    before: Any, after: Any, error: type[InfuseError], what: str
) -> None:
    with pytest.raises(error, match=what):
        attach(network(), before=before, specs=IMAGE, after=after)


def test_calls_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match="specs name 'image'"):
        attach(network(), specs=IMAGE)
    x = np.zeros((1, 3, 8, 8), np.float32)
    calls: list[tuple[Any, str]] = [
        (lambda x: call_model(network(), x, x), "1 inputs, 2 arrays"),
        (lambda x: call_model(network(), z=x), "no input 'z'"),
        (lambda x: call_model(network(), x, x=x), "no other input 'x'"),
        (lambda x: call_model(network()), "needs its inputs 'x'"),
    ]
    for program, what in calls:
        with pytest.raises(OptionError, match=what):
            infuse.trace(program, {"x": x})
    pair = {"a": infuse.Spec("float32", (2, 3)), "b": infuse.Spec("float32", (5, 4))}
    with pytest.raises(ShapeError, match="its axis 0 has 5 and not 3"):
        infuse.trace(lambda a, b: call_model(parse(SUM), a, b, np.zeros(2, np.float32)), pair)
