"""Every operator of Paddle by itself, control flow and small networks, in both formats of programs,
against what Paddle made of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends import formats
from infuse.frontends.paddle.calls import TABLE
from infuse.frontends.paddle.messages import MESSAGES
from infuse.ops.core.evaluate import evaluate
from tests.models.tensorflow_files import cases

DATA = Path(__file__).parent / "data" / "paddle"
GROUPS = [
    *(f"{group}_{kind}" for group in ("operators", "flows", "networks") for kind in ("pir", "old")),
    "special_pir",
]
NAMES = [(group, name) for group in GROUPS for name in cases(f"{group}.npz", DATA)]
ACCURACY = {"bicubic": 1e-5}
"""Differences by the beginnings of names, where they are larger than elsewhere."""


def stored(case: dict[str, Any], folder: Path) -> Path:
    """The files of a case; the path of its program."""
    if "pdiparams" in case:
        (folder / "m.pdiparams").write_bytes(case["pdiparams"].tobytes())
    suffix = "pdmodel" if "pdmodel" in case else "json"
    (folder / f"m.{suffix}").write_bytes(case[suffix].tobytes())
    return folder / f"m.{suffix}"


def agree(graph: Any, case: dict[str, Any], tolerance: float, special: bool = False) -> None:
    """All outputs are Paddle's, in type, shape and elements; special ones lie far apart, and each
    has the accuracy of its own size.
    """
    feeds = {f"x{key[3:]}": array for key, array in case.items() if key.startswith("in_")}
    made = list(evaluate(graph, {v.name: feeds[v.name] for v in graph.inputs}).values())
    expected = [array for key, array in case.items() if key.startswith("out_")]
    assert len(made) == len(expected)
    for ours, array in zip(made, expected):
        assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
        if array.dtype == np.float16:
            tolerance = 1e-3
        scale = 0.0
        if array.dtype.kind in "fi" and not special:
            scale = np.abs(array[np.isfinite(array)]).max(initial=0)
        np.testing.assert_allclose(ours, array, rtol=tolerance, atol=tolerance * max(scale, 1e-3))


@pytest.mark.parametrize(("group", "name"), NAMES)
def test_case(group: str, name: str, tmp_path: Path) -> None:
    case = cases(f"{group}.npz", DATA)[name]
    tolerance = max((a for start, a in ACCURACY.items() if name.startswith(start)), default=3e-6)
    path = stored(case, tmp_path)
    assert formats.format_name(path) == "PaddlePaddle"
    graph = infuse.load(path)
    for part in graph.all_graphs():
        for node in part.nodes:
            assert not any(isinstance(value, list) for value in node.op.attributes().values())
    agree(graph, case, tolerance, group.startswith("special"))


@pytest.mark.parametrize("name", ["encoder", "lstm-two", "gru", "rnn-relu"])
def test_networks_are_the_same_when_optimized(name: str, tmp_path: Path) -> None:
    case = cases("networks_pir.npz", DATA)[name]
    agree(infuse.optimize(infuse.load(stored(case, tmp_path))), case, 3e-6)


def test_the_cases_are_many_operators() -> None:
    assert len(TABLE) >= 220
    operators: set[str] = set()
    for group in ("operators", "flows", "networks"):
        for case in cases(f"{group}_old.npz", DATA).values():
            program = MESSAGES["Program"].FromString(case["pdmodel"].tobytes())
            operators |= {op.type for block in program.blocks for op in block.ops}
    assert len(operators) >= 180


@pytest.mark.parametrize("kind", ["pir", "old"])
def test_a_folder_and_either_file_are_the_model(kind: str, tmp_path: Path) -> None:
    case = cases(f"operators_{kind}.npz", DATA)["conv2d"]
    path = stored(case, tmp_path)
    for source in (tmp_path, path, path.with_suffix(".pdiparams")):
        assert formats.format_name(source) == "PaddlePaddle"
        agree(infuse.load(source), case, 3e-6)


def test_parameters_in_files_of_their_own(tmp_path: Path) -> None:
    case = cases("operators_old.npz", DATA)["layer_norm-two"]
    (tmp_path / "__model__").write_bytes(case["pdmodel"].tobytes())
    program = MESSAGES["Program"].FromString(case["pdmodel"].tobytes())
    names = sorted(v.name for v in program.blocks[0].vars if v.persistable and v.type.type == 7)
    (name,) = names
    (tmp_path / name).write_bytes(case["pdiparams"].tobytes())
    agree(infuse.load(tmp_path), case, 3e-6)


def test_sizes_that_are_not_fixed_are_symbols(tmp_path: Path) -> None:
    graph = infuse.load(stored(cases("operators_old.npz", DATA)["conv2d"], tmp_path))
    assert str(graph.inputs[0].type) == "float32[batch, 3, 8, 8]"


def test_parameters_that_are_missing_or_too_many(tmp_path: Path) -> None:
    case = cases("operators_pir.npz", DATA)["conv2d"]
    path = stored(case, tmp_path)
    parameters = path.with_suffix(".pdiparams")
    whole = parameters.read_bytes()
    for data, message in ((whole[:-1], "needs"), (whole + b"\0", "left behind"), (b"", "needs")):
        parameters.write_bytes(data)
        with pytest.raises(ModelFileError, match=message):
            infuse.load(path)
    parameters.unlink()
    with pytest.raises(ModelFileError, match="no file of the parameter"):
        infuse.load(path)
    with pytest.raises(ModelFileError, match="came from memory"):
        infuse.load(path.read_bytes())


def test_an_attribute_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    case = dict(cases("operators_old.npz", DATA)["relu"])
    program = MESSAGES["Program"].FromString(case["pdmodel"].tobytes())
    op = next(op for op in program.blocks[0].ops if op.type == "relu")
    op.attrs.add(name="fuse_activation", type=2, s="tanh")
    case["pdmodel"] = np.frombuffer(program.SerializeToString(), np.uint8)
    with pytest.raises(UnsupportedOperatorError, match="fuse_activation='tanh'"):
        infuse.load(stored(case, tmp_path))
    op.type = "strange_one"
    case["pdmodel"] = np.frombuffer(program.SerializeToString(), np.uint8)
    with pytest.raises(UnsupportedOperatorError, match="strange_one"):
        infuse.load(stored(case, tmp_path))


@pytest.mark.parametrize("group", GROUPS)
def test_damaged_files_are_errors(group: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, case in list(cases(f"{group}.npz", DATA).items())[::12]:
        for _ in range(4):
            damaged = dict(case)
            for key in ("pdmodel", "json", "pdiparams"):
                if key in case and (key != "pdiparams" or rng.random() < 0.5):
                    damaged[key] = mutated(rng, case[key])
            try:
                graph = infuse.load(stored(damaged, tmp_path))
            except InfuseError:
                continue
            assert graph.outputs or graph.inputs is not None, name


def mutated(rng: np.random.Generator, data: np.ndarray) -> np.ndarray:
    """The bytes with a few changed, cut away or said twice."""
    changed = data.copy()
    if rng.random() < 0.2:
        return changed[: rng.integers(0, changed.size)]
    for _ in range(rng.integers(1, 4)):
        changed[rng.integers(0, changed.size)] = rng.integers(0, 256)
    if rng.random() < 0.2:
        place = int(rng.integers(0, changed.size))
        changed = np.concatenate([changed[:place], changed[max(place - 9, 0) :]])
    return changed
