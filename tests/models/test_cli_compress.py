"""`infuse compress` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.cli.main import main
from tests.compression_networks import image_network, images

pytestmark = [pytest.mark.row("Z1", "Z2")]


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A folder with a network, examples and labels that it gives them."""
    graph, data = image_network(rng, "batch"), images(rng)
    infuse.save(graph, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **data)
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
        scores = compiled.run(data)["scores"]
    np.save(tmp_path / "labels.npy", scores.argmax(-1))
    (tmp_path / "metric.py").write_text(
        "def score(outputs, labels):\n    return float(len(labels))\n"
    )
    return tmp_path


def run(folder: Path, *words: str) -> int:
    arguments = [str(folder / word) if "." in word and "=" not in word else word for word in words]
    return main(["compress", str(folder / "model.onnx"), "--threads", "1", *arguments])


def test_a_model_is_compressed_within_a_bound(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "data.npz", "--labels", "labels.npy", "--max-drop", "10%", "--allow-slower")
    assert run(model, "-o", "small.infuse", *words) == 0
    text = capsys.readouterr().out
    assert "top1 on 24 runs: 1 →" in text
    assert "the bound of 10% is met" in text
    assert "4 int8" in text
    small = infuse.load(model / "small.infuse")
    assert any(node.kind == "QuantizeLinear" for node in small.nodes)


def test_a_report_is_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--data", "data.npz", "--labels", "labels.npy", "--allow-slower", "--json")
    assert run(model, "-o", "small.infuse", *words, "--report", "page.json") == 0
    facts = json.loads(capsys.readouterr().out)
    written = json.loads((model / "page.json").read_text())
    size = (model / "page.json").stat().st_size
    assert facts["report"] == {"path": str(model / "page.json"), "bytes": size}
    assert {name: facts[name] for name in written} == written
    assert [row["name"] for row in written["tried"]] == ["original", ""]
    assert written["tried"][1]["is_result"]
    for name, why in (("page.txt", "does not end in"), ("none/page.html", "does not exist")):
        assert run(model, "-o", "other.infuse", *words, "--report", name) == 1
        assert why in capsys.readouterr().err
    assert not (model / "other.infuse").exists()


def test_a_model_is_pruned(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--data", "data.npz", "--labels", "labels.npy", "--prune", "50%", "--json")
    assert run(model, "-o", "small.onnx", *words) == 0
    facts = json.loads(capsys.readouterr().out)
    pruning = facts["pruning"]
    assert pruning["macs"] <= 0.5 * pruning["macs_before"]
    assert pruning["groups"][0]["after"] < pruning["groups"][0]["before"]
    assert facts["layers"] == []
    assert [row["name"] for row in facts["tried"]] == ["original", "pruned"]
    assert facts["tried"][1]["weight_bytes"] == facts["weight_bytes"]


def test_what_may_be_pruned_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--data", "data.npz", "--prune", "10%", "--json")
    assert run(model, "-o", "small.onnx", *words, "--prune-kinds", "hidden, blocks") == 0
    facts = json.loads(capsys.readouterr().out)
    (block,) = facts["pruning"]["blocks"]
    assert block["is_removed"]
    assert facts["pruning"]["rounds"][0]["blocks"] == [block["name"]]
    assert f"block {block['name']} removed" in facts["lines"]


def test_a_pruned_model_is_tuned_by_features(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "data.npz", "--prune", "50%", "--tune-epochs", "1", "--json")
    assert run(model, "-o", "small.onnx", *words, "--tune-features", "1") == 0
    (only,) = json.loads(capsys.readouterr().out)["pruning"]["rounds"]
    assert only["features"]


def test_the_answer_as_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "-o", "small.onnx", "--int8-dynamic", "--allow-slower", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metric"] == "cosine"
    assert facts["output_bytes"] == (model / "small.onnx").stat().st_size
    assert {layer["form"] for layer in facts["layers"]} == {"float32", "int8 dynamic"}


def test_a_function_of_a_file_is_the_metric(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "data.npz", "--labels", "labels.npy", "--allow-slower")
    assert run(model, "-o", "small.infuse", *words, "--metric", "metric.py:score") == 0
    assert "score on 24 runs: 24 → 24" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prune", "half"), "not a part of the model"),
        (("--prune", "50%", "--tune", "1"), "tuning needs data"),
        (("--prune", "50%", "--prune-kinds", "depth"), "is called depth"),
        (("--prune-kinds", "blocks"), "nothing is"),
        (("--tune-epochs", "1"), "tuning needs data"),
        (("--prune", "50%", "--tune-features", "1"), "nothing is tuned"),
        (("--data", "data.npz", "--tune", "1", "--tune-features", "-1"), "features is -1.0"),
        (("--int4", "--tune-epochs", "1"), "int4 cannot be tuned"),
        ((), "needs data"),
        (("--data", "labels.npy"), "not an .npz archive"),
        (("--data", "none.npz"), "cannot be opened"),
        (("--data", "data.npz", "--labels", "data.npz"), "an archive of arrays"),
        (("--data", "data.npz", "--metric", "best"), "no metric 'best'"),
        (("--data", "data.npz", "--labels", "labels.npy", "--metric", "none.py:f"), "no file"),
        (
            ("--data", "data.npz", "--labels", "labels.npy", "--metric", "metric.py:f"),
            "no function",
        ),
        (("--data", "data.npz", "--max-drop", "lots"), "bounds nothing"),
    ],
)
def test_what_means_nothing_is_refused(
    model: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, "-o", "small.infuse", *words) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (model / "small.infuse").exists()


