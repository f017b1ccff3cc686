"""Networks of the zoo quantized to 8 bits by ONNX Runtime's tool, in every engine.

`python -m benchmarks.quantized --threads 1,2 --models resnet50 --zoo FOLDER --json FILE`

All options are those of benchmarks.zoo. Static quantization writes QuantizeLinear and
DequantizeLinear around what it quantizes, weights per channel, ranges from random inputs; a
transformer is quantized dynamically, too. What stands in column `difference` is the distance from
ONNX Runtime on the same file; how far every engine is from the network in float32 is printed below
the table.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import terminal, zoo
from benchmarks.engines import REFERENCE
from benchmarks.inputs import make_inputs
from benchmarks.measure import difference
from benchmarks.worker import Worker, WorkerError

DEFAULTS = (
    *("--against", "onnxruntime,openvino"),
    *("--models", "resnet50,mobilenet_v2,minilm_l6"),
    *("--tolerance", "0.1"),
)
TRANSFORMERS = ("minilm*", "bert*", "gpt*")
CALIBRATION = 4
"""How many random inputs tell the ranges; their seeds are not that of the input which is timed."""


class _Inputs:
    """Random inputs, as the calibration asks for them."""

    def __init__(self, path: Path, dims: dict[str, int]) -> None:
        self._left: Iterator[dict[str, np.ndarray]] = (
            make_inputs(path, dims, seed) for seed in range(1, CALIBRATION + 1)
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def quantize(path: Path, folder: Path, dims: dict[str, int]) -> list[Path]:
    """The quantized forms of a network, as files in a folder."""
    import onnxruntime.quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.disable(logging.WARNING)
    plain = folder / "plain.onnx"
    quant_pre_process(path, plain, skip_symbolic_shape=True)
    made = []
    for name, kind in (("u8", tool.QuantType.QUInt8), ("s8", tool.QuantType.QInt8)):
        made.append(folder / f"{path.stem}-{name}.onnx")
        reader: Any = _Inputs(path, dims)
        given: dict[str, Any] = {"activation_type": kind, "weight_type": tool.QuantType.QInt8}
        tool.quantize_static(plain, made[-1], reader, per_channel=True, **given)
    if any(path.match(name) for name in TRANSFORMERS):
        made.append(folder / f"{path.stem}-dynamic.onnx")
        tool.quantize_dynamic(plain, made[-1], per_channel=True, weight_type=tool.QuantType.QInt8)
    return made


def distances(path: Path, made: Path, row: zoo.Row, options: argparse.Namespace) -> None:
    """Add the distance from the network in float32 to the facts of every engine that ran."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.npz"
        with Worker(REFERENCE, path, row.threads, options.dims) as worker:
            expected = worker.answer(file)
        for name in dict.fromkeys([zoo.OURS, REFERENCE, *options.against]):
            if name in row.errors:
                continue
            with Worker(name, made, row.threads, options.dims) as worker:
                row.facts[name]["from_float"] = difference(worker.answer(file), expected)


def measure(path: Path, options: argparse.Namespace, folder: Path) -> list[zoo.Row]:
    """The rows of all quantized forms of one network."""
    rows = []
    for made in quantize(path, folder, options.dims):
        for threads in options.threads:
            row = zoo.run(made, threads, options)
            try:
                distances(path, made, row, options)
            except WorkerError as error:
                row.errors[zoo.OURS] = str(error)
            rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Quantize, measure, print, save."""
    options, models = zoo.parse([*DEFAULTS, *(sys.argv[1:] if arguments is None else arguments)])
    rows: list[zoo.Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in models:
            rows += measure(path, options, Path(folder))
    console = terminal.console()
    zoo.report(rows, options, console)
    for row in rows:
        found = {
            name: facts["from_float"] for name, facts in row.facts.items() if "from_float" in facts
        }
        text = ", ".join(f"{name} {far:.1e}" for name, far in found.items())
        console.print(f"{row.model}, {row.threads} threads, from float32: {text}")
    if options.json:
        zoo.save(rows, options)
    return 0 if all(zoo.is_good(row, options.tolerance) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
