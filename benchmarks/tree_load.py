"""How long an ONNX file of a large ensemble of trees takes to load, and what memory, beside ONNX
Runtime: `python -m benchmarks.tree_load [--trees 300] [--depth 13]`.

Each is loaded in a process of its own, in turns; memory is the most that it had resident beyond
what it had before, the pages of the file included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save

_LOAD = """
import sys, time
{imports}
def resident(most):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(most))
before, start = resident("VmRSS"), time.perf_counter()
model = {call}
print(time.perf_counter() - start, resident("VmHWM") - before)
"""
_TOOLS = {
    "infuse": (
        "import infuse, infuse.frontends.onnx, infuse.ops.domains.ml_trees",
        "infuse.load(sys.argv[1])",
    ),
    "onnxruntime": ("import onnxruntime", "onnxruntime.InferenceSession(sys.argv[1])"),
}


def write(path: Path, trees: int, depth: int, features: int = 100) -> None:
    """A TreeEnsembleRegressor of full trees, as converters write it: lists that are not packed."""
    rng = np.random.default_rng(0)
    per, inner_per = 2 ** (depth + 1) - 1, 2**depth - 1
    ids, numbers = np.tile(np.arange(per), trees), np.repeat(np.arange(trees), per)
    inner = ids < inner_per
    count, leaf = len(ids), ~inner
    thresholds = np.where(inner, rng.normal(size=count), 0).astype(np.float32)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=numbers.tolist(),
        nodes_nodeids=ids.tolist(),
        nodes_featureids=np.where(inner, rng.integers(0, features, count), 0).tolist(),
        nodes_values=thresholds.tolist(),
        nodes_hitrates=[1.0] * count,
        nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_truenodeids=np.where(inner, 2 * ids + 1, 0).tolist(),
        nodes_falsenodeids=np.where(inner, 2 * ids + 2, 0).tolist(),
        nodes_missing_value_tracks_true=[0] * count,
        target_treeids=numbers[leaf].tolist(),
        target_nodeids=ids[leaf].tolist(),
        target_ids=[0] * int(leaf.sum()),
        target_weights=rng.normal(size=int(leaf.sum())).astype(np.float32).tolist(),
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
    graph = helper.make_graph([node], "trees", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))


def main() -> None:
    """Write an ensemble, load it in turns, print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--depth", type=int, default=13)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trees.onnx")
        write(path, options.trees, options.depth)
        size = path.stat().st_size
        print(f"{size / 1e6:.0f} MB, {options.trees} trees of {2 ** (options.depth + 1) - 1} nodes")
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in _TOOLS}
        for _ in range(options.rounds):
            for name, (imports, call) in _TOOLS.items():
                code = _LOAD.format(imports=imports, call=call)
                done = subprocess.run(
                    [sys.executable, "-c", code, str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                took, memory = map(float, done.stdout.split())
                seen[name].append((took, memory / size))
    for name, runs in seen.items():
        seconds = sorted(run[0] for run in runs)
        most = max(run[1] for run in runs)
        print(
            f"{name}: {seconds[0]:.2f} s at least, {seconds[len(seconds) // 2]:.2f} in the middle; "
            f"{most:.1f} × the file"
        )


if __name__ == "__main__":
    main()
