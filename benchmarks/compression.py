"""Static int8 of the tasks that compression is judged on, by Infuse and by other quantizers.

`python -m benchmarks.compression FOLDER [NAME…] --threads 1 --peers onnxruntime --json FILE`

`FOLDER` is that of `python -m benchmarks.compression_tasks`. Every quantizer gets the same network
in float32 and the same calibration data; the score is that of the test data. Scores of peers are
measured with ONNX Runtime. Columns `speed` are float32 over int8 of the same runtime, least times
of runs that take turns; Infuse's is that of what it would ship (layers that float32 computes as
fast stay in float32), `all` of all layers in int8.
"""

import argparse
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import infuse
from benchmarks.compression_tasks import NAMES, task
from benchmarks.compression_tasks.base import Feeds, Run, Task, whole_runs
from benchmarks.machine import save
from benchmarks.terminal import console
from infuse.build.autotune.precision.request import least_seconds

Quantizer = Callable[[Task, Path], Path]


@dataclass
class Row:
    """The scores and times of one network."""

    task: str
    metric: str
    scores: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    """Parts of the score in float32."""
    speeds: dict[str, float] = field(default_factory=dict)
    layers: str = ""
    errors: dict[str, str] = field(default_factory=dict)


# -- Infuse ----------------------------------------------------------------------------------------


def _runner(model: Any) -> Run:
    run: Run = model.run
    return run


def ours(one: Task, row: Row, threads: int) -> None:
    """Scores and speeds of Infuse: all layers, and those that pay."""
    data = whole_runs(one.calibration)
    plain = infuse.compile(infuse.optimize(one.model), infuse.CompileOptions(threads=threads))
    row.scores["float32"] = one.score(_runner(plain))
    for name, slower in (("all", True), ("infuse", False)):
        graph = infuse.compress(
            one.model,
            "int8",
            data=data,
            options=infuse.CompressOptions(threads=threads, allow_slower=slower),
        )
        with infuse.compile(graph, infuse.CompileOptions(threads=threads)) as model:
            row.scores[name] = one.score(_runner(model))
        row.speeds[name] = graph.compression.speed
        forms = [layer.form for layer in graph.compression.layers]
        row.layers = ", ".join(f"{forms.count(f)} {f}" for f in dict.fromkeys(forms))


# -- peers -----------------------------------------------------------------------------------------


class _Reader:
    """Calibration data, as ONNX Runtime's tool asks for them."""

    def __init__(self, feeds: list[Feeds]) -> None:
        self._left: Iterator[Feeds] = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def onnxruntime_static(one: Task, folder: Path) -> Path:
    """QDQ by ONNX Runtime: u8 activations, s8 weights per channel, ranges by min-max."""
    import onnxruntime.quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.disable(logging.WARNING)
    plain, made = folder / "plain.onnx", folder / "onnxruntime.onnx"
    quant_pre_process(one.model, plain, skip_symbolic_shape=True)
    reader: Any = _Reader(one.calibration)
    kinds: dict[str, Any] = {
        "activation_type": tool.QuantType.QUInt8,
        "weight_type": tool.QuantType.QInt8,
    }
    tool.quantize_static(plain, made, reader, per_channel=True, **kinds)
    return made


def nncf_static(one: Task, folder: Path) -> Path:
    """NNCF's post-training quantization with its defaults (fast bias correction)."""
    import nncf
    import onnx

    nncf.set_log_level(logging.ERROR)
    model, made = onnx.load(one.model), folder / "nncf.onnx"
    feeds = nncf.Dataset(one.calibration, lambda feed: feed)
    quantized: Any = nncf.quantize(model, feeds, subset_size=len(one.calibration))
    onnx.save(quantized, made)
    return made


