"""`infuse compare` and `infuse.compare`: figures against ONNX Runtime and NumPy, and what is
refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import infuse
from infuse.data.metrics import signal_to_noise
from infuse.errors import InputError, OptionError
from infuse.ir.parser import parse
from tests.cli_tools import Cli, small_network
from tests.pages import files

pytestmark = pytest.mark.row("A2")
DATA = Path(__file__).parent / "data"
DIGITS = DATA / "digits.onnx"
QUICK: dict[str, Any] = {
    "turns": infuse.Turns(rounds=1, seconds=0.0),
    "options": infuse.CompileOptions(threads=1),
}


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits' network with the weights of one convolution rounded to three bits."""
    path = tmp_path_factory.mktemp("models") / "coarse.onnx"
    files.coarse(path)
    return path


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of digits and of their labels."""
    folder = tmp_path_factory.mktemp("data")
    files.images(folder / "digits.npz")
    files.labels(folder / "labels.npy")
    return folder / "digits.npz", folder / "labels.npy"


def runtime(path: Path, feeds: dict[str, Any], *fetched: str) -> list[np.ndarray]:
    """What ONNX Runtime computes, also of inner values."""
    model = onnx.load(path)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in fetched if n not in known)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(list(fetched) or None, feeds))


def test_scores_and_agreement_are_those_of_onnxruntime(
    coarse: Path, examples: tuple[Path, Path]
) -> None:
    images, labels = np.load(examples[0])["image"], np.load(examples[1])
    result = infuse.compare(
        DIGITS,
        coarse,
        data=infuse.Examples({"image": images}, labels=labels, batch=100),
        layers=False,
        **QUICK,
    )
    exact, rounded = (runtime(path, {"image": images})[0] for path in (DIGITS, coarse))
    assert result.metric == "top1"
    assert result.a.score == np.mean(exact.argmax(-1) == labels)
    assert result.b.score == np.mean(rounded.argmax(-1) == labels)
    assert result.runs == -(-len(images) // 100)
    assert not result.is_random
    (output,) = result.outputs
    assert output.agreement.elements == exact.size
    # Rounding of float32 in another order moves the ratio of powers by less than a thousandth.
    assert output.agreement.sqnr == pytest.approx(signal_to_noise(rounded, exact), abs=0.01)
    assert output.agreement.top1 == np.mean(exact.argmax(-1) == rounded.argmax(-1))
    assert result.layers == []


def test_the_layer_that_departs_is_seen(coarse: Path, examples: tuple[Path, Path]) -> None:
    images = np.load(examples[0])["image"][:20]
    result = infuse.compare(
        DIGITS, coarse, data=infuse.Examples({"image": images}, batch=10), **QUICK
    )
    assert result.layer_runs == 2
    names = [row.value for row in result.layers]
    departed = names.index("/stem/stem.1/stem.1.0/Conv_output_0")
    before = [row.agreement for row in result.layers[:departed]]
    assert before
    assert all(each.is_equal for each in before)
    noise = [row.agreement.sqnr for row in result.layers[departed:]]
    assert max(noise) < 40
    checked = [names[departed], names[departed + 2], names[-1]]
    exact, rounded = (runtime(p, {"image": images}, *checked) for p in (DIGITS, coarse))
    for name, a, b in zip(checked, exact, rounded):
        row = result.layers[names.index(name)].agreement
        assert row.elements == a.size
        assert row.sqnr == pytest.approx(signal_to_noise(b, a), abs=0.01)


@pytest.mark.parametrize("ending", ["infuse", "onnx"])
def test_channels_that_compression_scaled_are_compared_as_they_were(
    ending: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Two layers, of which the first makes some channels large: their scales move."""
    weights = [rng.standard_normal(shape, np.float32) for shape in ((32, 64), (64, 64), (64, 8))]
    weights[0][:, ::16] *= 40
    graph = parse("""graph "g" (%x: float32[n, 32], %a: float32[32, 64], %b: float32[64, 64],
        %c: float32[64, 8]) { %p = MatMul(%x, %a) %q = Relu(%p) %r = MatMul(%q, %b)
        %s = Relu(%r) %y = MatMul(%s, %c) return y = %y }""")
    for value, array in zip(graph.inputs[1:], weights):
        value.default = array
    graph = infuse.optimize(graph, "none", fix_defaults=True)
    rows = {"x": rng.standard_normal((256, 32), np.float32)}
    data = infuse.Examples(rows, batch=64)
    small = infuse.compress(
        graph, infuse.Int8(), data=data, options=infuse.CompressOptions(allow_slower=True)
    )
    assert any("equalized" in layer.calibrator for layer in small.compression.layers)
    infuse.save(small, tmp_path / f"small.{ending}")
    result = infuse.compare(graph, tmp_path / f"small.{ending}", data, **QUICK)
    noise = {row.value: row.agreement.sqnr for row in result.layers}
    assert noise
    assert min(noise.values()) > 25, noise
    assert result.outputs[0].agreement.sqnr > 25


