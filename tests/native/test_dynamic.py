"""Sizes that only a run finds out, and control flow as native code, beside ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import infuse
from infuse.errors import InfuseError, RuntimeFailure
from infuse.targets.text import frames
from tests.native.dynamic_models import BOOL, CASES, FLOAT, INT, PLANE, Spec, body, ints, model

node = helper.make_node


@pytest.mark.parametrize("level", ["none", "all", "in parts"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_the_runtime(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts: a function for each call, as programs of very many calls have."""
    if level == "in parts":
        monkeypatch.setattr(frames, "_MOST_CALLS", 1)
        level = "none"
    make, feeds = CASES[name]
    made = make()
    runtime = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with infuse.compile(
        infuse.optimize(infuse.load(made), level), infuse.CompileOptions(threads=1)
    ) as compiled:
        assert not compiled.host_steps
        for feed in [*feeds, feeds[0]]:
            _same(compiled.run(feed), runtime.run(None, feed))


def _same(found: Mapping[str, Any], expected: Sequence[Any]) -> None:
    for actual, wanted in zip(found.values(), expected, strict=True):
        if actual.ndim == wanted.ndim + 1 and wanted.size == 0:
            continue  # ONNX Runtime gives the stacked results of a loop without iterations rank 1
        assert actual.shape == wanted.shape
        assert actual.dtype == wanted.dtype
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "two sizes left open": ("Reshape", {"x": PLANE, "s": ints(-1, -1, 2)}, "impossible"),
    "another number of elements": ("Reshape", {"x": PLANE, "s": ints(7, 2, 2)}, "impossible"),
    "a negative count": ("TopK", {"x": PLANE, "k": ints(-1)}, "impossible"),
    "more than there are": ("TopK", {"x": PLANE, "k": ints(7)}, "impossible"),
    "more elements than there are addresses": (
        "Expand",
        {"x": PLANE[:1, :1], "s": ints(1 << 32, 1 << 32, 3)},
        "impossible",
    ),
    "more memory than there is": (
        "Expand",
        {"x": PLANE[:1, :1], "s": ints(1 << 20, 1 << 20, 3)},
        "out of memory",
    ),
    "an axis outside": ("Pad", {"x": PLANE, "p": ints(1, 1), "a": ints(2)}, "impossible"),
    "a step of zero": (
        "Slice",
        {"x": PLANE, "s": ints(0, 0), "e": ints(1, 1), "a": ints(0, 1), "t": ints(0, 1)},
        "impossible",
    ),
    "a range without step": (
        "Range",
        {"a": np.array(0), "b": np.array(3), "c": np.array(0)},
        "impossible",
    ),
    "parts that are not the whole": ("Split", {"x": PLANE, "s": ints(2, 5)}, "impossible"),
    "an axis of several": ("Squeeze", {"x": PLANE, "a": ints(0)}, "impossible"),
    "negative repeats": ("Tile", {"x": PLANE, "r": ints(-1, 1)}, "impossible"),
}


@pytest.mark.parametrize("case", BAD)
def test_impossible_sizes_are_an_error(case: str) -> None:
    name, feed, text = BAD[case]
    make, feeds = CASES[name]
    with infuse.compile(
        infuse.optimize(infuse.load(make()), "none"), infuse.CompileOptions(threads=1)
    ) as compiled:
        with pytest.raises(RuntimeFailure, match=text) as error:
            compiled.run(feed)
        assert name in str(error.value) or text != "impossible"
        compiled.run(feeds[0])


def test_a_loop_that_does_not_end_is_an_error() -> None:
    inside = body(
        [node("Identity", ["c"], ["go"]), node("Add", ["s", "s"], ["s2"])],
        [("i", INT, []), ("c", BOOL, []), ("s", INT, [])],
        [("go", BOOL, []), ("s2", INT, [])],
    )
    made = model(
        [node("Loop", ["", "c", "x"], ["y"], body=inside)],
        [("c", BOOL, []), ("x", INT, [])],
        [("y", INT, [])],
    )
    with infuse.compile(infuse.load(made), infuse.CompileOptions(threads=1)) as compiled:
        with pytest.raises(RuntimeFailure, match="does not end"):
            compiled.run({"c": np.array(True), "x": np.array(1)})
        assert compiled.run({"c": np.array(False), "x": np.array(1)})["y"] == 1


def test_the_last_row_of_as_many_as_a_run_says() -> None:
    """Whether there is one is checked once their number is known."""
    nodes = [
        node("Slice", ["x", "zero", "count", "zero"], ["rows"]),
        node("Gather", ["rows", "last"], ["y"], axis=0),
    ]
    inputs: list[Spec] = [("x", FLOAT, ["n", 3]), ("count", INT, [1])]
    constants = {"zero": np.array([0]), "last": np.array(-1)}
    made = model(nodes, inputs, [("y", FLOAT, [3])], **constants)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with infuse.compile(infuse.load(made), infuse.CompileOptions(threads=1)) as compiled:
        for count in (3, 1, 4):
            result = compiled.run({"x": x, "count": ints(count)})["y"]
            np.testing.assert_array_equal(result, x[count - 1])
        with pytest.raises(RuntimeFailure, match="Gather node"):
            compiled.run({"x": x, "count": ints(0)})


