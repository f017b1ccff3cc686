"""The process that opens HDF5 files: it may crash or not end, and the next file is read."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import infuse
from infuse.errors import ModelFileError
from infuse.frontends.keras import hdf5_process
from infuse.ir.equality import equal
from tests.models.test_keras import archive

pytest.importorskip("h5py")
pytestmark = pytest.mark.row("C3")


def model() -> bytes:
    members = archive("legacy")
    return members[next(name for name in sorted(members) if name.endswith(".h5"))]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> hdf5_process._Worker:
    own = hdf5_process._Worker()
    monkeypatch.setattr(hdf5_process, "_WORKER", own)
    return own


def program(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "reason"),
    [("import time; time.sleep(100)", "does not end"), ("import os; os.abort()", "crashes")],
)
def test_a_library_that_fails_is_an_error(
    worker: hdf5_process._Worker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    reason: str,
) -> None:
    text = f"import sys\nsys.stdin.buffer.read({8 + len(model())})\n{text}\n"
    with monkeypatch.context() as patch:
        patch.setattr(hdf5_process, "_PROGRAM", program(tmp_path / "fails.py", text))
        patch.setattr(hdf5_process, "_SECONDS", 0.5)
        with pytest.raises(ModelFileError, match=f"HDF5's library {reason}"):
            infuse.load(model())
    assert len(infuse.load(model())) > 0
    worker.close()


def test_a_process_that_ended_is_started_again(worker: hdf5_process._Worker) -> None:
    first = infuse.load(model())
    process = worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert len(infuse.load(model())) == len(first)
    assert worker._process is not process
    worker.close()


def test_an_answer_that_was_not_read_is_no_other_file_s(
    worker: hdf5_process._Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> bytes:
        raise KeyboardInterrupt

    members = archive("legacy")
    first, other = [members[n] for n in sorted(members) if n.endswith(".h5")][:2]
    right = infuse.load(other)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "_part", interrupted)
        with pytest.raises(KeyboardInterrupt):
            infuse.load(first)
    assert equal(infuse.load(other), right) is None
    worker.close()


def test_threads_take_turns(worker: hdf5_process._Worker) -> None:
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.append(len(infuse.load(model())))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    assert len(set(counts)) == 1
    worker.close()


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(model())
    text = (
        "import infuse, sys\n"
        "from infuse.frontends.keras import hdf5_process\n"
        "infuse.load(sys.argv[1])\n"
        "print(hdf5_process._WORKER._process.pid)\n"
    )
    path = program(tmp_path / "loads.py", text)
    command = [sys.executable, "-W", "error", str(path), str(tmp_path / "model.h5")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
