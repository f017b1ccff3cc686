"""Networks of the zoo in 8 bits as `infuse compress` makes them, in every engine, and beside
float32.

`python -m benchmarks.compression_speed --threads 1,2 --models resnet50 --zoo FOLDER --json FILE`

All options are those of benchmarks.zoo. Column `speed` of the second table is Infuse in float32
over Infuse in 8 bits, measured in turns by `infuse compress`; ranges come from random inputs, so
accuracy is not what this measures. Transformers are quantized dynamically, too.
"""

import sys
import tempfile
from pathlib import Path

import infuse
from benchmarks import terminal, zoo
from benchmarks.inputs import make_inputs
from benchmarks.quantized import DEFAULTS, TRANSFORMERS

CALIBRATION = 8


def compressed(
    path: Path, folder: Path, dims: dict[str, int], threads: int
) -> dict[Path, tuple[float, float]]:
    """The compressed forms of a network as files, with the seconds in float32 and in 8 bits."""
    data = [make_inputs(path, dims, seed) for seed in range(1, CALIBRATION + 1)]
    methods = ["int8"]
    if any(path.match(name) for name in TRANSFORMERS):
        methods.append("int8-dynamic")
    made = {}
    for method in methods:
        graph = infuse.compress(
            path, method, data=data, options=infuse.CompressOptions(threads=threads, level="basic")
        )
        file = folder / f"{path.stem}-{method}.onnx"
        infuse.save(graph, file)
        made[file] = (graph.compression.float_seconds, graph.compression.seconds)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Compress, measure, print, save."""
    options, models = zoo.parse([*DEFAULTS, *(sys.argv[1:] if arguments is None else arguments)])
    rows: list[zoo.Row] = []
    lines = []
    with tempfile.TemporaryDirectory() as name:
        for path in models:
            for threads in options.threads:
                for file, times in compressed(path, Path(name), options.dims, threads).items():
                    row = zoo.run(file, threads, options)
                    row.facts.setdefault(zoo.OURS, {})["float32_seconds"] = times[0]
                    row.facts[zoo.OURS]["seconds_beside_float32"] = times[1]
                    rows.append(row)
                    lines.append((file.stem, threads, *times))
    console = terminal.console()
    zoo.report(rows, options, console)
    for name, threads, exact, small in lines:
        console.print(
            f"{name}, {threads} threads: {1e3 * exact:.2f} ms in float32, {1e3 * small:.2f} in "
            f"8 bits, {exact / small:.2f} ×"
        )
    if options.json:
        zoo.save(rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
