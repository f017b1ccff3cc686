"""Which platforms give the right numbers: operators and networks, compiled for each and run by what
stands in for it (QEMU, Wine, Node.js).

`python -m benchmarks.platforms --json FILE [--targets …] [--parts …] [--networks 'mobilenet*']`

A part is a group of the short table of operators (`tests/native/op_cases.py`), held against its
meaning in float64; a network is held against ONNX Runtime on this machine, by the largest
difference over the largest element of its outputs. With a network come the seconds that compiling
it took, when all objects that other models share had been compiled and when not, and the bytes of
its library. What FILE has is not tried again. Times of runs mean nothing under an emulator. Exit
status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.inputs import default_zoo, make_inputs, parse_dims
from infuse.ir.graph import Graph
from infuse.targets import Target
from tests.native.op_cases import GROUPS, check, members, native_cases
from tests.native.platforms import EMULATORS, run_on
from tests.native.test_platforms import compiled, has_subnormals

NETWORKS: Final = (
    "mobilenet_v2",
    "mobilenet_v3_large",
    "squeezenet1_1",
    "shufflenet_v2",
    "ghostnet",
    "resnet18",
    "resnet50",
    "efficientnet_b0",
    "mobilevit_s",
    "minilm_l6",
)
BOUND: Final = 1e-3
"""How far a network may be from ONNX Runtime, in parts of its largest element."""


def part(name: str, target: str) -> dict[str, Any]:
    """A group of operators on a platform."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return run_on(target, compiled(graph, target, Path(folder)), feeds, Path(folder), 1)

    cases = native_cases(members(name), full=False)
    cases = [c for c in cases if "armv7" not in target or not has_subnormals(c)]
    check(cases, run=run)
    return {"cases": len(cases)}


def network(name: str, target: str) -> dict[str, Any]:
    """A network of the zoo on a platform."""
    import onnxruntime

    path = default_zoo() / f"{name}.onnx"
    feeds = make_inputs(path, parse_dims("batch=1,seq=32"))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    graph = infuse.optimize(infuse.load(path))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        model = compiled(graph, target, Path(folder))
        seconds = time.perf_counter() - begin
        results = run_on(target, model, feeds, Path(folder), 2)
        library = model.folder / Target.resolve(target).system.library
        size = library.stat().st_size
    apart = max(
        float(np.abs(a.astype(np.float64) - e).max() / max(np.abs(e).max(), 1e-30))
        for a, e in zip(results.values(), expected, strict=True)
    )
    if not apart <= BOUND:
        raise AssertionError(f"differs from ONNX Runtime by {apart:.2g}")
    return {"difference": apart, "compile_seconds": round(seconds, 2), "library_bytes": size}


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--targets", default="*", metavar="GLOB")
    parser.add_argument("--parts", default="*", metavar="GLOB")
    parser.add_argument("--networks", default="*", metavar="GLOB")
    given = parser.parse_args(arguments)
    kept = json.loads(given.json.read_text("utf-8"))["rows"] if given.json.is_file() else {}
    for target in (t for t in EMULATORS if fnmatch(t, given.targets)):
        emulator = EMULATORS[target]
        if emulator.command and not emulator.words:
            print(f"{target}: not tested, {emulator.package} is missing")
            continue
        rows = kept.setdefault(target, {})
        todo = [(name, part) for name in GROUPS if fnmatch(name, given.parts)]
        todo += [(name, network) for name in NETWORKS if fnmatch(name, given.networks)]
        for name, tried in todo:
            if "error" in rows.get(name, {"error": ""}):
                rows[name] = _answer(tried, name, target)
                print(f"{target} {name}: {rows[name]}", flush=True)
                text = json.dumps({"machine": machine.describe(), "rows": kept}, indent=1)
                given.json.write_text(f"{text}\n", "utf-8")
    return int(any("error" in row for rows in kept.values() for row in rows.values()))


def _answer(tried: Any, name: str, target: str) -> dict[str, Any]:
    try:
        return dict(tried(name, target))
    except Exception as error:  # what went wrong is the figure
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"error": lines[0][:300]}


if __name__ == "__main__":
    raise SystemExit(main())