def compressor_static(one: Task, folder: Path) -> Path:
    """Intel Neural Compressor's static quantization of ONNX files with its defaults."""
    from onnx_neural_compressor import data_reader
    from onnx_neural_compressor.quantization import QuantFormat, config, quantize

    class Reader(data_reader.CalibrationDataReader):
        def __init__(self) -> None:
            self.rewind()

        def get_next(self) -> Feeds | None:
            return next(self._left, None)

        def rewind(self) -> None:
            self._left = iter(one.calibration)

    made = folder / "compressor.onnx"
    settings = config.StaticQuantConfig(
        calibration_data_reader=Reader(), per_channel=True, quant_format=QuantFormat.QDQ
    )
    quantize(str(one.model), str(made), settings)
    return made


PEERS: dict[str, Quantizer] = {
    "onnxruntime": onnxruntime_static,
    "nncf": nncf_static,
    "neural-compressor": compressor_static,
}


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _session_runner(session: Any) -> Run:
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds)))


def peer(name: str, one: Task, row: Row, threads: int) -> None:
    """The score and the speed of a peer's quantizer."""
    with tempfile.TemporaryDirectory() as folder:
        path = PEERS[name](one, Path(folder))
        runs = {
            kind: _session_runner(_session(file, threads))
            for kind, file in (("float32", one.model), ("int8", path))
        }
        row.scores[name] = one.score(runs["int8"])
        feeds = one.calibration[0]
        times = least_seconds({kind: lambda run=run: run(feeds) for kind, run in runs.items()})
        row.speeds[name] = min(times["float32"]) / min(times["int8"])


def measure(one: Task, peers: list[str], threads: int) -> Row:
    """All of one network."""
    row = Row(one.name, one.metric)
    ours(one, row, threads)
    for name in peers:
        try:
            peer(name, one, row, threads)
        except Exception as error:
            text = re.sub(r"/\S*/", "", str(error))  # folders of this machine
            row.errors[name] = f"{type(error).__name__}: {text}"[:200]
    exact, sign = row.scores["float32"], 1 if one.higher_is_better else -1
    row.losses = {
        name: sign * (exact - score) / abs(exact)
        for name, score in row.scores.items()
        if name != "float32"
    }
    return row


def report(rows: list[Row], peers: list[str]) -> None:
    """Print the table, and median and worst losses."""
    names = ["all", "infuse", *peers]
    columns = ["task", "metric", "#float32"]
    columns += [f"#{name}: loss %" for name in names] + [f"#{name}: speed" for name in names]
    lines = []
    for row in rows:
        losses = [f"{100 * row.losses[n]:.2f}" if n in row.losses else "–" for n in names]
        speeds = [f"{row.speeds[n]:.2f}" if n in row.speeds else "–" for n in names]
        lines.append((row.task, row.metric, f"{row.scores['float32']:.4f}", *losses, *speeds))
    table = Table(title="static int8")
    for column in columns:
        table.add_column(column.lstrip("#"), justify="right" if column[0] == "#" else "left")
    for line in lines:
        table.add_row(*line)
    console(200).print(table)
    for name in names:
        losses = [row.losses[name] for row in rows if name in row.losses]
        speeds = [row.speeds[name] for row in rows if name in row.speeds]
        if losses:
            mean = float(np.exp(np.mean(np.log(speeds))))
            print(
                f"{name}: {len(losses)} networks, loss median {100 * np.median(losses):.2f} %, "
                f"worst {100 * max(losses):.2f} %, speed geomean {mean:.2f}, "
                f"lowest {min(speeds):.2f}"
            )
    for row in rows:
        for name, error in row.errors.items():
            print(f"{row.task}, {name}: {error}")


def main(arguments: list[str] | None = None) -> int:
    """Quantize, measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="onnxruntime")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    rows = []
    for name in options.names or NAMES:
        rows.append(measure(task(name, options.folder), peers, options.threads))
        print(rows[-1], file=sys.stderr, flush=True)
    report(rows, peers)
    if options.json:
        save(options.json, {"rows": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
