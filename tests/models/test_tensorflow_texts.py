"""Files with strings and tables, as their exporters write them, beside TensorFlow."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from tests.models.tensorflow_files import cases

CASES = {name: case for name, case in cases("texts.npz").items() if name != "lite_custom"}
CUSTOM = """
import json, sys
import numpy as np
import infuse
from infuse import dtypes
from infuse.ops.core.base import Elementwise
from infuse.ops.core.evaluate import evaluate
from infuse.ops.text_editing import TextBucket

class StringToHashBucketFast(Elementwise):
    domain = "tensorflow"
    num_buckets: int

    def result_dtype(self, x):
        return dtypes.int64

    def eval(self, x):
        return TextBucket(buckets=self.num_buckets).eval(x)

graph = infuse.load(sys.argv[1])
texts = np.array(json.loads(sys.argv[2]), object)
model = infuse.compile(infuse.optimize(graph))
(source,) = model.inputs
print(json.dumps([r.tolist() for r in model.run({source.name: texts}).values()]))
"""
"""A program with a class of operators of its own."""


def written(name: str, folder: Path) -> Path:
    """The file or folder of a model."""
    for part, data in CASES[name].items():
        if part.startswith("file_"):
            path = folder / part[5:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())
    return folder / "model.tflite" if name == "lite" else folder


def feeds(name: str) -> dict[str, Any]:
    """What it is called with, by the names of inputs."""
    arrays = {part[3:]: data for part, data in CASES[name].items() if part.startswith("in_")}
    return {key: a.astype(object) if a.dtype.kind == "U" else a for key, a in arrays.items()}


def compare(name: str, made: dict[str, Any]) -> None:
    """Names of results are those of the signature; TensorFlow.js narrows integers to 32 bits."""
    expected = {part[4:]: data for part, data in CASES[name].items() if part.startswith("out_")}
    assert made.keys() == expected.keys()
    for key, result in made.items():
        wanted = expected[key]
        assert result.shape == wanted.shape
        if wanted.dtype.kind == "U":
            assert result.tolist() == wanted.tolist()
        else:
            assert result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(CASES))
def test_strings_and_tables(name: str, tmp_path: Path) -> None:
    graph = infuse.load(written(name, tmp_path))
    compare(name, evaluate(graph, feeds(name)))


@pytest.mark.parametrize("name", ["vectorized_tf_idf", "vocabulary", "lite"])
def test_compiled_and_stored(name: str, tmp_path: Path) -> None:
    infuse.save(infuse.load(written(name, tmp_path)), tmp_path / "m.infuse")
    model = infuse.compile(infuse.optimize(infuse.load(tmp_path / "m.infuse")))
    compare(name, model.run(feeds(name)))


def test_a_class_of_operators_is_what_a_custom_one_of_tensorflow_lite_computes(
    tmp_path: Path,
) -> None:
    case = cases("texts.npz")["lite_custom"]
    path = tmp_path / "model.tflite"
    path.write_bytes(case["file_model.tflite"].tobytes())
    with pytest.raises(UnsupportedOperatorError, match="CUSTOM StringToHashBucketFast") as caught:
        infuse.load(path)
    assert "extending.md" in str(caught.value.hint)
    command = [sys.executable, "-c", CUSTOM, str(path), json.dumps(case["in_text"].tolist())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [case["out_bucket"].tolist()]


def test_batches_of_none(tmp_path: Path) -> None:
    graph = infuse.load(written("vectorized_count", tmp_path))
    (made,) = evaluate(graph, {"text": np.zeros(0, object)}).values()
    assert made.shape == (0, 3)


def test_files_that_are_not_the_models_own_are_not_read(tmp_path: Path) -> None:
    saved = written("vocabulary", tmp_path) / "saved_model.pb"
    data = saved.read_bytes()
    saved.write_bytes(data.replace(b"words.txt", b"../../etc"))
    assert saved.read_bytes() != data
    with pytest.raises(ModelFileError, match="not one of its folder"):
        infuse.load(tmp_path)


def test_a_vocabulary_that_is_missing(tmp_path: Path) -> None:
    written("vocabulary", tmp_path)
    (tmp_path / "assets" / "words.txt").unlink()
    with pytest.raises(InfuseError, match=r"words\.txt"):
        infuse.load(tmp_path)


@pytest.mark.parametrize("name", ["vectorized", "lite", "web", "embedded"])
def test_damaged_files_are_errors(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = written(name, tmp_path)
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    for file in files:
        data = file.read_bytes()
        for _ in range(15):
            place = int(rng.integers(len(data)))
            file.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
            with suppress(InfuseError):
                evaluate(infuse.load(path), feeds(name))
        file.write_bytes(data)