def test_strings_are_left_to_the_interpreter(tmp_path: Any) -> None:
    """Work on numbers before and after stays native; the whole can be saved and opened again."""
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("SplitToSequence", ["square", "one"], ["parts"], axis=0, keepdims=1),
        node("ConcatFromSequence", ["parts"], ["whole"], axis=1),
        node("Relu", ["whole"], ["y"]),
    ]
    made = model(nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, [1, "m"])], one=np.array(1))
    feed = {"x": PLANE[:, :3]}
    graph = infuse.optimize(infuse.load(made), "none")
    folder = tmp_path / "model"
    compiled = infuse.compile(graph, infuse.CompileOptions(threads=1), output=folder)
    assert [step.split()[0] for step in compiled.host_steps] == [
        "SplitToSequence",
        "ConcatFromSequence",
    ]
    expected = {"y": np.concatenate([np.square(row[None]) for row in feed["x"]], axis=1)}
    for loaded in (compiled, infuse.load_compiled(folder)):
        np.testing.assert_array_equal(loaded.run(feed)["y"], expected["y"])
        loaded.close()


def test_integers_are_divided_only_where_the_branch_is_taken() -> None:
    """The divisor's zero is an error of the taken branch alone; where there is nothing to divide it
    is none.
    """
    then = body([node("Div", ["x", "y"], ["t"])], [], [("t", INT, None)])
    other = body([node("Identity", ["x"], ["e"])], [], [("e", INT, None)])
    nodes = [
        node("If", ["c"], ["r"], then_branch=then, else_branch=other),
        node("Mod", ["x", "z"], ["rest"]),
    ]
    inputs: list[Spec] = [("x", INT, ["n"]), ("y", INT, [1]), ("z", INT, [1]), ("c", BOOL, [])]
    exported = model(nodes, inputs, [("r", INT, ["n"]), ("rest", INT, ["n"])])
    none, one, two = np.zeros(1, np.int64), np.ones(1, np.int64), np.full(1, 2)
    x, yes, no = np.array([7, -7]), np.array(True), np.array(False)
    with infuse.compile(exported) as compiled:
        for feeds, quotient, rest in (
            ({"x": x, "y": two, "z": two, "c": yes}, [3, -3], [1, 1]),
            ({"x": x, "y": none, "z": one, "c": no}, [7, -7], [0, 0]),
            ({"x": x[:0], "y": none, "z": none, "c": yes}, [], []),
        ):
            found = compiled.run(feeds)
            np.testing.assert_array_equal(found["r"], quotient)
            np.testing.assert_array_equal(found["rest"], rest)
        for y, z, kind in ((none, one, "Div"), (one, none, "Mod")):
            with pytest.raises(RuntimeFailure, match=f"{kind}.*division of integers by zero"):
                compiled.run({"x": x, "y": y, "z": z, "c": yes})


def test_a_size_of_at_most_one_is_repeated() -> None:
    """A slice that begins at max(0, 1 - n) of one row, as position biases are cut."""
    nodes = [
        node("Shape", ["x"], ["n"], start=1, end=2),
        node("Sub", ["one", "n"], ["from"]),
        node("Max", ["from", "zero"], ["start"]),
        node("Slice", ["bias", "start", "far", "axis"], ["cut"]),
        node("Add", ["x", "cut"], ["y"]),
    ]
    exported = model(
        nodes,
        [("x", FLOAT, ["rows", "n"]), ("bias", FLOAT, ["rows", 1])],
        [("y", FLOAT, ["rows", "n"])],
        one=np.array([1]),
        zero=np.array([0]),
        far=np.array([2**62]),
        axis=np.array([1]),
    )
    bias = np.float32([[0.5], [-3], [7]])
    with infuse.compile(exported) as compiled:
        assert not compiled.host_steps
        for count in (1, 2, 5, 40):
            x = np.arange(3 * count, dtype=np.float32).reshape(3, count)
            np.testing.assert_array_equal(compiled.run({"x": x, "bias": bias})["y"], x + bias)


def test_sizes_divided_by_an_empty_axis_are_an_error() -> None:
    def share(x: Any, y: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.astype(x.shape[0] * 100 // y.shape[0], xp.float32) + xp.sum(x)

    specs = {"x": infuse.Spec("float32", ("n",)), "y": infuse.Spec("float32", ("m",))}
    graph = infuse.trace(share, specs)
    x = np.ones(4, np.float32)
    with infuse.compile(infuse.optimize(graph)) as model:
        assert model.run({"x": x, "y": np.ones(3, np.float32)})["output"] == 137
        with pytest.raises(InfuseError, match="a division of integers by zero"):
            model.run({"x": x, "y": np.ones(0, np.float32)})
