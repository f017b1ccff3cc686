"""Writes `data/keras/`: models of Keras, inputs, and what Keras makes of them. Needs keras with
TensorFlow, and tf_keras for the files of Keras 2: `python -m tests.models.make_keras [ARCHIVE]`.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import keras_cases, keras_cases_models, keras_cases_operations  # noqa: F401
from tests.models.keras_cases_functions import FUNCTIONS
from tests.models.keras_cases_legacy import LEGACY
from tests.models.keras_cases_matrices import MATRICES
from tests.models.keras_cases_numeric import NUMERIC
from tests.models.keras_cases_quantized import GPTQ, QUANTIZED
from tests.models.keras_cases_special import SPECIAL

FOLDER = Path(__file__).parent / "data" / "keras"
CASES = keras_cases.CASES


def main() -> None:
    """Write all archives, or those that are named: for every case the model, its inputs and
    outputs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras

    FOLDER.mkdir(parents=True, exist_ok=True)
    named = sys.argv[1:] or [
        "cases",
        "special",
        "numeric",
        "functions",
        "matrices",
        "quantized",
        "legacy",
    ]
    if "cases" in named:
        collect("cases", keras, CASES, "keras")
    if "special" in named:
        collect("special", keras, SPECIAL, "keras")
    if "numeric" in named:
        collect("numeric", keras, NUMERIC, "keras")
    if "functions" in named:
        collect("functions", keras, FUNCTIONS, "keras")
    if "matrices" in named:
        collect("matrices", keras, MATRICES, "keras")
    if "quantized" in named:
        collect("quantized", keras, QUANTIZED, "keras")
    if "gptq" in named:
        collect("gptq", keras, GPTQ, "keras")
    if "legacy" in named:
        import tf_keras

        collect("legacy", tf_keras, LEGACY, "h5")


def collect(file: str, library: Any, cases: dict[str, Any], suffix: str) -> None:
    """One archive; names of layers begin anew in every case."""
    with tarfile.open(FOLDER / f"{file}.tar.xz", "w:xz", preset=9) as archive:
        for name, make in cases.items():
            if suffix == "keras":
                library.utils.clear_session(free_memory=False)
            else:
                library.backend.reset_uids()
            model, feeds = make(library)
            fill(model, name)
            write(archive, name, model, feeds, suffix)


def fill(model: Any, name: str) -> None:
    """Random weights, also where Keras starts with zeros; variances are positive."""
    rng = np.random.default_rng(len(name))
    if "int8" in name or "gptq" in name or "int4" in name or "adapted" in name:
        return
    for weight in model.weights:
        shape = tuple(weight.shape)
        if "float" not in str(getattr(weight.dtype, "name", weight.dtype)):
            continue
        values = rng.normal(0, 0.5, shape)
        if "variance" in weight.name:
            values = rng.uniform(0.5, 2, shape)
        weight.assign(values.astype(np.float32).round(2))


def write(
    archive: tarfile.TarFile, name: str, model: Any, feeds: list[np.ndarray], suffix: str
) -> None:
    """The model and its numbers as members of an archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{suffix}"
        model.save(path)
        add(archive, f"{name}.{suffix}", path.read_bytes())
    add(archive, f"{name}.npz", numbers(model, feeds))


def numbers(model: Any, feeds: list[np.ndarray]) -> bytes:
    """Inputs and outputs of a model."""
    results = flat(model(feeds if len(feeds) > 1 else feeds[0], training=False))
    buffer = io.BytesIO()
    arrays = {f"x{i}": feed for i, feed in enumerate(feeds)}
    for i, result in enumerate(results):
        array = np.asarray(result)
        arrays[f"y{i}"] = array.astype(np.float32) if array.dtype.kind == "V" else array
        if array.dtype.name == "bfloat16":
            arrays[f"y{i}"] = array.astype(np.float32)
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def flat(nested: Any) -> list[Any]:
    """All tensors, those of dictionaries in the order of their keys."""
    if isinstance(nested, dict):
        return [each for key in sorted(nested) for each in flat(nested[key])]
    if isinstance(nested, (list, tuple)):
        return [each for part in nested for each in flat(part)]
    return [nested]


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """A member, without the time and the user."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main()
