"""The most memory that `infuse compress` needs, beside the size of the model.

`python -m benchmarks.compression_memory resnet50.onnx --examples 300 --json FILE` compresses a
model with one input of a fixed shape by `--int8` in a process of its own, with an empty cache
folder, on smooth random pictures, and prints the peak of its resident memory, which includes what
is read of the data at once; the interpreter with its modules is told apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks.machine import save
from benchmarks.process import after_import

BAR = 3.0
"""Times the model, beside the interpreter."""
MODULES = ("infuse.cli.main", "infuse.cli.compress", "infuse.compression", "infuse.frontends.onnx")
"""What a compression imports, and with it the compiler."""
_CHILD = """
import sys
from infuse.cli.main import main
from benchmarks.process import peak_bytes
status = main(sys.argv[1:])
print(peak_bytes())
sys.exit(status)
"""


def pictures(model: Path, count: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Smooth random examples by input name."""
    (value,) = infuse.load(model).inputs
    shape = [int(str(size)) for size in value.shape or ()]
    rng = np.random.default_rng(0)
    array = rng.standard_normal((count * shape[0], *shape[1:]), np.float32)
    for axis in range(2, len(shape)):
        array += np.roll(array, 1, axis)
    return {value.name: array}


def measure(model: Path, count: int) -> dict[str, float]:
    """Bytes and seconds of one compression."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = pictures(model, count)
        np.savez(place / "data.npz", **data)
        options = ["--int8", "--json", "--data", str(place / "data.npz")]
        command = [sys.executable, "-c", _CHILD, "compress", str(model), "-o"]
        begin = time.perf_counter()
        answer = subprocess.run(
            [*command, str(place / "small.infuse"), *options],
            env=os.environ | {"INFUSE_CACHE": str(place / "cache")},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - begin
    size, data_bytes = model.stat().st_size, sum(array.nbytes for array in data.values())
    peak = int(answer.stdout.split()[-1])
    base = after_import(*MODULES).peak
    return {
        "model_bytes": size,
        "data_bytes": data_bytes,
        "interpreter_bytes": base,
        "peak_bytes": peak,
        "peak_of_model": peak / size,
        "own_of_model": (peak - base) / size,
        "seconds": seconds,
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.model, options.examples)
    if options.json is not None:
        save(options.json, figures)
    print(
        f"model {figures['model_bytes'] / 1e6:.0f} MB; peak {figures['peak_bytes'] / 1e6:.0f} MB = "
        f"{figures['peak_of_model']:.2f} × the model, of that the interpreter "
        f"{figures['interpreter_bytes'] / 1e6:.0f} MB, the rest {figures['own_of_model']:.2f} × "
        f"the model (bar {BAR:g}); the data have {figures['data_bytes'] / 1e6:.0f} MB, and stay in "
        f"their file; {figures['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
