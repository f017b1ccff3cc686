"""Architectures of torchvision, timm and transformers with random weights, exported by torch.export
and read by Infuse, against torch:
`python -m benchmarks.frontends_torch [NAME …] [--only-read] [--fixed] [--json FILE]`.

Each runs in a process of its own with a time limit. Batches (and lengths of sequences) are dynamic:
what was compiled runs on two of them; with `--fixed` sizes are fixed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import child, frontends_torch_models as models, machine

LIMIT: Final = 240
TOLERANCE: Final = 1e-4
"""Of the largest element of an output."""


def measured(name: str, only_read: bool, fixed: bool) -> dict[str, Any]:
    """What comes of one architecture."""
    import torch

    import infuse

    torch.manual_seed(0)
    torch.set_num_threads(2)
    case = models.make(name)
    result: dict[str, Any] = {
        "parameters": sum(p.numel() for p in case.module.parameters()),
    }
    start = time.perf_counter()
    graph = infuse.from_torch(
        case.module,
        (),
        case.inputs(*case.sizes[0]),
        dynamic_shapes=None if fixed else case.dynamic,
    )
    result |= {"imported": True, "nodes": len(graph.nodes), "read": time.perf_counter() - start}
    if only_read:
        return result
    start = time.perf_counter()
    compiled = infuse.compile(graph)
    result["compiled"] = time.perf_counter() - start
    worst, own = 0.0, 0.0
    for sizes in case.sizes[: 1 if fixed else None]:
        inputs = case.inputs(*sizes)
        outputs = compiled.run({k: v.numpy() for k, v in inputs.items()})
        with torch.no_grad():
            expected = [x.numpy() for x in models.tensors(case.module(**inputs))]
        here = distance(list(outputs.values()), expected)
        worst = max(worst, here)
        if here > TOLERANCE:
            exact = in_float64(case.module, inputs)
            own = max(own, distance(expected, exact))
            result["from_float64"] = distance(list(outputs.values()), exact)
    return result | {"difference": worst, "own": own}


def distance(actual: list[Any], expected: list[Any]) -> float:
    """The largest difference of outputs, as a part of the largest element; ValueError where shapes
    differ, or nothing is shown.
    """
    import numpy as np

    if len(actual) != len(expected):
        raise ValueError(f"{len(actual)} outputs, {len(expected)} in torch")
    worst = 0.0
    for a, b in zip(actual, expected):
        if not b.any():
            raise ValueError("an output of torch is zero everywhere, which shows nothing")
        if a.shape != b.shape:
            raise ValueError(f"an output is {a.shape}, {b.shape} in torch")
        here = np.abs(a.astype(np.float64) - b).max(initial=0)
        worst = max(worst, float(here / max(np.abs(b).max(initial=0), 1e-30)))
    return worst


def in_float64(module: Any, inputs: dict[str, Any]) -> list[Any]:
    """What torch computes in float64."""
    import copy

    import torch

    wide = {k: x.double() if x.is_floating_point() else x for k, x in inputs.items()}
    with torch.no_grad():
        return [x.numpy() for x in models.tensors(copy.deepcopy(module).double()(**wide))]


def main() -> None:
    """Print a table of all architectures, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="all when none are given")
    parser.add_argument("--only-read", action="store_true", help="compile nothing")
    parser.add_argument("--fixed", action="store_true", help="export with the sizes of an example")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each")
    arguments = parser.parse_args()
    if arguments.worker:
        child.report(measured(arguments.names[0], arguments.only_read, arguments.fixed))
        return
    rows = {}
    options = [f"--{n}" for n in ("only-read", "fixed") if getattr(arguments, n.replace("-", "_"))]
    names = arguments.names or list(models.NAMES)
    print(f"{'name':28} {'parameters':>11} {'nodes':>6} {'read s':>7} {'compile s':>9} difference")
    for name in names:
        rows[name] = _row(name, options, arguments.limit)
        print(f"{name:28} {_line(rows[name])}", flush=True)
    right = sum(row.get("right", False) for row in rows.values())
    print(f"{right} of {len(names)} right within {TOLERANCE:g} of the largest output")
    if arguments.json:
        content = {"machine": machine.describe(), "models": rows}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def _row(name: str, options: list[str], limit: float) -> dict[str, Any]:
    row = child.run("benchmarks.frontends_torch", [name, "--worker", *options], limit)
    if "error" in row:
        return row
    # A network that is chaotic in torch itself is as good as torch is.
    limit = max(TOLERANCE, 10 * row.get("own", 0.0))
    return row | {"right": row.get("from_float64", row.get("difference", 0.0)) <= limit}


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    shown = f"{row['difference']:.2e}" if "difference" in row else ""
    return (
        f"{row['parameters']:11,} {row['nodes']:6} {row['read']:7.1f} "
        f"{row.get('compiled', 0):9.1f} {shown}{'' if row['right'] else '  WRONG'}"
    )


if __name__ == "__main__":
    main()
