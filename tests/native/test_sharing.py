"""Processes that run the same compiled model: what they load, and what they share."""

import gc
import mmap
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import infuse
from benchmarks.process import Mapping, Memory, after_import
from infuse.runtime.folder import WEIGHTS
from infuse.runtime.library import map_weights
from tests.native.builder import Builder

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells what processes share (/proc)"
)

ROWS, COLUMNS = 1024, 4096
COMPILER = (
    "ops",
    "ir",
    "rewrite",
    "passes",
    "codegen",
    "tracing",
    "frontends",
    "exporters",
    "compress",
    "analysis",
)

RUN = """
import sys
import numpy as np
from infuse import InferenceSession
session = InferenceSession(sys.argv[1])
session.run(None, {"x0": np.ones((1, int(sys.argv[2])), np.float32)})
loaded = sorted({name.split(".")[1] for name in sys.modules if name.startswith("infuse.")})
print(*loaded, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled model with 16 MiB of weights."""
    b = Builder()
    b.output(b("MatMul", b.input(1, ROWS), b.weight(ROWS, COLUMNS)))
    path = tmp_path_factory.mktemp("shared") / "model"
    infuse.compile(b.graph, output=path).close()
    return path


@contextmanager
def running(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A process that has run the model and waits: its number, and which parts of Infuse it has
    loaded.
    """
    command = [sys.executable, "-c", RUN, str(folder), str(ROWS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.pid, process.stdout.readline().split()


def test_weights_are_in_memory_once(folder: Path) -> None:
    weights = folder / WEIGHTS
    size = weights.stat().st_size
    assert size == 4 * ROWS * COLUMNS
    with ExitStack() as stack:
        for process, _ in [stack.enter_context(running(folder)) for _ in range(2)]:
            found, memory = Mapping.of(weights, process), Memory.of(process)
            assert found.resident >= 0.95 * size
            assert found.private == 0
            assert memory.anonymous - after_import("numpy").anonymous < size
            assert memory.peak >= memory.resident >= memory.shared >= memory.private


def test_sessions_of_a_process_have_one_mapping(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    size = (other / WEIGHTS).stat().st_size
    feeds = {"x0": np.ones((1, ROWS), np.float32)}
    sessions = [infuse.InferenceSession(str(other)) for _ in range(2)]
    expected = [session.run(None, feeds)[0] for session in sessions]
    assert 0.95 * size <= Mapping.of(other / WEIGHTS).resident <= size
    del sessions[0]
    gc.collect()
    np.testing.assert_array_equal(sessions[0].run(None, feeds)[0], expected[1])
    sessions.clear()
    gc.collect()
    assert Mapping.of(other / WEIGHTS) == Mapping(0, 0)


def test_a_file_that_replaces_another_has_a_mapping_of_its_own(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / WEIGHTS
    shutil.copy(folder / WEIGHTS, file)
    before = map_weights(file)
    assert map_weights(file).ctypes.data == before.ctypes.data
    (tmp_path / "new").write_bytes(bytes(file.stat().st_size))
    (tmp_path / "new").replace(file)
    after = map_weights(file)
    assert after.ctypes.data != before.ctypes.data
    assert not after.any()
    assert before.any()
    file.chmod(0o666)
    assert map_weights(file).ctypes.data != after.ctypes.data


def test_a_process_that_only_runs_models_loads_no_compiler(folder: Path) -> None:
    with running(folder) as (_, loaded):
        assert "runtime" in loaded
        assert not set(COMPILER) & set(loaded)


def test_what_is_imported_late_is_there() -> None:
    assert set(infuse.__all__) <= set(dir(infuse))
    assert all(hasattr(infuse, name) for name in infuse.__all__)
    assert infuse.Graph.__name__ == "Graph"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = infuse.nothing  # type: ignore[attr-defined]


def test_memory_of_this_process_is_read() -> None:
    before = Memory.of("self")
    with mmap.mmap(-1, 1 << 25, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"x" * len(block))
        after = Memory.of("self")
        assert after.anonymous - before.anonymous > 0.9 * len(block)
        assert after.private >= len(block)
    assert Mapping.of(Path("nowhere")) == Mapping(0, 0)