def test_a_model_beside_itself_is_equal() -> None:
    result = infuse.compare(DIGITS, DIGITS, data=infuse.Examples(dims={"batch": 2}), **QUICK)
    assert result.is_random
    assert any("random" in note for note in result.notes)
    assert result.inputs == {"image": "float32[2, 1, 8, 8]"}
    assert all(each.agreement.is_equal for each in (*result.outputs, *result.layers))
    assert len(result.layers) > 5
    assert result.a.disk_bytes == result.b.disk_bytes == DIGITS.stat().st_size
    assert result.a.operators == result.b.operators
    assert result.a.nodes == len(infuse.load(DIGITS).nodes)
    assert result.a.arena_bytes > 0
    assert result.a.loaded_bytes > result.a.weights_bytes > 0
    assert result.speedup == result.a.min_ms / result.b.min_ms
    json.dumps(result.to_dict(), allow_nan=False)
    assert (
        infuse.compare(
            DIGITS, DIGITS, data=infuse.Examples(metric="sqnr"), layers=False, **QUICK
        ).to_dict()["b"]["score"]
        is None
    )


def test_a_compiled_folder_has_no_layers(tmp_path: Path) -> None:
    with infuse.compile(DIGITS, infuse.CompileOptions(threads=1), output=tmp_path / "digits"):
        pass
    for pair in ((tmp_path / "digits", DIGITS), (DIGITS, tmp_path / "digits")):
        result = infuse.compare(*pair, **QUICK)
        assert result.outputs[0].agreement.is_equal
        assert result.layers == []
        assert any("digits is compiled" in note for note in result.notes)
        folder = result.a if pair[0].is_dir() else result.b
        assert folder.nodes is folder.flops is None
        assert folder.disk_bytes == sum(f.stat().st_size for f in (tmp_path / "digits").iterdir())


def test_external_data_count_for_the_size(tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    path, weights = tmp_path / "digits.onnx", tmp_path / "digits.data"
    onnx.save(model, path, save_as_external_data=True, location=weights.name, size_threshold=0)
    result = infuse.compare(path, DIGITS, layers=False, **QUICK)
    assert result.a.disk_bytes == path.stat().st_size + weights.stat().st_size


PLAIN = """graph "g" (%INPUT: float32[SIZE, 3]) {
  %h = Exp(%INPUT)
  %OUTPUT = Neg(%h)
  return OUTPUT = %OUTPUT
}"""


def plain(name: str = "x", size: str = "n", output: str = "y", kind: str = "float32") -> Any:
    text = PLAIN.replace("INPUT", name).replace("SIZE", size).replace("OUTPUT", output)
    return parse(text.replace("float32", kind))


def test_models_with_names_of_their_own_are_paired_in_order() -> None:
    result = infuse.compare(plain(), plain("image", "n", "scores"), **QUICK)
    assert [(o.name, o.other) for o in result.outputs] == [("y", "scores")]
    assert result.outputs[0].agreement.is_equal
    assert sum("paired in order" in note for note in result.notes) == 2
    assert result.a.disk_bytes is None


def test_rows_are_cut_as_both_models_take_them() -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3) / 24
    for a, b in ((plain(), plain(size="4")), (plain(size="4"), plain())):
        result = infuse.compare(a, b, data={"x": x}, **QUICK)
        assert result.runs == 2
        assert result.outputs[0].agreement.elements == 24
        assert infuse.compare(a, b, **QUICK).inputs == {"x": "float32[4, 3]"}
    assert (
        infuse.compare(
            plain(), plain(), data=infuse.Examples([{"x": x}, {"x": x[:1]}], batch=5), **QUICK
        ).runs
        == 3
    )


def test_an_input_that_is_no_batch_does_not_fix_the_rows() -> None:
    scaled = parse("""graph "g" (%x: float32[n, 3], %s: float32[1]) {
      %y = Mul(%x, %s)
      return y = %y
    }""")
    data = {"x": np.ones((8, 3), np.float32), "s": np.float32([2])}
    result = infuse.compare(scaled, scaled, data=infuse.Examples(data, batch=4), **QUICK)
    assert result.runs == 2
    with pytest.raises(OptionError, match="takes 4 rows a run"):
        infuse.compare(
            plain(size="4"),
            plain(size="4"),
            data=infuse.Examples({"x": data["x"]}, batch=2),
            **QUICK,
        )


