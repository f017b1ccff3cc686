"""The process that compiles a model in the background.

`python -m infuse.build.background_process FOLDER` reads the graph and the options that lie in the
folder, and writes its answer there. Other processes go first.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

from infuse.build.background import ANSWER, GRAPH, MODEL, OPTIONS
from infuse.build.build import copy_files
from infuse.build.compile import compile_graph
from infuse.errors import InfuseError
from infuse.ir.file import load
from infuse.ops.core.inference import infer_graph
from infuse.runtime.hosted import HostedModel
from infuse.runtime.model import CompiledModel
from infuse.runtime.places import cache_root
from infuse.runtime.swapping import NICENESS


def compiled(folder: Path) -> Path:
    """The compiled model: in the cache, or else in `folder`."""
    graph = load(folder / GRAPH)
    infer_graph(graph)
    options = pickle.loads((folder / OPTIONS).read_bytes())  # noqa: S301  written by our parent
    model = compile_graph(graph, options)
    output = folder / MODEL
    if isinstance(model, HostedModel):
        model.save(output)
        return output
    assert isinstance(model, CompiledModel)
    if cache_root() in model.folder.parents:
        return model.folder
    output.mkdir()
    copy_files(model.folder, output)
    return output


def main(folder: Path) -> int:
    """Answer what lies in `folder`."""
    os.nice(NICENESS)
    try:
        answer = {"folder": str(compiled(folder))}
    except InfuseError as error:
        answer = {"error": str(error)}
    except (MemoryError, OSError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    (folder / ANSWER).write_text(json.dumps(answer), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
