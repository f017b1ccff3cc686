"""Reading a file needs no framework: every format is read in a process that has none."""

import subprocess
import sys
from pathlib import Path

import pytest

from infuse.frontends.formats import FORMATS as NAMED, format_name
from tests.models.fuzz_foreign import FORMATS, written

NEEDED = {"keras": "h5py", "h5": "h5py", "torchscript": "torch", "huggingface": "safetensors"}
"""What a format's file is made with here, or read by."""
PROGRAM = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            raise ImportError(f"{name} is not to be needed")

FRAMEWORKS = {frameworks}
sys.meta_path.insert(0, Refused())
import infuse

assert len(infuse.load(sys.argv[1])) > 0
assert not FRAMEWORKS & set(sys.modules)
"""
FRAMEWORKS = {
    *("torch", "tensorflow", "keras", "tf_keras", "paddle", "mindspore", "jax", "sklearn"),
    *("xgboost", "lightgbm", "catboost", "transformers", "safetensors", "tflite", "onnxruntime"),
    *("ai_edge_litert", "torchvision", "pandas", "scipy"),
}


@pytest.mark.row("C2", "C3")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_read_without_its_framework(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDED.get(kind, "numpy"))
    path = written(FORMATS[kind]()[0], tmp_path)
    assert format_name(path) in {format.name for format in NAMED}
    text = PROGRAM.replace("{frameworks}", repr(FRAMEWORKS))
    done = subprocess.run(
        [sys.executable, "-c", text, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_hdf5_without_its_library_is_an_error(tmp_path: Path) -> None:
    path = written(FORMATS["keras"]()[0], tmp_path)
    text = "import sys\nsys.modules['h5py'] = None\n" + PROGRAM.replace("{frameworks}", "set()")
    done = subprocess.run(
        [sys.executable, "-c", text, str(path)], capture_output=True, text=True, check=False
    )
    assert "which needs the package h5py" in done.stderr
    assert "pip install h5py" in done.stderr
