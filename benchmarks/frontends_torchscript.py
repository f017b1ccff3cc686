"""Architectures as TorchScript beside torch: `python -m benchmarks.frontends_torchscript`.

Every architecture of torchvision (and, with `--library timm`, those of timm that are named) is made
without trained weights, traced and scripted where torch can, written by torch.jit.save, read, and
evaluated beside torch on a random image: the largest difference as a part of torch's largest
output.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import infuse
from benchmarks.torchvision_schemas import make_importable
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate

_SIZES = {"inception_v3": 128, "vit": 224, "maxvit": 224, "swin": 64, "googlenet": 64}


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="ARCHITECTURE")
    parser.add_argument("--library", choices=["torchvision", "timm"], default="torchvision")
    parser.add_argument("--mode", choices=["traced", "scripted", "both"], default="both")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    make_importable()
    modes = ["traced", "scripted"] if options.mode == "both" else [options.mode]
    rows = []
    for name, module, size in _models(options.library, options.names):
        for mode in modes:
            row = {"name": name, "mode": mode, **_row(module, mode, size)}
            rows.append(row)
            text = row.get("error") or (
                f"{row['nodes']:5} nodes in {row['seconds']:.2f} s, "
                f"difference {row['difference']:.1e}"
            )
            print(f"{name:28} {mode:9} {text}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    made = [row for row in rows if "torch" not in row]
    read = [row for row in made if "error" not in row]
    wrong = [row for row in read if not row["difference"] <= options.tolerance]
    print(f"{len(made)} programs, {len(read)} read, {len(read) - len(wrong)} agree")
    return int(bool(wrong))


def _models(library: str, names: list[str]) -> Iterator[tuple[str, torch.nn.Module, int]]:
    torch.manual_seed(0)
    if library == "torchvision":
        import torchvision

        for name in names or torchvision.models.list_models(module=torchvision.models):
            size = next((s for n, s in _SIZES.items() if name.startswith(n)), 64)
            yield name, torchvision.models.get_model(name, weights=None).eval(), size
    else:
        import timm

        for name in names:
            module = timm.create_model(name, pretrained=False, scriptable=True).eval()
            yield name, module, module.default_cfg["input_size"][-1]


def _row(module: torch.nn.Module, mode: str, size: int) -> dict[str, Any]:
    """What one program gives: figures, or an error; `torch` says that torch could not make it."""
    image = torch.randn(1, 3, size, size)
    try:
        program = (
            torch.jit.trace(module, image, check_trace=False)
            if mode == "traced"
            else torch.jit.script(module)
        )
    except Exception as error:  # torch raises what it likes
        return {"error": f"torch cannot make it: {str(error).splitlines()[0][:80]}", "torch": True}
    buffer = io.BytesIO()
    torch.jit.save(program, buffer)
    name = program.forward.schema.arguments[1].name
    begin = time.perf_counter()
    try:
        spec = infuse.Spec("float32", tuple(image.shape))
        graph = infuse.from_torchscript(buffer.getvalue(), {name: spec})
    except InfuseError as error:
        return {"error": f"refused: {error}"}
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        expected = _leaves(program(image))
    actual = [v for n, v in evaluate(graph, {name: image.numpy()}).items() if n[-4:] != ".out"]
    if [a.shape for a in actual] != [e.shape for e in expected]:
        return {"nodes": len(graph), "seconds": seconds, "difference": float("nan")}
    apart = [np.abs(a - e).max() / max(np.abs(e).max(), 1e-30) for a, e in zip(actual, expected)]
    return {"nodes": len(graph), "seconds": seconds, "difference": float(max(apart))}


def _leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in _leaves(part)]
    return [] if result is None else [result.numpy()]


if __name__ == "__main__":
    sys.exit(main())
