"""Values of sessions: tensors, and what else a model may give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.onnxruntime.devices import CPU, OrtMemoryInfo, require_cpu
from infuse.onnxruntime.errors import ArgumentTypeError, ValueFault, refused

Array = NDArray[Any]
_TYPE_NAMES: Final = {"float32": "float", "float64": "double"}


def tensor_type(dtype: DType) -> str:
    """How ONNX Runtime calls a tensor of these elements: "tensor(float)"."""
    return f"tensor({_TYPE_NAMES.get(dtype.name, dtype.name)})"


def element_type_of(element_type: Any) -> DType:
    """An element type by its NumPy type, its name or its number in ONNX; ValueFault where it is
    none.
    """
    try:
        if isinstance(element_type, int):
            return dtypes.by_onnx(element_type)
        return dtypes.by_numpy(np.dtype(element_type))
    except (InfuseError, TypeError) as error:
        raise ValueFault(
            f"{element_type!r} is not an element type", hint="np.float32, say, or a number of ONNX"
        ) from error


class OrtValue:
    """A tensor, or a list of tensors that a model gave.

    A tensor shares its memory with the array that it was made of, where that lies row by row. What
    is no tensor has its `type` in ONNX Runtime's words.
    """

    def __init__(self, value: Any, type: str = "") -> None:
        self._value, self._type = value, type

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: Any = CPU, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor of an array, without a copy where it lies row by row. ValueFault for what is no
        array of numbers, and for a device that is not there.
        """
        require_cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUSMm":
            raise ValueFault(
                "only arrays of numbers can be made an OrtValue",
                hint="give strings and lists to run() as they are",
            )
        dtype = element_type_of(numpy_obj.dtype.newbyteorder("="))
        return cls(np.require(numpy_obj, dtype.numpy, ("C", "A")))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """A tensor whose elements are the bits of `data`, read as a type of ONNX of the same
        size.
        """
        dtype = element_type_of(int(onnx_element_type))
        if data.dtype.itemsize != dtype.numpy.itemsize:
            raise ValueFault(
                f"elements of {data.dtype} have {data.dtype.itemsize} bytes, those of {dtype} "
                f"{dtype.numpy.itemsize}"
            )
        return cls(np.ascontiguousarray(data).view(dtype.numpy))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: Any = CPU,
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """A tensor with elements of any value; ValueFault for sizes below zero, strings and other
        devices.
        """
        require_cpu(device_type)
        dtype = element_type_of(element_type)
        if dtype is dtypes.string or any(size < 0 for size in shape):
            raise ValueFault(f"there is no memory for {dtype} of the shape {[*shape]}")
        return cls(np.empty(tuple(shape), dtype.numpy))

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> OrtValue:
        """A tensor that shares memory with one of another library."""
        try:
            array = np.from_dlpack(data)
        except (TypeError, AttributeError, BufferError, RuntimeError) as error:
            raise ValueFault(f"{type(data).__name__} gives no tensor of this processor") from error
        return cls.ortvalue_from_numpy(array.view(np.bool_) if is_bool_tensor else array)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        """Refused: there are no sparse tensors."""
        raise refused("sparse tensors", "give a dense one")

    # -- asking ------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type in NumPy."""
        return self.numpy().dtype

    def numpy(self) -> Array:
        """The tensor as an array, without a copy; ValueFault for what is no tensor."""
        if not isinstance(self._value, np.ndarray):
            raise ValueFault(f"a {self.data_type()} is not an array", hint="only tensors are")
        return self._value

    def shape(self) -> list[int]:
        """The sizes of a tensor; ValueFault for what is no tensor."""
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """The type as ONNX Runtime writes it: "tensor(float)", "seq(tensor(int64))"."""
        return self._type or tensor_type(dtypes.by_numpy(self.numpy().dtype))

    def element_type(self) -> int:
        """The number of the element type in ONNX, of a sequence that of its tensors."""
        first = self._value[0] if self.is_tensor_sequence() and self._value else self.numpy()
        return dtypes.by_numpy(first.dtype).onnx

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the elements."""
        return self.numpy().nbytes

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.numpy().ctypes.data)

    def device_name(self) -> str:
        """Where it lies."""
        return CPU

    def has_value(self) -> bool:
        """Whether it is something: an absent optional is not."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor; there are none."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of tensors."""
        return isinstance(self._value, list)

    def as_sparse_tensor(self) -> Any:
        """Refused: there are no sparse tensors."""
        raise refused("sparse tensors", "read the dense one with numpy()")

    # -- changing ----------------------------------------------------------------------------------

    def update_inplace(self, data: Array | OrtValue) -> None:
        """Give the tensor other elements, as many as before. ValueFault where they are more, fewer,
        or of another type.
        """
        if isinstance(data, OrtValue):
            data = data.numpy()
        if not isinstance(data, np.ndarray):
            raise ArgumentTypeError(f"a {type(data).__name__} is neither an array nor an OrtValue")
        target = self.numpy()
        if data.size != target.size or data.dtype != target.dtype:
            raise ValueFault(
                f"{data.dtype} of the shape {[*data.shape]} cannot stand for {target.dtype} of the "
                f"shape {[*target.shape]}"
            )
        target[...] = data.reshape(target.shape)

    # -- other libraries ---------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = np.asarray(self.numpy(), dtype)
        return array.copy() if copy and array is self._value else array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def to_dlpack(self) -> Any:
        """The tensor for another library, by the protocol of DLPack."""
        return self.__dlpack__()

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self


class OrtValueVector(list[OrtValue]):
    """Values in order."""

    def push_back(self, value: OrtValue) -> None:
        """Append a value."""
        self.append(value)

    def reserve(self, count: int) -> None:
        """Nothing to do: lists grow."""

    def shrink_to_fit(self) -> None:
        """Nothing to do: lists shrink."""

    def element_type_at(self, idx: int) -> int:
        """The number of the element type in ONNX of a value."""
        return self[idx].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """The numbers of the values that are tensors of booleans."""
        return [n for n, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def dlpack_at(self, idx: int) -> Any:
        """A value for another library, by the protocol of DLPack."""
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Any = None) -> Iterator[Any]:
        """All values for another library; `to_tensor` makes a tensor of each."""
        return (value.to_dlpack() if to_tensor is None else to_tensor(value) for value in self)


def copy_tensors(
    source: Sequence[OrtValue], destination: Sequence[OrtValue], stream: Any = None
) -> None:
    """Copy the elements of values to those of others, one by one."""
    if len(source) != len(destination):
        raise ValueFault(f"{len(source)} values cannot be copied to {len(destination)}")
    for value, target in zip(source, destination):
        target.update_inplace(value)


def array_at(address: int, shape: Sequence[int], dtype: DType) -> Array:
    """The array that lies at an address of this process; the caller keeps its memory alive."""
    import ctypes

    count = math.prod(shape)
    memory: Any = (ctypes.c_char * (count * dtype.numpy.itemsize)).from_address(int(address))
    array: Array = np.frombuffer(memory, dtype.numpy, count)
    return array.reshape(tuple(shape))
