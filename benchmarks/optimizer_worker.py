"""One optimizer on one model, or the check of its results, in a process of its own; the answer is a
line of JSON.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from benchmarks.engines import Arrays
from benchmarks.inputs import make_inputs
from benchmarks.measure import difference
from benchmarks.optimizer_engines import OPTIMIZERS, count_nodes, read

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 900


class OptimizerError(RuntimeError):
    """An optimizer could not do what it was asked."""


def ask(job: str, *arguments: Any) -> dict[str, Any]:
    """Do a job in a process of its own; OptimizerError where it fails."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.optimizer_worker",
        job,
        json.dumps([str(a) for a in arguments]),
    ]
    with tempfile.TemporaryFile("w+") as noise:
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=noise,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OptimizerError(f"no answer for {TIMEOUT} seconds") from None
        noise.seek(0)
        last = noise.read().strip().rpartition("\n")[2]
    if done.returncode:
        raise OptimizerError(last or f"the process ended with status {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def optimize(name: str, source: str, target: str, seconds: str) -> dict[str, Any]:
    """Optimize a model again and again for some seconds, save the result; the seconds of each run,
    and the nodes.

    Reading the file and writing the result are not timed.
    """
    times: list[float] = []
    end = time.perf_counter() + float(seconds)
    while not times or time.perf_counter() < end:
        model = read(Path(source))
        start = time.perf_counter()
        result = OPTIMIZERS[name](model)
        times.append(time.perf_counter() - start)
    onnx.save(result, target)
    return {"times": times, "nodes": count_nodes(result)}


def verify(dims: str, original: str, *results: str) -> dict[str, Any]:
    """Largest difference of each result from the original at two sizes of its symbolic dimensions,
    or why it fails.

    Relative to the largest number of the output. The second size is left out where the original
    cannot run it.
    """
    sizes: dict[str, int] = json.loads(dims)
    expected = []
    for step in (0, 1):
        inputs = make_inputs(Path(original), {name: size + step for name, size in sizes.items()})
        try:
            expected.append((inputs, answer(original, inputs)))
        except (
            Exception
        ):  # whatever the runtime raises: exporters fix sizes that they call symbolic
            if step == 0:
                raise
    return {"differences": [worst(result, expected) for result in results]}


def worst(result: str, expected: Sequence[tuple[Arrays, Arrays]]) -> float | str:
    """Largest difference of a model's outputs from what is expected of inputs, or why it does not
    run.
    """
    try:
        return max(difference(answer(result, inputs), outputs) for inputs, outputs in expected)
    except Exception as error:  # whatever the runtime raises is the answer
        return f"{type(error).__name__}: {error}"


def answer(path: str, inputs: Mapping[str, Any]) -> Arrays:
    """Outputs of a model in ONNX Runtime, or by ONNX's own reference where that lacks an operator
    of the opset.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return reference(path, inputs)
    return dict(
        zip([v.name for v in session.get_outputs()], session.run(None, dict(inputs)), strict=True)
    )


def reference(path: str, inputs: Mapping[str, Any]) -> Arrays:
    """Outputs of a model by the plain NumPy of ONNX."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load(path))
    return dict(zip(evaluator.output_names, evaluator.run(None, dict(inputs)), strict=True))


JOBS: dict[str, Callable[..., dict[str, Any]]] = {"optimize": optimize, "verify": verify}


def main(job: str, arguments: Sequence[str]) -> None:
    """Do the job; what a tool prints goes to standard error, not before the answer."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            result = JOBS[job](*arguments)
        answers.write(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
