"""The page of a graph as data: attributes, bodies, constants, and statistics against NumPy."""

import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.analysis import render_view, statistics_of, view_data
from infuse.analysis.statistics import BINS, CHUNK
from infuse.dtypes import DType
from infuse.errors import OptionError
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.parser import parse
from infuse.ir.types import TensorType
from infuse.ops.core.opaque import Opaque
from infuse.testing.patterns import graph_of
from tests.cli_tools import Cli
from tests.pure.cli_stage import cli, network
from tests.pure.costs import X

__all__ = ["cli", "network"]
pytestmark = pytest.mark.row("A1")
NUMBERS = [d for d in dtypes.ALL if d.kind in "fiub"]
CHOICE = """graph "g" (%x: float32[5], %c: bool[]) {
  %y = If(%c) {
    then_branch = graph "t" () {
      %a = Exp(%x)
      return a = %a
    }
    else_branch = graph "e" () {
      %b = Sin(%x)
      %d = Cos(%b)
      return d = %d
    }
  }
  return y = %y
}"""


# -- statistics ------------------------------------------------------------------------------------


def elements(rng: np.random.Generator, dtype: DType, count: int) -> np.ndarray[Any, Any]:
    """Elements with zeros among them, within the range of the type."""
    if dtype.kind == "f":
        return rng.normal(0.5, 1, count).clip(0.25, 2).round(1).astype(dtype.numpy)
    most = 2 ** min(dtype.bits - dtype.is_signed, 7) - 1
    return rng.integers(-most if dtype.is_signed else 0, most, count).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 9, CHUNK + 17])
def test_statistics_are_those_of_numpy(dtype: DType, count: int, rng: np.random.Generator) -> None:
    array = elements(rng, dtype, count)
    wide = array.astype(np.float64)
    result = statistics_of(array, dtype)
    assert (result.elements, result.nan, result.infinite) == (count, 0, 0)
    assert result.zeros == np.sum(wide == 0)
    if not count:
        assert result.minimum is result.maximum is result.mean is result.deviation is None
        assert result.histogram == []
        return
    assert (result.minimum, result.maximum) == (wide.min(), wide.max())
    # Sums in float64 of 65,553 elements: rounding of about 1e-16 for each of log2(n) levels.
    assert result.mean == pytest.approx(wide.mean(), rel=1e-12, abs=1e-12)
    assert result.deviation == pytest.approx(wide.std(), rel=1e-12, abs=1e-12)
    has_bars = count >= 9 and wide.min() < wide.max()
    assert (sum(result.histogram), len(result.histogram)) == ((count, BINS) if has_bars else (0, 0))


def test_the_histogram_is_that_of_numpy(rng: np.random.Generator) -> None:
    array = rng.standard_normal(2 * CHUNK + 5)
    expected, _ = np.histogram(array, BINS)
    assert statistics_of(array, dtypes.float64).histogram == expected.tolist()


def test_what_is_not_finite_is_counted_and_left_out(rng: np.random.Generator) -> None:
    array = rng.standard_normal(1000).astype(np.float32)
    array[::10], array[1::10], array[2::50], array[3::10] = np.nan, np.inf, -np.inf, -0.0
    result = statistics_of(array.astype(dtypes.bfloat16.numpy), dtypes.bfloat16)
    finite = array.astype(dtypes.bfloat16.numpy).astype(np.float64)
    finite = finite[np.isfinite(finite)]
    assert (result.nan, result.infinite, result.zeros) == (100, 120, 100)
    assert (result.minimum, result.maximum) == (finite.min(), finite.max())
    assert result.mean == pytest.approx(finite.mean(), rel=1e-12)
    assert result.deviation == pytest.approx(finite.std(), rel=1e-12)
    assert sum(result.histogram) == finite.size
    nothing = statistics_of(np.full(20, np.nan, np.float32), dtypes.float32)
    assert (nothing.nan, nothing.mean, nothing.histogram) == (20, None, [])


