#!/usr/bin/env bash
# PyTorch 2.13.0 on CPUs: torch.linalg.matrix_exp of float16 and bfloat16 gives numbers that are no
# exponential, for every matrix but zeros. Nothing is said.
#
# exp([[0, 1], [0, 0]]) is [[1, 1], [0, 1]]; float16 has -21072 and bfloat16 -1.3e30 on the
# diagonal. float32 and float64 are right: a flow or a state-space model that has one loses all
# digits by .half() or .bfloat16().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch

print(f"PyTorch {torch.__version__}, exponentials of matrices:")
for rows in ([[0.0, 1.0], [0.0, 0.0]], [[0.5, 0.25], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]):
    right = torch.linalg.matrix_exp(torch.tensor(rows, dtype=torch.float64))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        found = torch.linalg.matrix_exp(torch.tensor(rows, dtype=dtype)).double()
        off = (found - right).abs().max().item()
        print(f"{rows} {dtype}: {found.tolist()}, off by {off:.3g}")
        if dtype == torch.float32 or not any(map(any, rows)):
            assert off < 1e-6
        else:
            assert not off < 1000
PYTHON
