"""Functions and layers of the user's own in files of Keras, by classes of operators."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import UnsupportedOperatorError
from tests.models.tensorflow_files import cases

pytest.importorskip("h5py", reason="reads the weights")

DATA = Path(__file__).parent / "data" / "keras"
PROGRAM = """
import json, sys
from typing import ClassVar
import numpy as np
import infuse
from infuse.ops.core.base import Op

class Divided(Op):
    domain, name = "keras", "mine>divided"
    parts: int = 2

    def infer(self, x):
        return x.type

    def eval(self, x):
        return (x / self.parts).astype(x.dtype)

class Scaled(Op):
    domain, name = "keras", "mine>Scaled"
    layer_weights: ClassVar = ("scale",)
    power: int = 2

    def infer(self, x, scale):
        return x.type

    def eval(self, x, scale):
        return (scale * x**self.power).astype(x.dtype)

model = infuse.compile(infuse.optimize(infuse.load(sys.argv[1])))
(source,) = model.inputs
(result,) = model.run({source.name: np.array(json.loads(sys.argv[2]), np.float32)}).values()
print(json.dumps(result.tolist()))
"""


@pytest.fixture
def case(tmp_path: Path) -> dict[str, Any]:
    stored = cases("own.npz", DATA)["own"]
    path = tmp_path / "own.keras"
    path.write_bytes(stored["file"].tobytes())
    return {**stored, "path": path}


def test_nothing_of_a_file_is_executed(case: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedOperatorError, match="never executed: lambda") as caught:
        infuse.load(case["path"])
    assert "extending.md" in str(caught.value.hint)


def test_classes_of_operators_are_what_layers_compute(case: dict[str, Any]) -> None:
    # A process of its own: what it registers must not reach the tests of the project's operators.
    given = json.dumps(case["x"].tolist())
    command = [sys.executable, "-c", PROGRAM, str(case["path"]), given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.array(json.loads(done.stdout)), case["y"], rtol=1e-5, atol=1e-7)
