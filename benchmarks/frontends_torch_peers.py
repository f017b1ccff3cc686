"""The architectures of `frontends_torch` by other ways out of PyTorch, beside Infuse: OpenVINO's
converter, and torch's exporter to ONNX (onnxscript) with ONNX Runtime:
`python -m benchmarks.frontends_torch_peers [NAME …] [--json FILE]`.

All are given one exported program with a dynamic batch, and answers for two batches are held
against torch's. Needs openvino, onnxscript and onnxruntime.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import child, frontends_torch_models as models, machine
from benchmarks.frontends_torch import LIMIT, TOLERANCE, distance

Run = Callable[[Mapping[str, Any]], list[Any]]


def openvino(program: Any, case: models.Case) -> Run:
    """OpenVINO's converter of exported programs, and its plugin for CPUs in float32."""
    import openvino

    model = openvino.convert_model(program)
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda feeds: list(compiled(list(feeds.values())).values())


def onnxscript(program: Any, case: models.Case) -> Run:
    """torch.onnx.export of the exported program, and ONNX Runtime."""
    import onnxruntime
    import torch

    exported = torch.onnx.export(program, dynamo=True, verbose=False)
    assert exported is not None
    file = io.BytesIO()
    exported.save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    return lambda feeds: session.run(None, dict(zip(names, feeds.values())))


PEERS: Final[Mapping[str, Callable[[Any, models.Case], Run]]] = {
    "openvino": openvino,
    "onnxscript": onnxscript,
}


def measured(name: str) -> dict[str, Any]:
    """For each peer, the largest difference from torch, or an error."""
    import torch

    torch.manual_seed(0)
    case = models.make(name)
    with torch.no_grad():
        program = torch.export.export(
            case.module, (), case.inputs(*case.sizes[0]), dynamic_shapes=case.dynamic
        )
        feeds = [case.inputs(*sizes) for sizes in case.sizes]
        expected = [[x.numpy() for x in models.tensors(case.module(**inputs))] for inputs in feeds]
    result: dict[str, Any] = {}
    for peer, make in PEERS.items():
        try:
            run = make(program, case)
            result[peer] = max(
                distance(run({k: v.numpy() for k, v in inputs.items()}), outputs)
                for inputs, outputs in zip(feeds, expected, strict=True)
            )
        except Exception as error:  # whatever a peer raises is its result
            result[peer] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    return result


def main() -> None:
    """Print a table of all architectures, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="all when none are given")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        child.report(measured(options.names[0]))
        return
    rows = {}
    for name in options.names or models.NAMES:
        rows[name] = row = child.run(
            "benchmarks.frontends_torch_peers", [name, "--worker"], options.limit
        )
        shown = (f"{peer} {_shown(row.get(peer, row.get('error')))}" for peer in PEERS)
        print(f"{name:28} {'; '.join(shown)}", flush=True)
    for peer in PEERS:
        right = sum(_is_right(row.get(peer)) for row in rows.values())
        print(f"{peer}: {right} of {len(rows)} right within {TOLERANCE:g} of the largest output")
    if options.json:
        content = {"machine": machine.describe(), "models": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def _is_right(result: Any) -> bool:
    return isinstance(result, float) and result <= TOLERANCE


def _shown(result: Any) -> str:
    return f"{result:.1e}" if isinstance(result, float) else str(result).replace("\n", " ")[:110]


if __name__ == "__main__":
    main()
