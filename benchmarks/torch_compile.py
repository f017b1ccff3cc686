"""`torch.compile(backend="infuse")` beside torch's own backend inductor with freezing, and eager:
`python -m benchmarks.torch_compile [NAME …] [--rounds 3] [--seconds 0.5] [--json FILE]`.

Architectures are those of `torch_networks` with random weights, in float32, in processes
of their own. The engines take turns; `speed` is inductor's best time over Infuse's.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import child, machine, torch_networks as models
from benchmarks.measure import Timing, difference, geomean, repeat

LIMIT: Final = 600
TOLERANCE: Final = 1e-4
"""Of the largest element of an output."""


def measured(name: str, threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Times of one architecture, and how far its answers are from torch's."""
    import torch

    from infuse.dynamo import backend

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    case = models.make(name)
    inputs = case.inputs()
    engines: dict[str, Any] = {"eager": case.module}
    result: dict[str, Any] = {}
    with torch.inference_mode():
        expected = _arrays(case.module(**inputs))
        for engine, option in (("infuse", backend), ("inductor", "inductor")):
            torch._dynamo.reset()
            function = torch.compile(case.module, backend=option, dynamic=False)
            start = time.perf_counter()
            answers = _arrays(function(**inputs))
            compiled = time.perf_counter() - start
            engines[engine] = function
            result[engine] = {"compile": compiled, "difference": difference(answers, expected)}
        times: dict[str, list[float]] = {engine: [] for engine in engines}
        for _ in range(rounds):
            for engine, function in engines.items():
                time.sleep(0.1)
                times[engine] += repeat(lambda f=function: f(**inputs), seconds)
    for engine, spent in times.items():
        result.setdefault(engine, {}).update(vars(Timing.of(spent)))
    return result


def _arrays(outputs: Any) -> dict[str, Any]:
    return {str(i): tensor.numpy() for i, tensor in enumerate(models.tensors(outputs))}


def main() -> None:
    """Print a table of all architectures, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="thirty when none are given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each engine in a round")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        (name,) = options.names
        figures = measured(name, options.threads, options.rounds, options.seconds)
        child.report(figures)
        return
    rows: dict[str, Any] = {}
    print(f"{'name':24} {'infuse ms':>9} {'inductor':>9} {'eager':>9} {'speed':>6} difference")
    for name in options.names or models.NAMES:
        rows[name] = _row(name, options)
        print(f"{name:24} {_line(rows[name])}", flush=True)
    right = [r for r in rows.values() if r.get("infuse", {}).get("difference", 1) <= TOLERANCE]
    if right:
        print(
            f"{len(right)} of {len(rows)} right; speed against inductor: geomean "
            f"{geomean([_speed(r, 'inductor') for r in right]):.2f}, lowest "
            f"{min(_speed(r, 'inductor') for r in right):.2f}; against eager "
            f"{geomean([_speed(r, 'eager') for r in right]):.2f}"
        )
    if options.json:
        content = {"machine": machine.describe(), "threads": options.threads, "models": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def _speed(row: dict[str, Any], peer: str) -> float:
    return float(row[peer]["best"] / row["infuse"]["best"])


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    best = " ".join(f"{row[e]['best'] * 1e3:9.2f}" for e in ("infuse", "inductor", "eager"))
    return f"{best} {_speed(row, 'inductor'):6.2f} {row['infuse']['difference']:.1e}"


def _row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    arguments = [name, "--worker"]
    for option in ("threads", "rounds", "seconds"):
        arguments += [f"--{option}", str(getattr(options, option))]
    return child.run("benchmarks.torch_compile", arguments, LIMIT)


if __name__ == "__main__":
    main()