def test_a_bound_that_cannot_be_met_ends_with_status_1(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "metric.py").write_text(
        "def score(outputs, labels):\n"
        "    score.calls = getattr(score, 'calls', 0) + 1\n"
        "    return 1.0 if score.calls == 1 else 0.0\n"
    )
    words = ("--data", "data.npz", "--labels", "labels.npy", "--metric", "metric.py:score")
    assert (
        run(model, "-o", "small.infuse", *words, "--max-drop", "1%", "--report", "page.html") == 1
    )
    streams = capsys.readouterr()
    assert "INF-801" in streams.err
    assert "falls by more than 1%" in streams.err
    assert "layers: 4 float32" in streams.out
    assert '"is_met":false' in (model / "page.html").read_text()
    assert not (model / "small.infuse").exists()


def test_weights_become_zero(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-o", "small.onnx", "--sparse", "75%", "--block", "4x1", "--allow-slower", "--json")
    assert run(model, *words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert "75% zero" in {layer["form"] for layer in facts["layers"]}
    small = infuse.load(model / "small.onnx")
    arrays = [v.const for v in small.constants() if v.const is not None and v.const.size == 64]
    assert any(np.mean(array == 0) == 0.75 for array in arrays)


@pytest.mark.parametrize(("words", "why"), [
    (("--sparse", "120%"), "'120%' is not a part of weights"),
    (("--sparse", "most"), "'most' is not a part of weights"),
    (("--sparse", "nan"), "'nan' is not a part of weights"),
    (("--sparse", "80%", "--block", "big"), "'big' is not a pattern"),
    (("--sparse", "80%", "--block", "7x7"), "--block '7x7': no kernel multiplies by such blocks"),
    (("--sparse", "80%", "--block", "2:4"), "makes 50% of the weights zero"),
    (("--block", "16x1"), "--block says where zeros lie"),
])  # fmt: skip
def test_zeros_that_mean_nothing(
    words: tuple[str, ...], why: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, "-o", "small.onnx", *words) == 1
    assert why in capsys.readouterr().err
    assert not (model / "small.onnx").exists()


@pytest.mark.parametrize("flag", ["--data", "--validation"])
def test_data_without_numbers_are_refused_by_the_name_of_the_input(
    flag: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (value,) = infuse.load(model / "model.onnx").inputs
    array = np.full([d if isinstance(d, int) else 1 for d in value.shape], np.nan)
    np.savez(model / "nan.npz", **{value.name: array.astype(np.float32)})
    assert run(model, "-o", "small.onnx", "--int8", flag, "nan.npz") == 1
    assert f"no finite number for the input {value.name!r}" in capsys.readouterr().err


def test_clusters_are_coded_in_the_file(
    tmp_path: Path, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    weights, model = rng.standard_normal((96, 64)).astype(np.float32), tmp_path
    spec = infuse.Spec("float32", (1, 96))
    infuse.save(infuse.trace(lambda x: x @ weights, {"x": spec}), model / "model.onnx")
    assert run(model, "-o", "small.onnx", "--clusters") == 1
    error = capsys.readouterr().err
    assert ".infuse" in error
    assert "Traceback" not in error
    assert not (model / "small.onnx").exists()
    assert run(model, "-o", "small.infuse", "--clusters", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert any(layer["form"].startswith("clusters of") for layer in facts["layers"])
    infuse.save(infuse.load(facts["output"]), model / "plain.infuse")
    assert facts["output_bytes"] < 0.5 * (model / "plain.infuse").stat().st_size


def test_tables_fit_a_narrow_terminal(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = infuse.load(model / "model.onnx")
    for node in graph.nodes:
        node.name = f"/features/stage.0/block.0/{node.name}/a_name_of_an_exporter"
    infuse.save(graph, model / "model.onnx")
    words = ("-o", "small.onnx", "--data", "data.npz", "--int8-dynamic", "--allow-slower")
    texts = {}
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run(model, *words) == 0
        texts[columns] = capsys.readouterr().out
        table = texts[columns].partition("layers:")[0].splitlines()
        assert max(map(len, table)) <= columns
        assert len(table) < 14  # a line for each layer
    assert "…" in texts[80]
    assert "…" not in texts[200]
    reasons = re.findall(r"^\(\d\): (.+)$", texts[80], re.MULTILINE)
    assert reasons
    for reason in reasons:
        assert reason in " ".join(texts[200].split())


def test_phases_are_lines_where_nobody_watches(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, "-o", "small.infuse", "--data", "data.npz", "--allow-slower") == 0
    lines = capsys.readouterr().err.splitlines()
    names = ["optimize", "rotate", "equalize", "calibrate", "score", "try others"]
    assert [re.sub(r" \(\d+:\d\d:\d\d\)$", "", line) for line in lines] == [
        f"model.onnx: phase {number} of 6, {name}" for number, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize("which", ["--data", "--validation"])
@pytest.mark.parametrize("score", [(), ("--labels", "labels.npy")])
def test_data_that_are_not_numbers_are_named(
    which: str, score: tuple[str, ...], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = dict(np.load(model / "data.npz"))
    (name,) = arrays
    arrays[name] = arrays[name].copy()
    arrays[name][5].flat[3] = np.nan
    np.savez(model / "holes.npz", **arrays)
    data = ("--data", "data.npz") if which == "--validation" else ()
    assert run(model, "-o", "small.infuse", *data, which, "holes.npz", *score) == 1
    error = capsys.readouterr().err
    assert f"{model / 'holes.npz'}: the data hold NaN" in error
    assert f"1 of {arrays[name].size} elements of {name!r}, the first at [5, 0, 0, 3]" in error
    assert not (model / "small.infuse").exists()


@pytest.mark.filterwarnings("always:the compressed model is far:RuntimeWarning")
def test_a_model_that_is_far_from_the_original_is_warned_of(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--allow-slower", "--sparse", "75%", "--block", "4x1")
    assert run(model, "-o", "small.infuse", *words) == 0
    said = capsys.readouterr().err
    assert re.search(r"warning: the compressed model is far from the original: cosine 0\.\d+", said)
    assert "--max-drop" in said
    bound = ("--data", "data.npz", "--max-drop", "99%")
    assert run(model, "-o", "small.infuse", *words, *bound) == 0
    assert "warning" not in capsys.readouterr().err
