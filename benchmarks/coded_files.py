"""Coded .infuse files: `python -m benchmarks.coded_files FOLDER [NAME…] [--json FILE]`.

For the networks of `benchmarks.compression_tasks`, which lie in the folder or are made there: bytes
of the file as it is, entropy coded, and clustered to some numbers of bits and coded; what loading
it takes; and the score with clustered weights, by ONNX Runtime. Last, weights of products and
convolutions as int8: their bytes, and those of their coded forms.
A NAME may also be the path of another ONNX file, which has no score.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.compression_tasks import NAMES, task
from benchmarks.compression_tasks.__main__ import by_onnxruntime
from infuse.ir.coding.weights import encoded
from infuse.ir.graph import Graph

BITS: Final = (8, 6, 5, 4, 3)
LOADS: Final = 5


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            rows.append(measured(name, options.folder, Path(scratch)))
        print(line(rows[-1]), flush=True)
        if options.json:
            machine.save(options.json, {"rows": rows})
    return 0


def measured(name: str, folder: Path, scratch: Path) -> dict[str, Any]:
    """A row of the table."""
    tested = task(name, folder) if name in NAMES else None
    model = tested.model if tested else Path(name)
    graph = infuse.load(model)
    plain, row = written(graph, scratch, {}), {"name": model.stem if tested is None else name}
    row |= {"bytes": plain.stat().st_size, "load_seconds": load_seconds(plain)}
    if tested:
        row |= {"metric": tested.metric, "score": tested.score(by_onnxruntime(model))}
    lossless = written(graph, scratch, {"coded": True})
    row["coded"] = {"bytes": lossless.stat().st_size, "load_seconds": load_seconds(lossless)}
    row["clustered"] = {}
    for bits in BITS:
        path = written(graph, scratch, {"coded": True, "cluster_bits": bits})
        found = {"bytes": path.stat().st_size, "load_seconds": load_seconds(path)}
        if tested:
            infuse.save(infuse.load(path), scratch / "clustered.onnx")
            found["score"] = tested.score(by_onnxruntime(scratch / "clustered.onnx"))
        row["clustered"][bits] = found
    return row | integer_bytes(graph)


def written(graph: Graph, scratch: Path, options: dict[str, Any]) -> Path:
    """The file of a graph with these options."""
    path = scratch / "model.infuse"
    infuse.save(graph, path, **options)
    return path


def load_seconds(path: Path) -> float:
    """The best of some loads, each of which reads every byte of the weights."""
    times = []
    for _ in range(LOADS):
        start = time.perf_counter()
        for value in constants(infuse.load(path)):
            value.view(np.uint8).max(initial=0)
        times.append(time.perf_counter() - start)
    return min(times)


def constants(graph: Graph) -> list[np.ndarray]:
    """The constants of a graph and its bodies, each array once, as flat arrays."""
    arrays = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.const is not None and value.dtype.kind != "s":
                arrays[id(value.const)] = value.const.reshape(-1)
        for body in node.subgraphs.values():
            arrays |= {id(array): array for array in constants(body)}
    return list(arrays.values())


def integer_bytes(graph: Graph) -> dict[str, dict[str, int]]:
    """Bytes of weights as int8, and of their coded forms: with a scale for each channel of a
    result, and with one for each weight.
    """
    totals = {
        kind: {"bytes": 0, "coded_bytes": 0} for kind in ("int8_by_channel", "int8_by_tensor")
    }
    for weight, channel in products(infuse.optimize(graph, "basic")):
        axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
        for total, over in zip(totals.values(), (axes, None)):
            scale = np.abs(weight).max(over, keepdims=True) / 127
            integers = np.rint(weight / np.where(scale > 0, scale, 1)).astype(np.int8)
            form = encoded(integers)
            total["bytes"] += integers.nbytes
            total["coded_bytes"] += integers.nbytes if form is None else len(form)
    return totals


def products(graph: Graph) -> Iterator[tuple[np.ndarray, int]]:
    """Weights of products and convolutions, and the axis of the channels of their result."""
    for node in graph.nodes:
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is None or value.const is None or value.dtype.name != "float32":
            continue
        if node.kind in ("Conv", "Gemm", "LSTM") and value.const.ndim >= 2:
            transposed = node.kind == "Gemm" and not node.op.attributes()["transB"]
            yield value.const, 1 if transposed or node.kind == "LSTM" else 0
        elif node.kind == "MatMul" and value.const.ndim == 2:
            yield value.const, 1


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    whole = row["bytes"]
    parts = [f"{row['name']:22} {whole / 1e6:6.2f} MB, {row.get('score', np.nan):.4f}"]
    parts.append(f"coded {whole / row['coded']['bytes']:.2f}x")
    for bits, one in row["clustered"].items():
        parts.append(f"{bits} bits {whole / one['bytes']:.2f}x {one.get('score', np.nan):.4f}")
    for kind in ("int8_by_channel", "int8_by_tensor"):
        parts.append(f"{kind} {row[kind]['bytes'] / max(1, row[kind]['coded_bytes']):.2f}x")
    seconds = (row["load_seconds"], row["coded"]["load_seconds"])
    seconds += (row["clustered"][4]["load_seconds"],)
    return "; ".join(parts) + "; load " + " ".join(f"{1e3 * s:.0f}" for s in seconds) + " ms"


if __name__ == "__main__":
    raise SystemExit(main())
