"""The matrix of platforms: its pages are those of the stored results, which a broken run keeps."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import platforms, platforms_page
from tests import chinese

pytestmark = pytest.mark.row("R6")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(platforms_page.RESULTS.read_text("utf-8"))
    return stored


@pytest.mark.parametrize("language", platforms_page.PAGES)
def test_the_page_is_that_of_the_results(language: str, results: dict[str, Any]) -> None:
    stored = chinese.STAMP.sub("", platforms_page.PAGES[language].read_text("utf-8"))
    made = platforms_page.page(results, language)
    assert stored == made, "run python -m benchmarks.platforms_page"


def test_results_are_of_what_is_tried(results: dict[str, Any]) -> None:
    assert tuple(results["networks"]) == platforms.NETWORKS
    assert results["parts"] == list(platforms.GROUPS)
    assert list(results["rows"]) == [t for t in platforms.TARGETS if t in results["rows"]]
    for row in results["rows"].values():
        assert row.keys() <= {*results["networks"], *results["parts"]}
        for answer in row.values():
            bound = platforms.BOUNDS[answer.get("precision", "fp32")]
            assert answer.get("difference", 0) <= bound


def test_cells_say_what_was_not_run_and_what_is_wrong(results: dict[str, Any]) -> None:
    changed = copy.deepcopy(results)
    target = next(iter(changed["rows"]))
    changed["rows"][target] = {
        "mobilenet_v2": {"error": "a | b"},
        "resnet18": {"error": "qemu-riscv64: Assertion `x' failed."},
        "resnet50": {"difference": 2.6e-7, "library_bytes": 10240},
    }
    changed["not_run"] = {"wasm32": "nodejs is missing"}
    lines = platforms_page.page(changed, "en").splitlines()
    cells = next(line for line in lines if "a \\| b" in line)
    assert cells.startswith(f"| `{target}` | wrong: a \\| b | not run |")
    assert "| QEMU ends | 3e-07 |" in cells
    assert "* `wasm32`: nodejs is missing." in lines


def test_a_run_goes_on_where_it_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, str]] = []

    def apart(name: str, target: str) -> dict[str, Any]:
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append((name, target))
        return {"error": "no"} if target == "x86-64" else {"cases": 1}

    monkeypatch.setattr(platforms, "_apart", apart)
    monkeypatch.setattr(platforms, "obstacle_to", lambda t: "it is missing" * (t == "wasm32"))
    file, targets = tmp_path / "made.json", ["x86-64", "x86-64-v3", "wasm32", "x86-64-v4"]
    with pytest.raises(KeyboardInterrupt):
        platforms.tried(file, ["lines"], targets)
    assert list(json.loads(file.read_text())["rows"]) == ["x86-64", "x86-64-v3"]
    tried.clear()
    platforms.tried(file, ["lines"], targets)
    assert tried == [("lines", "x86-64"), ("lines", "x86-64-v4")]
    assert json.loads(file.read_text())["not_run"] == {"wasm32": "it is missing"}