def test_floats_of_other_widths_are_cast() -> None:
    half = plain(kind="float16")
    result = infuse.compare(plain(), half, data={"x": np.ones((2, 3), np.float32)}, **QUICK)
    assert any("cast to float16" in note for note in result.notes)
    # exp(1) in halves has eleven bits: half a unit in the last place is 2.4e-4 of it.
    assert 0 < result.outputs[0].agreement.relative_error < 3e-4


def test_outputs_that_are_not_numbers_everywhere() -> None:
    roots = parse("""graph "g" (%x: float32[3]) {
      %y = Sqrt(%x)
      return y = %y
    }""")
    values = parse("""graph "g" (%x: float32[3]) {
      %y = Abs(%x)
      return y = %y
    }""")
    result = infuse.compare(roots, values, data={"x": np.float32([-1, 1, 0])}, **QUICK)
    assert result.outputs[0].agreement.not_finite == 1
    assert result.outputs[0].agreement.equal == 2
    assert any("NaN or infinite in one model only" in note for note in result.notes)


TWO = """graph "g" (%x: float32[n, 3]) {
  %e = Exp(%x)
  %z = Neg(%x)
  return y = %e, z = %z
}"""


def test_outputs_of_one_model_alone_are_told() -> None:
    result = infuse.compare(parse(TWO), plain(), **QUICK)
    assert [o.name for o in result.outputs] == ["y"]
    assert any("output 'z'" in note for note in result.notes)


BYTES = """graph "g" (%x: uint8[n, 3]) {
  %y = Cast(%x, to=float32)
  return y = %y
}"""
X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("b", "data", "said"),
    [
        (plain, {"z": X}, "'z' not known"),
        (plain, {}, "'x' missing"),
        (plain, [], "no examples"),
        (plain, {"x": X.astype(np.float64)}, "float32, found float64"),
        (plain, {"x": X[:, :2]}, "3"),
        (plain, infuse.Examples({"x": X}, [1]), "1 labels for 2 examples"),
        (plain, infuse.Examples(labels=[1, 0]), "labels belong to data"),
        (plain, infuse.Examples(metric="top1"), "top1 needs labels"),
        (plain, infuse.Examples(metric="best"), "no metric 'best'"),
        (plain, infuse.Examples({"x": X}, [0, 9]), "beyond the 3 classes"),
        (plain, infuse.Examples(batch=2), "a batch cuts data"),
        (plain, infuse.Examples(dims={"m": 2}), "no dynamic axis 'm'"),
        (lambda: plain(size="4"), infuse.Examples({"x": X}, batch=2), "takes 4 rows a run"),
        (lambda: plain(size="4"), {"x": X}, "must be 4"),
        (lambda: parse(BYTES), None, "float32[n, 3] in A and uint8[n, 3] in B"),
        (lambda: parse(TWO.replace("n, 3", "n, 5")), None, "float32[n, 5] in B"),
        (
            lambda: parse(TWO.replace("(%x:", "(%w: float32[1], %x:")),
            None,
            "only model B has the input 'w'",
        ),
        (lambda: parse(TWO.replace("y =", "u =")), None, "no output in common: 'y'; 'u', 'z'"),
    ],
)
def test_what_does_not_fit_is_refused(b: Callable[[], Any], data: Any, said: str) -> None:
    with pytest.raises((InputError, OptionError)) as error:
        infuse.compare(plain(), b(), data, layers=False, **QUICK)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: infuse.Examples({"x": X}, batch=0), "batch is 0"),
        (lambda: infuse.Turns(rounds=0), "rounds is 0"),
        (lambda: infuse.Turns(seconds=-1.0), "seconds is -1.0"),
    ],
)
def test_options_that_mean_nothing_are_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        make()


def test_outputs_of_other_shapes_cannot_be_compared() -> None:
    summed = parse("""graph "g" (%x: float32[n, 3]) {
      %y = ReduceSum(%x, int64[1]{1}, keepdims=0)
      return y = %y
    }""")
    with pytest.raises(InputError, match=r"float32\[1, 3\] in A and float32\[1\] in B"):
        infuse.compare(plain(), summed, data=infuse.Examples(dims={"n": 1}), **QUICK)


# -- the command -----------------------------------------------------------------------------------

FAST = ("--rounds", 1, "--seconds", 0, "--threads", 1)


