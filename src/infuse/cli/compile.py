"""`infuse compile`: a folder that runs without a compiler."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.build.encrypting import encrypt as encrypt_folder
from infuse.cli import terminal
from infuse.cli.flags import Without, with_flags
from infuse.cli.folders import say_folder, weights_text
from infuse.cli.models import load_model, note_search
from infuse.cli.options import AsJson, ModelFile
from infuse.errors import OptionError
from infuse.lowering.weights import constant_bytes
from infuse.options import CompileOptions, FormatOptions, Rules
from infuse.runtime.encrypted import read_key
from infuse.runtime.folder import check_replaceable, file_sizes


@with_flags
def compile(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder to write.")
    ],
    options: CompileOptions,
    rules: Annotated[Rules, Without("runtime")],
    format: FormatOptions,
    encrypt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Encrypt the weights by the key of 32 bytes in this file."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile a model to a folder: library, weights, header and source.

    Kernels are chosen for the number of threads that runs will have.
    """
    started = time.perf_counter()
    key = None if encrypt is None else read_key(encrypt)
    if key is not None and (options.embed or options.is_source):
        raise OptionError("--encrypt is for a file of weights, and other options ask for none")
    graph = load_model(model, format)
    with terminal.progress(model.name) as progress, _unencrypted(output, key) as folder:
        better = infuse.optimize(graph, rules, progress=progress)
        optimized = time.perf_counter()
        with infuse.compile(better, options, output=folder, progress=progress) as compiled:
            facts = {
                "output": str(output),
                "target": options.target,
                "precision": compiled.metadata.get("precision", options.precision),
                "precision_report": compiled.metadata.get("precision_report"),
                "inputs": [str(spec) for spec in compiled.inputs],
                "outputs": [str(spec) for spec in compiled.outputs],
                "arena": compiled.metadata.get("arena"),
                "rows": compiled.metadata.get("rows"),
                "limited_kernels": compiled.metadata.get("limited_kernels", {}),
                "kept_in_fp32": compiled.metadata.get("kept_in_fp32", {}),
                "host_steps": compiled.host_steps,
                "weights": options.weights,
                "weights_bytes": compiled.weights_bytes,
                "constants_bytes": constant_bytes(better),
            }
    note_search(better)
    facts["optimize_seconds"] = optimized - started
    facts["compile_seconds"] = time.perf_counter() - optimized
    facts["files"] = file_sizes(output)
    terminal.answer(facts, as_json, lambda: _print(facts))


@contextmanager
def _unencrypted(output: Path, key: bytes | None) -> Iterator[Path]:
    """Where a model is compiled to: the folder itself, or one beside it, so that weights which are
    to be encrypted by a key are never in the folder as they are.
    """
    if key is None:
        yield output
        return
    check_replaceable(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as name:
        yield Path(name) / "model"
        encrypt_folder(Path(name) / "model", key, output)


def _print(facts: dict[str, Any]) -> None:
    say_folder(facts["output"], facts)
    terminal.say(weights_text(facts["weights_bytes"], facts["constants_bytes"], facts["weights"]))
    terminal.say(
        f"optimized in {facts['optimize_seconds']:.2f} s, compiled in "
        f"{facts['compile_seconds']:.2f} s"
    )
