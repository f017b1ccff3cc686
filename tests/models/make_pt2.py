"""Writes `data/small.pt2`, the program that tests/pure/test_pt2.py damages:
`python -m tests.models.make_pt2`. It has weights, a buffer that changes, a dynamic batch, a branch.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch

PATH = Path(__file__).parent / "data" / "small.pt2"


class Small(torch.nn.Module):
    """Two layers, a branch, and a count of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: torch.Tensor, positive: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The branch taken, and a reduction."""
        self.calls.add_(1)
        y = torch.relu(self.first(x))
        y = torch.cond(positive, lambda v: v.sin(), lambda v: v - 1, (y,))
        values, places = torch.topk(y, 2)
        return y, values.sum() + self.calls.sum(), places


def main() -> None:
    """Write the file, without the paths of this machine."""
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", max=64)
    program = torch.export.export(
        Small().eval(),
        (torch.randn(5, 4), torch.tensor(True)),
        dynamic_shapes=({0: batch}, None),
        strict=False,
    )
    buffer = io.BytesIO()
    torch.export.save(program.run_decompositions({}), buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(PATH, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                content = json.loads(data)
                _strip(content["graph_module"]["graph"])
                data = json.dumps(content).encode()
            if "sample_inputs" in name:
                continue
            packed = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(name), data, packed)


def _strip(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        node["metadata"] = {}
        for entry in node["inputs"]:
            if "as_graph" in entry["arg"]:
                _strip(entry["arg"]["as_graph"]["graph"])


if __name__ == "__main__":
    main()
