"""The history of figures: what is added once, and a page that is that of the file."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks import history


def results(ours: float = 0.002, **fields: Any) -> dict[str, Any]:
    """What benchmarks.zoo writes of two networks, of which one has no time of a peer."""
    timing = {"median": 1.0, "runs": 3}
    times = {
        "infuse": {"best": ours, **timing},
        "onnxruntime": {"best": 0.003, **timing},
        "openvino": {"best": 0.001, **timing},
    }
    rows = [
        {"model": "net<1>", "threads": n, "times": times, "apart": ["openvino"]} for n in (1, 2)
    ]
    alone = {"model": "alone", "threads": 1, "times": {"infuse": times["infuse"]}}
    versions = {"infuse": "0.2.0", "onnxruntime": "1.0", "openvino": "2.0"}
    machine = {"processor": "P", "generation": "model 1", "cores": 2, "versions": versions}
    return {
        "machine": machine,
        "precision": "fp32",
        "dims": {"batch": 1},
        "rows": [*rows, alone],
        **fields,
    }


def test_an_entry_has_the_fastest_peer_that_computes_the_same() -> None:
    one, two = history.entries(results(), "2026-01-02", "abc")
    assert (one.threads, two.threads) == (1, 2)
    assert (one.peer, one.infuse_ms, one.peer_ms, one.ratio) == ("onnxruntime", 2.0, 3.0, 1.5)
    assert one.versions == {"infuse": "0.2.0", "onnxruntime": "1.0"}
    assert one.series == "P (model 1), 2 cores, fp32, batch 1"


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert history.append(history.entries(results(), "2026-01-02", "abc"), path) == 2
    assert history.append(history.entries(results(), "2026-01-02", "abc"), path) == 0
    assert (
        history.append(history.entries(results(precision="bf16"), "2026-01-02", "abc"), path) == 2
    )
    assert history.append(history.entries(results(0.001), "2026-01-01", "old"), path) == 2
    assert [entry.commit for entry in history.load(path)][:2] == ["old", "old"]
    assert len(history.load(path)) == 6


def test_the_command_adds_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history.append, "__defaults__", (tmp_path / "history.jsonl",))
    monkeypatch.setattr(history.load, "__defaults__", (tmp_path / "history.jsonl",))
    (tmp_path / "zoo.json").write_text(json.dumps(results()))
    given = ["append", str(tmp_path / "zoo.json"), "--commit", "abc", "--date", "2026-01-02"]
    assert history.main(given) == 0
    assert "2 of 2 entries are new" in capsys.readouterr().out
    assert [entry.date for entry in history.load()] == ["2026-01-02"] * 2


def test_the_page_has_a_plot_of_each_network_and_machine(tmp_path: Path) -> None:
    found = [
        *history.entries(results(0.001), "2026-01-01", "old"),
        *history.entries(results(), "2026-01-02", "new"),
        *history.entries(results(precision="bf16"), "2026-01-02", "new"),
    ]
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "gone.svg").write_text("")
    history.write_page(found, tmp_path)
    drawings = sorted(path.name for path in (tmp_path / "history").iterdir())
    assert drawings == [
        "p-model-1-2-cores-bf16-batch-1.svg",
        "p-model-1-2-cores-fp32-batch-1.svg",
    ]
    image = ET.parse(tmp_path / "history" / drawings[1])
    lines = image.findall(".//{*}polyline")
    assert len(lines) == 4  # two engines with two numbers of threads
    assert all(len(str(line.get("points")).split()) == 2 for line in lines)
    assert "net<1>" in [text.text for text in image.findall(".//{*}text")]
    text = (tmp_path / "history.md").read_text("utf-8")
    assert "| 2026-01-01 | old | infuse 0.2.0, onnxruntime 1.0 | 1 | 3.00 (lowest 3.00)" in text
    assert "| net<1> | 2 | 2026-01-02 | 2.00 | 3.00 ONNX Runtime | 1.50 |" in text


def test_the_page_is_that_of_the_file() -> None:
    files = history.page(history.load())
    assert len(files) > 3
    for name, text in files.items():
        assert (history.DOCS / name).read_text("utf-8") == text, "python -m benchmarks.history page"
