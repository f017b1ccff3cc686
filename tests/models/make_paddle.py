"""Writes tests/models/data/paddle, all groups of cases or one, for FORMAT in `pir` (Paddle 3) and
`old` (Paddle 2 and 3.0, whose kernels still take old programs):
`python -m tests.models.make_paddle FORMAT [GROUP]`.

Every case is exported as Paddle's own functions export it, and run by Paddle.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FLAG = "FLAGS_enable_pir_api"
FORMAT = sys.argv[1] if len(sys.argv) > 1 else "pir"
os.environ[FLAG] = str(int(FORMAT == "pir"))

import paddle  # noqa: E402  reads the flag

from tests.models.paddle_cases import CASES, Case  # noqa: E402
from tests.models.tensorflow_files import write  # noqa: E402

_FLOATS = np.array(
    [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 3e9, -1e10, 88.0, -20.0], np.float32
)
_LIMITS = np.array([-(2**31), 2**31 - 1, 0, 1, -1, 16777217, -7, 12], np.int32)
SPECIAL = {"s": _FLOATS, "t": _FLOATS, "l": _LIMITS, "m": _LIMITS}
_DTYPES = {"l": "int32", "m": "int32", "i": "int64", "j": "int32", "b": "bool"}


def sample(rng: np.random.Generator, kind: str, shape: list[int]) -> np.ndarray:
    """Random elements of a kind, or special ones."""
    if kind in SPECIAL:
        elements = np.array(SPECIAL[kind])
        if kind in "tm":
            return np.resize(elements, shape).T.copy()
        return np.resize(elements, shape)
    if kind in "ij":
        return rng.integers(0, 3, shape).astype(_DTYPES[kind])
    if kind == "b":
        return rng.random(shape) > 0.5
    elements = rng.random(shape) if kind == "u" else rng.standard_normal(shape)
    return (np.abs(elements) + 1.1 if kind == "p" else elements).astype(np.float32)


def exported(case: Case, folder: Path, seed: int) -> dict[str, np.ndarray]:
    """The files of one case, its inputs and Paddle's outputs."""
    text, function = case
    paddle.seed(seed)
    rng = np.random.default_rng(seed)
    main, start = paddle.static.Program(), paddle.static.Program()
    arrays: dict[str, np.ndarray] = {}
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, start):
        inputs, feeds = [], {}
        for number, part in enumerate(text.split(";")):
            kind, _, sizes = part.partition(":")
            shape = [int(size.lstrip("N")) for size in sizes.split(",") if size]
            dims = [-1 if size[0] == "N" else int(size) for size in sizes.split(",") if size]
            name = f"x{number}"
            inputs.append(paddle.static.data(name, dims, _DTYPES.get(kind, "float32")))
            feeds[name] = arrays[f"in_{number}"] = sample(rng, kind, shape)
        outputs = flat(function(*inputs))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(start)
        prefix = str(folder / "m")
        paddle.static.save_inference_model(prefix, inputs, outputs, executor, program=main)
    with paddle.static.scope_guard(paddle.static.Scope()):
        loaded, _, fetches = paddle.static.load_inference_model(prefix, executor)
        results = executor.run(loaded, feed=feeds, fetch_list=fetches)
    for number, result in enumerate(results):
        arrays[f"out_{number}"] = np.asarray(result)
    for suffix in ("pdmodel", "json", "pdiparams"):
        file = folder / f"m.{suffix}"
        if file.exists():
            arrays[suffix] = np.frombuffer(file.read_bytes(), np.uint8)
            file.unlink()
    return arrays


def flat(outputs: Any) -> list[Any]:
    """All tensors of nested lists."""
    if isinstance(outputs, (list, tuple)):
        return [tensor for part in outputs for tensor in flat(part)]
    return [outputs]


def main() -> None:
    """Write the files of one format."""
    paddle.enable_static()
    data = Path(os.environ.get("PADDLE_DATA", str(Path(__file__).parent / "data" / "paddle")))
    data.mkdir(parents=True, exist_ok=True)
    for group, cases in CASES.items():
        if sys.argv[2:] and group not in sys.argv[2:]:
            continue
        written = {}
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, case) in enumerate(cases.items()):
                try:
                    written[name] = exported(case, Path(folder), number)
                except Exception as error:
                    print(f"{name}: {type(error).__name__}: {str(error).strip()[-300:]}")
        write(data / f"{group}_{FORMAT}.npz", written)


if __name__ == "__main__":
    main()