def test_the_command_prints_and_writes_the_same(
    cli: Cli, coarse: Path, examples: tuple[Path, Path], tmp_path: Path
) -> None:
    arguments = ("--data", examples[0], "--labels", examples[1], "--batch", 60)
    text = cli("compare", DIGITS, coarse, *arguments, *FAST, "--top", 3)
    assert text.status == 0
    for part in ("score: top1", "size on disk", "3 of ", "those that differ most", "speed: B is"):
        assert part in text.out
    assert "random" not in text.out
    page, data = tmp_path / "pair.html", tmp_path / "pair.json"
    facts = cli("compare", DIGITS, coarse, *arguments, *FAST, "--json", "--report", data).json
    assert facts["a"]["score"] > 0.9
    assert facts["metric"] == "top1"
    assert facts.pop("report") == {"path": str(data), "bytes": data.stat().st_size}
    assert json.loads(data.read_text()) == facts
    written = cli("compare", DIGITS, coarse, *FAST, "--no-layers", "--report", page).out
    assert "the inputs are random" in written
    assert f"wrote {page}" in written
    assert "</html>" in page.read_text()


def test_bad_files_are_refused(cli: Cli, examples: tuple[Path, Path], tmp_path: Path) -> None:
    data, labels = examples
    np.savez(tmp_path / "empty.npz")
    np.savez(tmp_path / "other.npz", picture=np.zeros((1, 1, 8, 8), np.float32))
    np.savez(tmp_path / "wide.npz", image=np.zeros((1, 1, 9, 9), np.float32))
    np.save(tmp_path / "short.npy", np.zeros(3, np.int64))
    (tmp_path / "junk.npz").write_bytes(b"junk")
    (tmp_path / "plain").mkdir()
    other = small_network(tmp_path / "small.onnx")
    for arguments, said in (
        ([tmp_path / "none.onnx", DIGITS], "none.onnx"),
        ([DIGITS, tmp_path / "none.onnx"], "none.onnx"),
        ([DIGITS, tmp_path / "plain"], "folder"),
        ([DIGITS, other], "float32[batch, 3, 8, 8] in B"),
        ([DIGITS, DIGITS, "--data", tmp_path / "empty.npz"], "'image' missing"),
        ([DIGITS, DIGITS, "--data", tmp_path / "other.npz"], "'picture' not known"),
        ([DIGITS, DIGITS, "--data", tmp_path / "wide.npz"], "found 9"),
        ([DIGITS, DIGITS, "--data", tmp_path / "junk.npz"], "no NumPy arrays"),
        ([DIGITS, DIGITS, "--data", labels], "not an .npz"),
        ([DIGITS, DIGITS, "--data", data, "--labels", data], "archive of arrays"),
        ([DIGITS, DIGITS, "--data", data, "--labels", tmp_path / "short.npy"], "3 labels"),
        ([DIGITS, DIGITS, "--metric", "top2"], "no metric 'top2'"),
        ([DIGITS, DIGITS, "--dim", "bath=2"], "no dynamic axis 'bath'"),
        ([DIGITS, DIGITS, "--report", tmp_path / "page.txt"], "does not end in"),
    ):
        assert said in cli.refused("compare", *arguments, *FAST, "--no-layers"), arguments
    assert not list(tmp_path.glob("*.html"))


def test_a_metric_of_a_file(cli: Cli, examples: tuple[Path, Path], tmp_path: Path) -> None:
    code = "def runs(outputs, labels):\n    return len(outputs) + len(labels)\n"
    (tmp_path / "mine.py").write_text(code)
    data, labels = examples
    arguments = ("--data", data, "--labels", labels, "--batch", 90, "--no-layers", *FAST)
    facts = cli(
        "compare", DIGITS, DIGITS, *arguments, "--metric", f"{tmp_path / 'mine.py'}:runs", "--json"
    ).json
    assert facts["a"]["score"] == facts["b"]["score"] == 5 + 450
    other = f"{tmp_path / 'mine.py'}:other"
    assert "no function 'other'" in cli.refused(
        "compare", DIGITS, DIGITS, *arguments, "--metric", other
    )


def test_what_has_no_native_code_is_compared_too(tmp_path: Path) -> None:
    """Inner values beside steps of the interpreter, and an output that is text."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], name="square"),
        helper.make_node("Cast", ["square"], ["text"], to=TensorProto.STRING, name="text"),
        helper.make_node("Neg", ["square"], ["y"], name="neg"),
    ]
    outputs = [info("text", TensorProto.STRING, ["n"]), info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, ["n"])], outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        tmp_path / "m.onnx",
    )
    result = infuse.compare(tmp_path / "m.onnx", tmp_path / "m.onnx", **QUICK)
    assert result.a.host_steps
    assert [row.value for row in result.layers] == ["square"]
    assert all(o.agreement.is_equal for o in result.outputs)
