"""Models in WebAssembly beside ONNX Runtime Web, in a process of Node.js, in turns; and beside the
same model as native code.

`npm install --prefix PEER onnxruntime-web`, then
`python -m benchmarks.web --peer PEER --json FILE [--threads 1,4] [--relaxed] [--networks 'mobile*']
[--models FILE.onnx …] [--seconds 5]`

Exit status 1 where results differ by more than 1e-3 of the largest element (5e-2 of a quantized
model, whose sums round elsewhere).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import infuse
from benchmarks import machine
from benchmarks.inputs import default_zoo, make_inputs, parse_dims
from benchmarks.platforms import BOUND, NETWORKS
from tests.native.platforms import relaxed_flags

SCRIPT = Path(__file__).with_name("web.mjs")


QUANTIZED = 5e-2


def measure(path: Path, threads: int, relaxed: bool, peer: Path, seconds: float) -> dict[str, Any]:
    """One network in one number of threads."""
    feeds = make_inputs(path, parse_dims("batch=1,seq=32"))
    graph = infuse.optimize(infuse.load(path))
    target = ("wasm32" if threads == 1 else "wasm32-threads") + "+relaxed_simd" * relaxed
    with tempfile.TemporaryDirectory() as folder:
        web, inputs = Path(folder) / "web", Path(folder) / "inputs.json"
        infuse.compile(graph, infuse.CompileOptions(target), output=web).close()
        listed = [
            {"name": key, "dtype": x.dtype.name, "shape": list(x.shape), "data": x.ravel().tolist()}
            for key, x in feeds.items()
        ]
        inputs.write_text(json.dumps(listed))
        words = (web, path, inputs, peer.absolute(), seconds, threads)
        command = ["node", *(relaxed_flags() if relaxed else ()), str(SCRIPT), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        row = {f"{key}_ms": [min(t), median(t)] for key, t in answer["times"].items()}
        row |= {"difference": answer["difference"], "peer": answer["version"], "target": target}
        row["wasm_bytes"] = (web / "model.wasm").stat().st_size
    with infuse.compile(graph, infuse.CompileOptions(threads=threads)) as native:
        times = []
        stop = time.perf_counter() + seconds
        while time.perf_counter() < stop or len(times) < 5:
            begin = time.perf_counter()
            native.run(feeds)
            times.append(1e3 * (time.perf_counter() - begin))
    row["native_ms"] = [min(times), median(times)]
    row["peer_over_infuse"] = row["onnxruntime-web_ms"][0] / row["infuse_ms"][0]
    row["infuse_over_native"] = row["infuse_ms"][0] / row["native_ms"][0]
    return row


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--peer", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--networks", default="*", metavar="GLOB")
    parser.add_argument("--models", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--relaxed", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args(arguments)
    paths = given.models or [
        default_zoo() / f"{name}.onnx" for name in NETWORKS if fnmatch(name, given.networks)
    ]
    rows = json.loads(given.json.read_text("utf-8"))["rows"] if given.json.is_file() else {}
    worst = 0.0
    for path, threads in product(paths, map(int, given.threads.split(","))):
        name = f"{path.stem}, {threads} threads{', relaxed' * given.relaxed}"
        rows[name] = measure(path, threads, given.relaxed, given.peer, given.seconds)
        print(name, json.dumps(rows[name]), flush=True)
        machine.save(given.json, {"rows": rows})
        worst = max(worst, rows[name]["difference"] / (QUANTIZED if given.models else BOUND))
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
