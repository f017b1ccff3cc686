"""Models in WebAssembly beside ONNX Runtime Web, in a process of Node.js and one thread, in turns;
and beside the same model as native code.

`npm install --prefix PEER onnxruntime-web`, then
`python -m benchmarks.web --peer PEER --json FILE [--networks 'mobilenet*'] [--seconds 5]`

Exit status 1 where results differ by more than 1e-3 of the largest element.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import infuse
from benchmarks import machine
from benchmarks.inputs import default_zoo, make_inputs, parse_dims
from benchmarks.platforms import BOUND, NETWORKS

SCRIPT = Path(__file__).with_name("web.mjs")


def measure(name: str, peer: Path, seconds: float) -> dict[str, Any]:
    """One network."""
    path = default_zoo() / f"{name}.onnx"
    feeds = make_inputs(path, parse_dims("batch=1,seq=32"))
    graph = infuse.optimize(infuse.load(path))
    with tempfile.TemporaryDirectory() as folder:
        web, inputs = Path(folder) / "web", Path(folder) / "inputs.json"
        infuse.compile(graph, infuse.CompileOptions("wasm32"), output=web).close()
        listed = [
            {"name": key, "dtype": x.dtype.name, "shape": list(x.shape), "data": x.ravel().tolist()}
            for key, x in feeds.items()
        ]
        inputs.write_text(json.dumps(listed))
        command = ["node", str(SCRIPT), *map(str, (web, path, inputs, peer.absolute(), seconds))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        row = {f"{key}_ms": [min(t), median(t)] for key, t in answer["times"].items()}
        row |= {"difference": answer["difference"], "peer": answer["version"]}
        row["wasm_bytes"] = (web / "model.wasm").stat().st_size
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as native:
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
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args(arguments)
    rows = {}
    for name in (n for n in NETWORKS if fnmatch(n, given.networks)):
        rows[name] = measure(name, given.peer, given.seconds)
        print(name, json.dumps(rows[name]), flush=True)
        text = json.dumps({"machine": machine.describe(), "rows": rows}, indent=1)
        given.json.write_text(f"{text}\n", "utf-8")
    return int(any(row["difference"] > BOUND for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
