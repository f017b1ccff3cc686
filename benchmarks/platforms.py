"""Which platforms give the right numbers: operators and networks, compiled for each and run by what
stands in for it (QEMU, Wine, Node.js, emulated instructions).

`python -m benchmarks.platforms [--json FILE] [--targets …] [--parts …] [--networks 'mobilenet*']`

A part is a group of the short table of operators (`tests/native/op_cases.py`), held against its
meaning in float64; a network is held against ONNX Runtime on this machine, by the largest
difference over the largest element of its outputs. With a network come the seconds that compiling
it took, when all objects that other models share had been compiled and when not, and the bytes of
its library. Each is tried in a process of its own. What FILE has is not tried again, so a run that
was broken off goes on. Times of runs mean nothing under an emulator. Afterwards docs/matrix.md is
written anew where FILE is that of the repository (`platforms_page`). Exit status 1 where something
is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import infuse
from benchmarks import machine, platforms_page
from benchmarks.inputs import default_zoo, make_inputs, parse_dims
from infuse.ir.graph import Graph
from infuse.targets import Target
from tests.native.op_cases import GROUPS, check, here, members, native_cases
from tests.native.platforms import EMULATORS, run_on
from tests.native.test_platforms import compiled, has_arrays, has_subnormals
from tests.support.emulation import NEWEST, emulated, obstacle

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
BOUNDS: Final = {"fp32": BOUND, "bf16": 0.1}
LIMIT_S: Final = 3600
"""Seconds that one part or network may take."""


class Local(NamedTuple):
    """A target whose code runs in a process of this machine. `precision`: that of networks."""

    precision: str = "fp32"


LOCAL: Final = {
    "x86-64": Local(),
    "x86-64-v3": Local(),
    "x86-64-v4": Local(),
    NEWEST: Local("bf16"),
}
"""Instructions that this machine lacks are emulated."""
TARGETS: Final = (*LOCAL, *EMULATORS)


def obstacle_to(target: str) -> str:
    """What is missing here to run code for a target; empty where nothing is."""
    if target in LOCAL:
        return "" if Target.resolve(target).is_runnable else obstacle() or ""
    emulator = EMULATORS[target]
    return f"{emulator.package} is missing" if emulator.command and not emulator.words else ""


def runs_by(target: str) -> str:
    """What runs code for a target here: empty where the processor does."""
    if target in LOCAL:
        return "" if Target.resolve(target).is_runnable else "emulated instructions"
    return EMULATORS[target].command[0] if EMULATORS[target].command else ""


def part(name: str, target: str) -> dict[str, Any]:
    """A group of operators on a platform."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return run_on(target, compiled(graph, target, Path(folder)), feeds, Path(folder), 1)

    cases = native_cases(members(name), full=False)
    cases = [c for c in cases if "armv7" not in target or not has_subnormals(c)]
    if "threads" in target:
        cases = [c for c in cases if has_arrays(c)]
    with emulated():
        check(cases, run=here(target, 1) if target in LOCAL else run)
    return {"cases": len(cases)}


def network(name: str, target: str) -> dict[str, Any]:
    """A network of the zoo on a platform."""
    import onnxruntime

    path = default_zoo() / f"{name}.onnx"
    feeds = make_inputs(path, parse_dims("batch=1,seq=32"))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    graph = infuse.optimize(infuse.load(path))
    precision = LOCAL[target].precision if target in LOCAL else "fp32"
    with tempfile.TemporaryDirectory() as folder, emulated():
        options = infuse.CompileOptions(target, precision=precision, threads=2)
        begin = time.perf_counter()
        model = infuse.compile(graph, options, output=Path(folder) / "model")
        seconds = time.perf_counter() - begin
        if target in LOCAL:
            results = model.run(feeds)
        else:
            results = run_on(target, model, feeds, Path(folder), 2)
        size = (model.folder / Target.resolve(target).system.library).stat().st_size
        model.close()
    apart = max(
        float(np.abs(a.astype(np.float64) - e).max() / max(np.abs(e).max(), 1e-30))
        for a, e in zip(results.values(), expected, strict=True)
    )
    if not apart <= BOUNDS[precision]:
        raise AssertionError(f"differs from ONNX Runtime by {apart:.2g}")
    row = {"difference": apart, "compile_seconds": round(seconds, 2), "library_bytes": size}
    return row | ({} if precision == "fp32" else {"precision": precision})


def cell(name: str, target: str) -> dict[str, Any]:
    """A part or a network on a platform; what went wrong as `error`."""
    try:
        return part(name, target) if name in GROUPS else network(name, target)
    except Exception as error:  # what went wrong is the figure
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"error": lines[0][:300]}


def _apart(name: str, target: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.platforms", "--cell", name, target]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {LIMIT_S} s"}
    if done.returncode:
        return {"error": f"the process ended with {done.returncode}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", default=platforms_page.RESULTS)
    parser.add_argument("--targets", default="*", metavar="GLOB")
    parser.add_argument("--parts", default="*", metavar="GLOB")
    parser.add_argument("--networks", default="*", metavar="GLOB")
    parser.add_argument("--cell", nargs=2, metavar=("NAME", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.cell:
        print(json.dumps(cell(*given.cell)))
        return 0
    names = [n for n in NETWORKS if fnmatch(n, given.networks)]
    names += [n for n in GROUPS if fnmatch(n, given.parts)]
    targets = [t for t in TARGETS if fnmatch(t, given.targets)]
    rows = tried(given.json, names, targets)
    if given.json == platforms_page.RESULTS:
        platforms_page.write(json.loads(given.json.read_text("utf-8")))
    return int(any("error" in answer for row in rows.values() for answer in row.values()))


def tried(path: Path, names: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    """The rows of a file, after what it lacks of these was tried and written there."""
    stored = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    rows, not_run = stored.get("rows", {}), {}
    for name, target in product(names, targets):
        if why := obstacle_to(target):
            not_run[target] = why
        elif "error" in rows.setdefault(target, {}).get(name, {"error": ""}):
            rows[target][name] = _apart(name, target)
            print(f"{target} {name}: {rows[target][name]}", flush=True)
            save(path, rows, not_run)
    save(path, rows, not_run)
    return dict(rows)


def save(path: Path, rows: Mapping[str, Any], not_run: Mapping[str, str]) -> None:
    """Write results in the order of the targets."""
    ordered = {target: rows[target] for target in TARGETS if rows.get(target)}
    content = {"networks": NETWORKS, "parts": list(GROUPS), "not_run": not_run, "rows": ordered}
    machine.save(path, {"runs_by": {t: runs_by(t) for t in ordered}, **content})


if __name__ == "__main__":
    raise SystemExit(main())
