"""Light networks side by side: `python -m benchmarks.light --against onnxruntime,openvino
--json FILE`.

Of each network: accuracy as published; parameters, MACs and memory access as `infuse inspect`
counts them; bytes of library, weights and working memory; time in one thread and in two, beside
other runtimes in turns (A B A B), each in a process of its own; where Infuse's time goes; and
instructions on 64-bit ARM, counted under QEMU where that is installed. Networks that are not in the
folder are exported first, which takes PyTorch, torchvision and timm. Weights are random: the time
does not depend on them. Exit status 1 where an engine fails or Infuse is wrong.

`python -m benchmarks.light.page FILE` writes docs/light.md of the results.
"""

import argparse
import fnmatch
import logging
import shlex
import sys
from pathlib import Path

from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.inputs import default_zoo
from benchmarks.light import instructions, quiet
from benchmarks.light.measuring import Row, Turns, measure
from benchmarks.light.networks import NETWORKS
from benchmarks.zoo import OURS, TOLERANCES


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options, with the names of the networks as `models`."""
    parser = options.parser("Compare light networks.")
    options.add_models(parser)
    options.add_against(parser, "onnxruntime,openvino")
    options.add_threads(parser)
    options.add_turns(parser)
    parser.add_argument(
        "--quiet",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="wait that long at most before a turn while others use the processors (default: 20)",
    )
    parser.set_defaults(zoo=default_zoo() / "light")
    given = parser.parse_args(arguments)
    globs = given.models
    given.models = [name for name in NETWORKS if any(fnmatch.fnmatch(name, glob) for glob in globs)]
    if not given.models:
        parser.error(f"no network {','.join(globs)}; there are {', '.join(NETWORKS)}")
    return given


def exported(name: str, folder: Path) -> Path:
    """The ONNX file of a network, written where it is not there."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        from benchmarks.light.models import export

        logging.disable(logging.WARNING)
        export(name, path)
        logging.disable(logging.NOTSET)
    return path


def is_good(row: Row) -> bool:
    """Every engine ran, and Infuse's answer is within the tolerance."""
    engines_failed = row.errors.keys() - {instructions.TARGET}
    return not engines_failed and row.differences.get(OURS, 0.0) <= TOLERANCES["fp32"]


def table(rows: list[Row], engines: list[str], threads: list[int]) -> Table:
    """One line a network, milliseconds of every engine."""
    shown = Table(title="median of turns, ms", title_justify="left")
    for name in ("network", "M MACs", *(f"{e}, {n}" for n in threads for e in engines)):
        shown.add_column(name, justify="left" if name == "network" else "right")
    for row in rows:
        times = [row.seconds(engine, str(n)) for n in threads for engine in engines]
        cells = [f"{1e3 * time:.2f}" if time else "–" for time in times]
        style = None if is_good(row) else "red"
        shown.add_row(row.network, f"{row.counts['macs'] / 1e6:.0f}", *cells, style=style)
    return shown


def save(rows: list[Row], given: argparse.Namespace, command: str) -> None:
    """Write everything measured so far as JSON."""
    content: dict[str, object] = {
        "command": command,
        "rounds": given.rounds,
        "seconds_a_turn": given.seconds,
        "seconds_of_quiet": given.quiet,
        "scheduling": quiet.scheduling(),
        "threads": given.threads,
        "engines": [OURS, *given.against],
        "rows": [row.plain() for row in rows],
    }
    if any(row.elsewhere for row in rows):
        content["emulation"] = dict(instructions.versions())
    machine.save(given.json, content)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    given = parse(arguments)
    words = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "-m", "benchmarks.light", *words])
    rows: list[Row] = []
    for name in terminal.watched(given.models, str):
        path = exported(name, given.zoo)
        how = Turns(given.rounds, given.seconds, given.quiet)
        rows.append(measure(name, path, given.against, given.threads, how))
        if given.json:
            save(rows, given, command)
    console = terminal.console()
    console.print(table(rows, [OURS, *given.against], given.threads))
    for row in rows:
        terminal.complain(console, row.network, row.errors)
    return 0 if all(map(is_good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