def test_extremes_of_wide_types_stay_exact_and_finite() -> None:
    largest = np.iinfo(np.uint64).max
    whole = statistics_of(np.array([largest, largest - 1], np.uint64), dtypes.uint64)
    assert (whole.minimum, whole.maximum) == (largest - 1, largest)
    most = float(np.finfo(np.float64).max)
    wide = statistics_of(np.array([-most, most] * 5), dtypes.float64)
    assert (wide.minimum, wide.maximum, wide.mean) == (-most, most, 0)
    assert wide.deviation == pytest.approx(most)
    assert (wide.histogram[0], wide.histogram[-1]) == (5, 5)


def test_strings_and_complex_numbers_are_counted() -> None:
    texts = statistics_of(np.array(["a", "", "bc"], object), dtypes.string)
    assert (texts.elements, texts.zeros, texts.minimum) == (3, 1, None)
    numbers = np.array([0, 1j, np.nan, np.inf], np.complex64)
    result = statistics_of(numbers, dtypes.complex64)
    assert (result.zeros, result.nan, result.infinite, result.mean) == (1, 1, 1, None)


def test_views_are_read_where_they_lie(rng: np.random.Generator) -> None:
    array = rng.standard_normal((1500, 1000)).astype(np.float32)
    tracemalloc.start()
    try:
        result = statistics_of(array.T[::-2], dtypes.float32)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.mean == pytest.approx(array[:, 1::2].astype(np.float64).mean(), rel=1e-9)
    assert peak < array.nbytes  # half of it in float64 would take as much as all of it


# -- data of a page --------------------------------------------------------------------------------


def test_nodes_have_all_attributes_and_point_to_their_constants() -> None:
    weight = np.arange(162, dtype=np.float32).reshape(6, 3, 3, 3)
    graph = graph_of(ops.relu(ops.conv(X, constant(weight, "w"), strides=(2, 2))), x=(1, 3, 9, 9))
    graph.metadata["author"] = "somebody"
    conv = graph.nodes[0]
    conv.name, conv.doc, conv.metadata["scope"] = "stem/conv", "the first layer", "net.stem"
    data = view_data(graph)
    told = data["graph"]["nodes"][0]
    assert told["attributes"]["strides"] == "(2, 2)"
    assert told["defaults"]["group"] == "1"
    assert (told["documentation"], told["metadata"]) == ("the first layer", {"scope": "net.stem"})
    (place,) = (each["place"] for each in told["inputs"] if "place" in each)
    stored = data["constants"][place]
    assert (stored["name"], stored["bytes"], stored["readers"]) == ("w", 648, [0])
    assert stored["type"] == "float32[6, 3, 3, 3]"
    assert stored["statistics"]["mean"] == 80.5
    assert stored["statistics"]["deviation"] == pytest.approx(weight.std(dtype=np.float64))
    assert data["model"]["metadata"] == {"author": "somebody"}
    assert data["graph"]["totals"]["parameters"] == 162


def test_constants_stand_once_and_the_largest_first() -> None:
    small, large = np.ones(9, np.float32), np.zeros((4, 9), np.float32)
    shared = constant(small, "small")
    graph = graph_of(ops.add(ops.add(X, shared), constant(large, "large")) * shared, x=(4, 9))
    constants = view_data(graph)["constants"]
    assert [c["name"] for c in constants] == ["large", "small"]
    assert constants[1]["readers"] == [0, 2]
    four = graph_of(ops.dequantize_linear(constant(np.ones(9), "q", dtypes.int4), 0.5), x=(1,))
    assert {c["name"]: c["bytes"] for c in view_data(four)["constants"]}["q"] == 5


def test_bodies_name_their_nodes() -> None:
    data = view_data(parse(CHOICE))
    nodes = data["graph"]["nodes"]
    (choice,) = (node for node in nodes if node["kind"] == "If")
    kinds = {
        name: [nodes[place]["kind"] for place in body["nodes"]]
        for name, body in choice["bodies"].items()
    }
    assert kinds == {"then_branch": ["Exp"], "else_branch": ["Sin", "Cos"]}
    assert choice["bodies"]["else_branch"]["outputs"] == ["d"]


