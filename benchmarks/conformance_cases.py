"""The backend tests of the installed ONNX: models, their data, and how near a result must come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DataSet = tuple[dict[str, Any], list[Any]]
"""Inputs by name, and the expected outputs."""


@dataclass
class Case:
    """One test."""

    kind: str
    test: TestCase

    @property
    def name(self) -> str:
        """Unique among all kinds: "node/test_abs"."""
        return f"{self.kind}/{self.test.name}"

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model of the test."""
        return self.test.model or onnx.load(Path(self.test.model_dir) / "model.onnx")

    def data_sets(self) -> Iterator[DataSet]:
        """What goes in and what has to come out; there may be several."""
        graph = self.model.graph
        if self.test.data_sets is not None:
            for inputs, outputs in self.test.data_sets:
                yield _named(graph.input, map(_value, inputs)), list(map(_value, outputs))
            return
        for folder in sorted(Path(self.test.model_dir).glob("test_data_set_*")):
            inputs = [
                _read(folder / f"input_{i}.pb", info.type) for i, info in _given(folder, graph)
            ]
            outputs = [
                _read(folder / f"output_{i}.pb", info.type) for i, info in enumerate(graph.output)
            ]
            yield _named(graph.input, inputs), outputs

    def check(self, results: Sequence[Any], expected: Sequence[Any]) -> None:
        """AssertionError unless the results are as near as the test asks for."""
        _check(list(results), list(expected), self.test.rtol, self.test.atol)


def load_cases() -> dict[str, Case]:
    """All tests by name; those of operators are made anew, from the same seeds everywhere."""
    with np.errstate(all="ignore"):
        cases = [Case(kind, test) for kind in KINDS for test in loader.load_model_tests(kind=kind)]
    return {case.name: case for case in sorted(cases, key=lambda case: case.name)}


def _named(infos: Sequence[onnx.ValueInfoProto], values: Any) -> dict[str, Any]:
    return dict(zip([info.name for info in infos], values))


def _given(folder: Path, graph: onnx.GraphProto) -> Iterator[tuple[int, onnx.ValueInfoProto]]:
    return ((i, info) for i, info in enumerate(graph.input) if (folder / f"input_{i}.pb").exists())


def _read(path: Path, declared: onnx.TypeProto) -> Any:
    kind = declared.WhichOneof("value")
    proto = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
        "map_type": onnx.MapProto,
    }[kind]()
    proto.ParseFromString(path.read_bytes())
    return _value(proto)


def _value(given: Any) -> Any:
    """A value of a test as arrays and lists of them."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return numpy_helper.to_list(given)
    if isinstance(given, onnx.OptionalProto):
        return numpy_helper.to_optional(given)
    if isinstance(given, onnx.MapProto):
        return numpy_helper.to_dict(given)
    if isinstance(given, (list, tuple)):
        return [_value(one) for one in given]
    return np.asarray(given) if isinstance(given, np.generic) else given


# -- comparison, as the runner of ONNX does it -----------------------------------------------------


def _check(result: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, (list, tuple)):
        assert isinstance(result, (list, tuple)), f"{type(result).__name__} in place of a sequence"
        assert len(result) == len(expected), f"{len(result)} values in place of {len(expected)}"
        for one, other in zip(result, expected):
            _check(one, other, rtol, atol)
    elif expected is None or isinstance(expected, dict):
        assert result == expected, f"{result!r} in place of {expected!r}"
    else:
        _check_array(result, np.asarray(expected), rtol, atol)


def _check_array(result: Any, expected: np.ndarray, rtol: float, atol: float) -> None:
    assert result is not None, "nothing in place of a tensor"
    array = np.asarray(result)
    assert array.shape == expected.shape, f"shape {array.shape} in place of {expected.shape}"
    if expected.dtype.kind in "OSU":
        assert array.dtype.kind in "OSU", f"{array.dtype} in place of strings"
        assert array.astype(str).tolist() == expected.astype(str).tolist(), "other strings"
        return
    assert array.dtype == expected.dtype, f"{array.dtype} in place of {expected.dtype}"
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place
    if expected.dtype.kind not in "biufc":
        array, expected = array.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(array, expected, rtol=rtol, atol=atol)
