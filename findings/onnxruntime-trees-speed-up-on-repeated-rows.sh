#!/usr/bin/env bash
# onnxruntime 1.32.0: an ensemble of trees answers more than twice as fast when every call brings
# the same rows than when each brings others of the same distribution.
#
# A benchmark that calls a session with one array again and again (as most do) times a processor
# that has learned, branch for branch, where these rows go; of 1,000 different batches it knows
# nothing. Only a handful of rows per call fits its predictor: at 20 rows through 20 full trees of
# depth 8 (one thread) the same rows took 7.5 microseconds and other rows 22 on an Intel Xeon with
# AMX; from some 100 rows on the two come near each other. Python's part of a
# call is in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import itertools
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

TREES, DEPTH, FEATURES, ROWS = 20, 8, 60, 20
rng = np.random.default_rng(0)
per, branches = 2 ** (DEPTH + 1) - 1, 2**DEPTH - 1
ids, numbers = np.tile(np.arange(per), TREES), np.repeat(np.arange(TREES), per)
inner = ids < branches
node = helper.make_node(
    "TreeEnsembleRegressor",
    ["x"],
    ["y"],
    domain="ai.onnx.ml",
    n_targets=1,
    nodes_treeids=numbers.tolist(),
    nodes_nodeids=ids.tolist(),
    nodes_featureids=np.where(inner, rng.integers(0, FEATURES, len(ids)), 0).tolist(),
    nodes_values=np.where(inner, rng.normal(size=len(ids)), 0).astype(np.float32).tolist(),
    nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
    nodes_truenodeids=np.where(inner, 2 * ids + 1, 0).tolist(),
    nodes_falsenodeids=np.where(inner, 2 * ids + 2, 0).tolist(),
    target_treeids=numbers[~inner].tolist(),
    target_nodeids=ids[~inner].tolist(),
    target_ids=[0] * int((~inner).sum()),
    target_weights=rng.normal(size=int((~inner).sum())).astype(np.float32).tolist(),
)
graph = helper.make_graph(
    [node],
    "trees",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
)
opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
other = rng.normal(size=(1000, ROWS, FEATURES)).astype(np.float32)
batches = {"the same": itertools.cycle(other[:1]), "other": itertools.cycle(other)}
times = {kind: [] for kind in batches}
for _ in range(15):
    for kind, given in batches.items():
        start = time.perf_counter()
        for _ in range(500):
            session.run(None, {"x": next(given)})
        times[kind].append((time.perf_counter() - start) / 500 * 1e6)
same, others = min(times["the same"]), min(times["other"])
print(f"onnxruntime {onnxruntime.__version__}, {ROWS} rows a call, least of 15 in turns:")
print(f"the same rows {same:.1f} microseconds, other rows {others:.1f}: {others / same:.2f} times")
assert others > 1.5 * same
PYTHON
