"""Element types of sessions in the words of ONNX Runtime, NumPy, ONNX and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InputError
from infuse.onnxruntime.errors import ValueFault
from infuse.onnxruntime.interface import NodeArg
from infuse.onnxruntime.session import InferenceSession
from infuse.onnxruntime.values import tensor_type

_BY_TEXT = {tensor_type(dtype): dtype for dtype in dtypes.ALL}


class TypeHelper:
    """Translations of element types; ValueFault for a type that has none."""

    @staticmethod
    def get_input_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an input: "tensor(float)"."""
        return _argument(ort_session.get_inputs(), name).type

    @staticmethod
    def get_output_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an output: "tensor(float)"."""
        return _argument(ort_session.get_outputs(), name).type

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """`np.float32` for "tensor(float)"."""
        return _dtype(ort_type).numpy.type

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        """1 for "tensor(float)"."""
        return _dtype(ort_type).onnx

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """`torch.float32` for "tensor(float)"."""
        return _torch_type(_dtype(ort_type))

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: Any) -> Any:
        """`torch.float32` for `np.float32`."""
        return _torch_type(dtypes.by_numpy(np.dtype(numpy_type)))

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> Any:
        """`np.float32` for `torch.float32`."""
        return dtypes.by_name(str(torch_type).removeprefix("torch.")).numpy.type

    @staticmethod
    def get_io_numpy_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """The type in NumPy of every input and output by name."""
        return {a.name: _dtype(a.type).numpy.type for a in _arguments(ort_session)}

    @staticmethod
    def get_io_onnx_type_map(ort_session: InferenceSession) -> dict[str, int]:
        """The number in ONNX of the type of every input and output by name."""
        return {a.name: _dtype(a.type).onnx for a in _arguments(ort_session)}

    @staticmethod
    def get_io_torch_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """The type in PyTorch of every input and output by name."""
        return {a.name: _torch_type(_dtype(a.type)) for a in _arguments(ort_session)}


def _arguments(session: InferenceSession) -> list[NodeArg]:
    return [*session.get_inputs(), *session.get_outputs()]


def _argument(arguments: list[NodeArg], name: str) -> NodeArg:
    for argument in arguments:
        if argument.name == name:
            return argument
    raise InputError(
        f"the model has no {name!r}", hint=f"it has {', '.join(a.name for a in arguments)}"
    )


def _dtype(text: str) -> DType:
    if text not in _BY_TEXT:
        raise ValueFault(f"{text!r} is not a type of tensors", hint='"tensor(float)", say')
    return _BY_TEXT[text]


def _torch_type(dtype: DType) -> Any:
    import torch

    result = getattr(torch, dtype.name, None)
    if not isinstance(result, torch.dtype):
        raise ValueFault(f"PyTorch has no type for {dtype}")
    return result