def opaque() -> Graph:
    """An unknown operator whose attributes have no text form, or a long one."""
    graph = Graph("g")
    x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    attributes = {"table": np.zeros(100_000, np.float32), "body": object(), "alpha": 0.5}
    y = Value(TensorType(dtypes.float32, None), "y")
    graph.add_node(Node(Opaque("custom", "Magic", attributes), [x], [y], name="magic"))
    graph.add_output(y)
    return graph


def test_operators_that_are_not_known_are_shown_as_they_are() -> None:
    (node,) = view_data(opaque())["graph"]["nodes"]
    assert (node["domain"], node["kind"]) == ("custom", "Magic")
    assert node["attributes"] == {
        "table": "float32[100000] …",
        "body": "(object)",
        "alpha": "0.5",
    }
    assert (node["cost"]["flops"], node["is_counted"]) == (0, False)


def test_names_cannot_end_the_script_that_holds_them() -> None:
    graph = graph_of(ops.relu(X), x=(2,))
    graph.nodes[0].name = graph.nodes[0].doc = "</script><script>alert(1)</script>"
    page = render_view(view_data(graph), "<b>title</b>")
    assert "alert(1)</script>" not in page
    assert "<b>title</b>" not in page
    assert not re.search(r"\{\{\w+\}\}", page)
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    (text,) = re.findall(r'id="data">(.*?)</script>', page)
    assert json.loads(text)["graph"]["nodes"][0]["name"] == graph.nodes[0].name


# -- the verb and the command ----------------------------------------------------------------------


def test_the_verb_writes_pages_and_data(tmp_path: Path, network: Path) -> None:
    infuse.view(network, tmp_path / "a.html")
    assert f"<title>{network.name} · Infuse</title>" in (tmp_path / "a.html").read_text("utf-8")
    infuse.view(infuse.load(network), tmp_path / "a.json", set_dims={"batch": 3})
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert data["graph"]["totals"]["assumed"] == {}
    assert len(data["graph"]["nodes"]) == 7
    with pytest.raises(OptionError, match=r"neither in .html nor in .json"):
        infuse.view(network, tmp_path / "a.svg")
    with pytest.raises(OptionError, match="cannot be written"):
        infuse.view(network, tmp_path / "missing" / "a.html")
    with pytest.raises(OptionError, match="no dynamic axis 'bath'"):
        infuse.view(network, tmp_path / "b.html", set_dims={"bath": 3})
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".onnx"} == {
        "a.html",
        "a.json",
    }


def test_the_command_writes_a_page(cli: Cli, network: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    facts = cli("view", network, "-o", page, "--json").json
    assert (facts["nodes"], facts["constants"], facts["opened"]) == (7, 5, False)
    assert facts["report"] == {"path": str(page), "bytes": page.stat().st_size}
    assert "7 nodes, 5 constants, 124 parameters" in cli("view", network, "-o", page).out


@pytest.mark.parametrize("display", ["", ":0"])
def test_a_browser_opens_the_page_where_there_is_a_display(
    display: str, cli: Cli, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not addresses.append(url))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    facts = cli("view", network, "--json").json
    path = Path(facts["report"]["path"])
    assert path.is_file()
    assert addresses == ([path.as_uri()] if display else [])
    assert facts["opened"] == bool(display)


def test_the_command_refuses_what_it_cannot_show(cli: Cli, network: Path, tmp_path: Path) -> None:
    assert ".html or .json" in cli.refused("view", network, "-o", tmp_path / "page.svg")
    assert "does not exist" in cli.refused("view", network, "-o", tmp_path / "no" / "page.html")
    assert "no dynamic axis" in cli.refused(
        "view", network, "-o", tmp_path / "p.html", "--dim", "a=2"
    )
    compiled = tmp_path / "compiled"
    assert cli("compile", network, "-o", compiled).status == 0
    assert "its graph is not in it" in cli.refused("view", compiled, "-o", tmp_path / "p.html")
    assert not list(tmp_path.glob("*.html"))
