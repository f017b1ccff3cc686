"""Two networks from file to answer: what the optimizer did, whether the answer is right, how fast
it is.

`python -m examples.demo` runs a trained digits classifier on its held-out images, then a full-size
ResNet-50 that needs no framework to make, both beside ONNX Runtime in the same process with the
same number of threads.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import infuse
from benchmarks.engines import OnnxRuntime
from benchmarks.measure import Timing, difference, repeat
from examples.networks import NETWORKS

DIGITS = Path(__file__).resolve().parent.parent / "tests" / "models" / "data"
TOLERANCE = 1e-4
TURN = 0.7  # seconds


def digits(console: Console) -> bool:
    """Classify every held-out digit with both runtimes; whether they agree on each."""
    with np.load(DIGITS / "digits_test.npz") as split:
        images, labels = split["pixels"].astype(np.float32) / 16, split["labels"]
    path = DIGITS / "digits.onnx"
    ours = infuse.InferenceSession(path).run(None, {"image": images})[0].argmax(1)
    theirs = OnnxRuntime(path, threads=1).run({"image": images})[0].argmax(1)
    agree = int((ours == theirs).sum())
    console.print(
        f"{len(labels)} held-out images: {(ours == labels).mean():.2%} right, "
        f"ONNX Runtime {(theirs == labels).mean():.2%}; both say the same on {agree}"
    )
    return agree == len(labels)


def network(name: str, threads: int | None, rounds: int, console: Console) -> bool:
    """Optimize, compile, check and time a full-size network; whether its answer is right."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(NETWORKS[name](), path)
        graph = infuse.load(path)
        start = time.perf_counter()
        better = infuse.optimize(graph, "all")
        optimized = time.perf_counter()
        with console.status("compiling"):
            model = infuse.compile(better, infuse.CompileOptions(threads=threads))
        compiled = time.perf_counter()
        peer = OnnxRuntime(path, model.threads)
    console.print(rewrites(better.report), operators(better.report))
    console.print(
        f"optimized in {optimized - start:.2f} s, compiled in {compiled - optimized:.1f} s"
    )

    inputs = {"input": np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)}
    error = difference(model.run(inputs), peer.answer(inputs))
    right = error <= TOLERANCE
    verdict = "[green]right[/]" if right else "[red]WRONG[/]"
    console.print(
        f"answer against ONNX Runtime: largest difference {error:.1e} of the largest output: "
        f"{verdict}"
    )

    engines = {"Infuse": lambda: model.run(inputs), "ONNX Runtime": lambda: peer.run(inputs)}
    console.print(speeds(engines, rounds, model.threads))
    return right


def rewrites(report: Any) -> Table:
    """Which rules fired, how often, and how many nodes each saved."""
    saved: Counter[str] = Counter()
    for rewrite in report.rewrites:
        saved[rewrite.rule] += rewrite.saved
    table = Table("rule", "fired", "nodes saved", title="rewrites", title_justify="left")
    for rule, times in report.fired.most_common():
        table.add_row(rule, str(times), str(saved[rule]))
    return table


def operators(report: Any) -> Table:
    """Operators before and after."""
    table = Table("operator", "before", "after", title="operators", title_justify="left")
    for kind in sorted(report.before | report.after):
        table.add_row(kind, str(report.before[kind] or "–"), str(report.after[kind] or "–"))
    table.add_section()
    table.add_row("all", str(report.nodes_before), str(report.nodes_after), style="bold")
    return table


def speeds(engines: dict[str, Callable[[], Any]], rounds: int, threads: int) -> Table:
    """Best and median of each engine; they take turns (A B A B)."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in engines.items():
            times[name] += repeat(run, TURN)
    table = Table(
        "",
        "best ms",
        "median ms",
        "runs",
        title=f"batch 1, {threads} threads",
        title_justify="left",
    )
    for name, seconds in times.items():
        timing = Timing.of(seconds)
        table.add_row(
            name, f"{timing.best * 1e3:.2f}", f"{timing.median * 1e3:.2f}", str(timing.runs)
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run both; exit status 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description="Optimize, compile, check and time two networks.")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="resnet50")
    parser.add_argument(
        "--threads", type=int, help="default: all processors that this process may use"
    )
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args(arguments)
    console = Console()
    console.rule("handwritten digits, trained")
    agreed = digits(console)
    console.rule(f"{options.network}, full size")
    right = network(options.network, options.threads, options.rounds, console)
    return 0 if agreed and right else 1


if __name__ == "__main__":
    sys.exit(main())
