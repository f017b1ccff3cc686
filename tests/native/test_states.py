"""States: inputs that a run changes where they lie."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import GraphError, InputError, RuntimeFailure, TypeMismatchError
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate

GRAPH = """graph "cached" (%q: float32[t, 24], %k: float32[t, 8], %v: float32[t, 8],
    %keys: state(@[p, 1, 8, 32]), %values: state(@[p, 1, 32, 8]),
    %starts: int64[s + 1], %lengths: int64[s], %pages: int64[s, m]) {
  %y, %k2, %v2 = infuse::PagedAttention(%q, %k, %v, %keys, %values,
    %starts, %lengths, %pages, q_num_heads=3, kv_num_heads=1)
  %z = Add(%y, %q)
  return z = %z, k2 = %k2, v2 = %v2
}"""
SECOND = """  %y2, %k3, %v3 = infuse::PagedAttention(%q, %k, %v, %k2, %v2,
    %starts, %lengths, %pages, q_num_heads=3, kv_num_heads=1)
"""


def feeds(dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = {"q": (70, 24), "k": (70, 8), "v": (70, 8)}
    rows = {name: rng.standard_normal(size).astype("f") for name, size in sizes.items()}
    caches = {"keys": (6, 1, 8, 32), "values": (6, 1, 32, 8)}
    return {
        **rows,
        **{name: rng.standard_normal(size).astype(dtype) for name, size in caches.items()},
        "starts": np.array([0, 69, 70]),
        "lengths": np.array([100, 1]),
        "pages": np.array([[3, 1, 0, 4], [2, 9, 9, 9]]),
    }


@pytest.mark.row("L2")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_states_are_changed_where_they_lie(dtype: str) -> None:
    graph, given = parse(GRAPH.replace("@", dtype)), feeds(dtype)
    expected = evaluate(graph, given)
    with infuse.compile(graph, infuse.CompileOptions(threads=2)) as model:
        assert [spec.name for spec in model.outputs] == ["z"]
        result = model.run(given)
    np.testing.assert_allclose(result["z"], expected["z"], atol=2e-6)
    np.testing.assert_array_equal(given["keys"], expected["k2"])
    np.testing.assert_array_equal(given["values"], expected["v2"])


@pytest.mark.row("L2")
def test_what_cannot_be_changed_is_refused() -> None:
    given = feeds("float16")
    fixed = given["keys"].copy()
    fixed.flags.writeable = False
    others = given["keys"].astype("f"), np.asfortranarray(given["keys"]), given["keys"].tolist()
    wrong: list[Any] = [fixed, *others]
    with infuse.compile(parse(GRAPH.replace("@", "float16"))) as model:
        for keys in wrong:
            with pytest.raises(InputError, match="is a state"):
                model.run({**given, "keys": keys})


@pytest.mark.row("L2")
@pytest.mark.parametrize(
    "change",
    [
        {"pages": np.array([[3, 1, 0, 6], [2, 9, 9, 9]])},
        {"pages": np.array([[3, -1, 0, 4], [2, 9, 9, 9]])},
        {"lengths": np.array([68, 1])},
        {"lengths": np.array([129, 1])},
        {"starts": np.array([0, 71, 70])},
        {"starts": np.array([1, 69, 70])},
        {"starts": np.array([0, 2**32, 70])},
        {"starts": np.array([0, -(2**63), 70])},
        {"lengths": np.array([2**32 + 100, 1])},
        {"lengths": np.array([-(2**63), 1])},
        {"starts": np.array([0, 69, 71])},
    ],
)
def test_sequences_that_do_not_exist_fail(change: dict[str, np.ndarray]) -> None:
    given = {**feeds("float16"), **change}
    before = given["keys"].copy()
    model = infuse.compile(parse(GRAPH.replace("@", "float16")))
    with model, pytest.raises(RuntimeFailure, match="PagedAttention"):
        model.run(given)
    np.testing.assert_array_equal(given["keys"], before)


@pytest.mark.row("L2")
def test_states_are_read_once() -> None:
    graph = parse(GRAPH.replace("@", "float16"))
    verify(graph)
    text = print_graph(graph)
    assert print_graph(parse(text)) == text
    twice = GRAPH.replace("  %z =", SECOND + "  %z =").replace("k2 = %k2, v2 = %v2", "v2 = %v3")
    faults = {
        twice.replace("return z = %z, v2", "return v2 = %v3, z = %z, v2"): "in front of a tensor",
        twice.replace("%k2, %v2,\n", "%keys, %values,\n"): "read 2 times",
        GRAPH.replace(", k2 = %k2", ""): "read 0 times",
        GRAPH.replace("k2 = %k2", "k2 = %k3").replace(
            "  %z =", "  %k3 = Identity(%k2)\n  %z ="
        ): "does not say what becomes of it",
    }
    verify(parse(twice.replace("v2 = %v3", "k3 = %k3, v3 = %v3").replace("@", "float32")))
    for source, message in faults.items():
        with pytest.raises(GraphError, match=message):
            verify(parse(source.replace("@", "float32")))


@pytest.mark.row("L2")
def test_states_in_files(tmp_path: Path) -> None:
    graph = parse(GRAPH.replace("@", "float16"))
    infuse.save(graph, tmp_path / "cached.infuse")
    again = infuse.load(tmp_path / "cached.infuse")
    assert [v.type for v in again.inputs] == [v.type for v in graph.inputs]
    with pytest.raises(TypeMismatchError, match="ONNX has no states"):
        infuse.save(graph, tmp_path / "cached.onnx")
    assert not (tmp_path / "cached.onnx").exists()
