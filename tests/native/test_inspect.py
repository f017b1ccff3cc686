"""`infuse inspect` and `infuse.inspect`: what they print, write and refuse."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.errors import OptionError
from infuse.profiling import measure_roof
from infuse.targets import Target
from tests.cli_tools import Cli, small_network

pytestmark = pytest.mark.row("A1")
ONE_THREAD = infuse.CompileOptions(threads=1)
CONV = 2 * 4 * 6 * 6 * 27
"""FLOPs of the small network's convolution for one image."""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network(tmp_path / "small.onnx")


def test_the_layers_of_a_file(network: Path) -> None:
    result = infuse.inspect(network, infuse.Examples(dims={"batch": 3}), ONE_THREAD)
    assert [row.label for row in result.layers] == [
        *("conv", "norm", "nothing", "relu", "gate", "swish", "pool")
    ]
    conv = result.layers[0]
    assert conv.flops == 3 * CONV
    assert result.total.parameters == 4 * 27 + 4 * 4
    roof = measure_roof(Target.resolve("native"), 1)
    assert result.roof == roof
    assert conv.seconds == pytest.approx(roof.bound(conv.flops, conv.bytes))


def test_a_level_rewrites_the_graph_first(network: Path) -> None:
    result = infuse.inspect(network, options=ONE_THREAD, rules="all")
    assert len(result.layers) < 7
    assert result.level == "all"
    assert result.total.macs * 2 == CONV


def test_the_table_has_rows_in_order_and_a_total(cli: Cli, network: Path) -> None:
    text = cli("inspect", network, "--threads", 1, "--dim", "batch=2", "--top", 3).out
    assert "batch = 2; level none; 1 thread, target native" in text
    assert "4 more" in text
    assert "GFLOP/s" in text
    assert text.index("conv") < text.index("swish")
    kinds = cli("inspect", network, "--threads", 1, "--by", "kind").out
    assert "BatchNormalization" in kinds
    assert "total" in kinds


def test_json_and_reports_have_the_same_data(cli: Cli, network: Path, tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    facts = cli("inspect", network, "--threads", 1, "--json", "--report", data).json
    assert facts["total"]["flops"] == sum(row["flops"] for row in facts["layers"])
    assert facts["total"]["bound_ms"] == pytest.approx(
        sum(row["bound_ms"] for row in facts["kinds"])
    )
    assert facts.pop("report") == {"path": str(data), "bytes": data.stat().st_size}
    assert json.loads(data.read_text()) == facts
    assert f"wrote {page}" in cli("inspect", network, "--threads", 1, "--report", page).out
    assert "</html>" in page.read_text()


def test_a_name_cannot_end_the_script(cli: Cli, tmp_path: Path) -> None:
    name = "</script><b>"
    node = helper.make_node("Relu", ["x"], ["y"], name=name)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    path, page = tmp_path / "m.onnx", tmp_path / "m.html"
    onnx.save(helper.make_model(helper.make_graph([node], "g", info[:1], info[1:])), path)
    assert cli("inspect", path, "--threads", 1, "--report", page).status == 0
    assert name not in page.read_text()


def test_a_model_without_layers_is_inspected(cli: Cli, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    info = helper.make_tensor_value_info("w", TensorProto.FLOAT, [3])
    path = tmp_path / "empty.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [info], [weight])), path)
    assert cli("inspect", path, "--threads", 1, "--json").json["layers"] == []
    assert "total" in cli("inspect", path, "--threads", 1).out


def test_bad_input_is_refused(cli: Cli, network: Path, tmp_path: Path) -> None:
    with infuse.compile(network, output=tmp_path / "compiled"):
        pass
    for arguments, said in (
        ([tmp_path / "compiled"], "the graph of a compiled model is not in it"),
        ([network, "--dim", "bath=2"], "no dynamic axis 'bath'"),
        ([network, "--dim", "batch"], "does not give a dynamic axis its size"),
        ([network, "--target", "z80"], "no target 'z80'"),
        ([network, "--report", tmp_path / "page.txt"], "does not end in .html or .json"),
        ([network, "--report", tmp_path / "none" / "page.html"], "does not exist"),
        ([tmp_path / "none.onnx"], "none.onnx"),
    ):
        assert said in cli.refused("inspect", *arguments)
    for option in ("--threads", "--top"):
        assert cli("inspect", network, option, -1).status == 2
    with pytest.raises(OptionError, match="threads is 0"):
        infuse.inspect(network, threads=0)
    with pytest.warns(FutureWarning, match="options=CompileOptions"):
        infuse.inspect(network, threads=1)
    for data, options, said in (
        (infuse.Examples(seed=3), ONE_THREAD, "seed has no use in inspect"),
        (
            infuse.Examples(),
            infuse.CompileOptions(weights="small"),
            "weights has no use in inspect",
        ),
    ):
        with pytest.raises(OptionError, match=said):
            infuse.inspect(network, data, options)
