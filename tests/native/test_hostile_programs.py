"""Mutated programs of prebuilt kernels under AddressSanitizer: whatever they say, it is kernels and
scripts, which trust their numbers, that go astray, never what loads and runs the program.
"""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.build.collecting import collected
from infuse.build.prebuilt import make_prebuilt
from infuse.build.staged import generate
from infuse.errors import ToolchainError
from infuse.ir.graph import Graph
from infuse.lowering.emitter import emitter_of
from infuse.lowering.metadata import metadata
from infuse.lowering.weights import write_weights
from infuse.runtime.shapes import ShapeBinder, TensorSpec
from infuse.targets import Target
from tests.native.test_program_files import network
from tests.support.hostile_programs import Answer, Request, Sample
from tests.support.sanitizing import compiler, under, variables

ROOT = Path(__file__).resolve().parents[2]
CASES = 1500
CHECKED = {
    "arena.h",
    "executor.cpp",
    "frame.hpp",
    "model_file.hpp",
    "program_checks.hpp",
    "program_plan.hpp",
    "program_reader.hpp",
    "program_terms.hpp",
    "programs.cpp",
    "script_reader.hpp",
    "word_reader.hpp",
}
"""The files that have to stay within their limits, whatever a program says."""
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ +(.*)$", re.MULTILINE)
LINE = re.compile(r"([\w.]+):\d+(?::\d+)?$")
pytestmark = pytest.mark.row("X1")


def sample(graph: Graph, feeds: Mapping[str, Any], folder: Path) -> Sample:
    """A graph as a program, with a run of it."""
    target = Target.resolve()
    program, plan = generate(graph, target, 1)
    content = emitter_of(target.machine).write_program(program, plan, frozenset()).content
    write_weights(folder / "weights", program.weights, program.weights.bytes)
    facts = metadata(program, "")
    inputs, outputs = (
        [*map(TensorSpec.from_metadata, facts[side])] for side in ("inputs", "outputs")
    )
    arrays = [np.ascontiguousarray(feeds[spec.name]) for spec in inputs]
    return Sample(
        content,
        (folder / "weights").read_bytes(),
        ShapeBinder(inputs, facts["symbols"]).bind([array.shape for array in arrays]),
        [array.tobytes() for array in arrays],
        [(spec.dtype.itemsize, len(spec.shape)) for spec in outputs],
    )


def run_hostile(request: Request, folder: Path) -> tuple[Answer, dict[int, str]]:
    """Run cases in a process of their own; and what AddressSanitizer said, by case,
    of those that did not take too long.
    """
    (folder / "request").write_bytes(pickle.dumps(request))
    worker = [sys.executable, "-m", "tests.support.hostile_programs"]
    options = variables("address", folder / "log")
    options["ASAN_OPTIONS"] = options["ASAN_OPTIONS"].replace("halt_on_error=0", "halt_on_error=1")
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    subprocess.run(
        under("address", [*worker, str(folder / "request"), str(folder / "answer")]),
        env=os.environ | options | {"PYTHONPATH": path},
        cwd=ROOT,
        check=True,
    )
    answer = Answer(*json.loads((folder / "answer").read_text()))
    whole = [each for each in answer.ended if each[1] != -signal.SIGPROF]
    logs = {number: folder / f"log.{process}" for number, _, process in whole}
    return answer, {n: log.read_text("utf-8") for n, log in logs.items() if log.exists()}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        toolchain = compiler()
    except ToolchainError as error:
        pytest.skip(error.what)
    path, target = tmp_path_factory.mktemp("hostile") / "net.so", Target.resolve()
    make_prebuilt(collected(target, [network()]), target, path, toolchain=toolchain)
    return path


def test_what_runs_programs_stays_within_its_limits(library: Path, tmp_path: Path) -> None:
    feeds = {"x": np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 4, 8)}
    one = sample(network(), feeds, tmp_path)
    answer, reports = run_hostile(Request(str(library), [one], 0, CASES), tmp_path)
    assert answer.ran > CASES // 20
    for number, report in reports.items():
        assert culprit(report) not in CHECKED, f"case {number}: {report}"


def culprit(report: str) -> str:
    """The file in which a fault is, where it is known; that the executor's are, is checked."""
    frames = FRAME.findall(report[report.index("ERROR: AddressSanitizer") :])
    own = [frame for frame in frames if "libsanitizer" not in frame]
    assert "<unknown module>" not in own[0], report
    files = [line[1] if (line := LINE.search(frame)) else "" for frame in own]
    assert {"executor.cpp", "programs.cpp"} & {*files}, report
    return files[0]
