"""The contract on networks that 8 bits harm: what it takes to meet it, beside NNCF.

`python -m benchmarks.compression_contract FOLDER [NAME…] --max-drop 0.5 --peers nncf --json FILE`

`FOLDER` is that of `python -m benchmarks.compression_tasks`. Both get the same network, calibration
data, test data and score, and may lose `--max-drop` percent of it. `validations` are passes over
all test examples, the original's included; `runs` are all runs of a model during the search, those
on few examples among them, over the number of test examples. Infuse may use forms that are no
faster here (`allow_slower`), as NNCF does not measure. Networks with scores of which less is better
are left out: NNCF compares ratios of scores. Only NNCF's accuracy control is compared, as no other
tool that installs has a bound.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import infuse
from benchmarks.compression_tasks import task
from benchmarks.compression_tasks.base import Answers, Feeds, Run, Task, whole_runs
from benchmarks.machine import save
from benchmarks.terminal import console
from infuse.errors import ContractError
from infuse.runtime.places import FOLDER_VARIABLE

HARD = (
    *("efficientnet_lite0", "mobilenet_mnist", "ppocr_detection", "cnn_arrowhead"),
    *("magika_files", "silero_vad", "ppocr_reading"),
)
OPENVINO_LAYERS = ("Convolution", "GroupConvolution", "MatMul")


@dataclass
class Search:
    """How a tool met the bound, or did not."""

    task: str
    tool: str
    reference: float = 0.0
    score: float = 0.0
    is_met: bool = False
    integers: int = 0
    """Layers in 8 bits."""
    layers: int = 0
    validations: int = 0
    runs: float = 0.0
    """In passes over all test examples."""
    seconds: float = 0.0
    error: str = ""


def ours(one: Task, drop: float) -> Search:
    """What `infuse.compress` does."""
    begin = time.perf_counter()

    def judge(outputs: list[Answers], _: Any) -> float:
        return one.judge(outputs, one.truth)

    try:
        graph = infuse.compress(
            one.model,
            *("int8",),
            data=infuse.Examples(
                whole_runs(one.calibration),
                validation=whole_runs(one.test),
                labels=[0],
                metric=judge,
            ),
            contract=infuse.Contract(max_drop=f"{drop}%"),
            options=infuse.CompressOptions(allow_slower=True),
        )
        report = graph.compression
        is_met = report.is_met
    except ContractError as error:
        report, is_met = error.report, False
    forms = [layer.form for layer in report.layers]
    return Search(
        *(one.name, "infuse", report.reference, report.score, is_met),
        *(forms.count("int8"), len(forms), report.validations),
        runs=report.model_runs / report.examples,
        seconds=time.perf_counter() - begin,
    )


def nncf_control(one: Task, drop: float) -> Search:
    """What NNCF's quantization with accuracy control does, with its defaults, on OpenVINO (on ONNX
    files it cannot rank operators).
    """
    import nncf
    import openvino

    nncf.set_log_level(logging.ERROR)
    result = Search(one.name, "nncf")
    begin, runs = time.perf_counter(), 0

    def validate(candidate: Any, items: Iterable[tuple[int, Feeds]]) -> tuple[float, Any]:
        nonlocal runs
        answer = _runner(candidate)
        answers = [answer(feeds) for _, feeds in items]
        runs += len(answers)
        listed = [list(each.values()) for each in answers]
        if len(answers) < len(one.test):
            return 0.0, listed
        result.validations += 1
        return one.judge(answers, one.truth), listed

    model = openvino.Core().read_model(one.model)
    try:
        quantized: Any = nncf.quantize_with_accuracy_control(
            model,
            calibration_dataset=nncf.Dataset(one.calibration, lambda feed: feed),
            validation_dataset=nncf.Dataset(list(enumerate(one.test)), lambda item: item[1]),
            validation_fn=validate,
            max_drop=drop / 100,
            drop_type=nncf.DropType.RELATIVE,
            subset_size=len(one.calibration),
        )
    except Exception as error:
        result.error = f"{type(error).__name__}: {error}"[:200]
        result.seconds, result.runs = time.perf_counter() - begin, runs / len(one.test)
        return result
    result.seconds, result.runs = time.perf_counter() - begin, runs / len(one.test)
    result.reference, result.score = (
        one.score(_runner(openvino.compile_model(each, "CPU"))) for each in (model, quantized)
    )
    result.is_met = result.score >= result.reference * (1 - drop / 100)
    result.layers, result.integers = _layers(model)[0], _layers(quantized)[1]
    return result


def _runner(model: Any) -> Run:
    names = [output.get_any_name() for output in model.outputs]

    def run(feeds: Feeds) -> Answers:
        return dict(zip(names, (np.array(each) for each in model(feeds).values())))

    return run


def _layers(model: Any) -> tuple[int, int]:
    """Convolutions and products with constant weights, and those whose activation is rounded."""
    nodes = [n for n in model.get_ops() if n.get_type_name() in OPENVINO_LAYERS]
    makers = [n.input_value(0).get_node().get_type_name() for n in nodes]
    return len(nodes), makers.count("FakeQuantize")


def main(arguments: list[str] | None = None) -> int:
    """Search, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(HARD))
    parser.add_argument("--max-drop", type=float, default=0.5, help="percent of the score")
    parser.add_argument("--peers", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    table = Table(title=f"a loss of {options.max_drop} % at most")
    for column in ("network", "tool", "float32", "result", "met", "int8 of", "validations"):
        table.add_column(column)
    table.add_column("runs")
    table.add_column("s")
    rows = []
    memory = tempfile.TemporaryDirectory()  # earlier searches are not remembered
    os.environ[FOLDER_VARIABLE] = memory.name
    for name in options.names or HARD:
        one = task(name, options.folder)
        if not one.higher_is_better:
            print(f"{name}: of its score less is better; left out", file=sys.stderr)
            continue
        tools = [ours, *([nncf_control] if "nncf" in options.peers.split(",") else [])]
        for tool in tools:
            row = tool(one, options.max_drop)
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            verdict = row.error or ("yes" if row.is_met else "no")
            table.add_row(
                *(row.task, row.tool, f"{row.reference:.4f}", f"{row.score:.4f}", verdict),
                *(f"{row.integers} of {row.layers}", str(row.validations)),
                *(f"{row.runs:.1f}", f"{row.seconds:.0f}"),
            )
    console(160).print(table)
    ratios = [
        theirs.validations / mine.validations
        for mine, theirs in zip(rows[::2], rows[1::2])
        if theirs.tool == "nncf" and not theirs.error
    ]
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"NNCF's validations over Infuse's: geomean {mean:.1f}, lowest {min(ratios):.1f}")
    if options.json:
        save(options.json, {"max_drop": options.max_drop, "rows": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
