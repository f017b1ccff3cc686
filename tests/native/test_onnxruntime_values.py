"""Values, devices and bindings: on ONNX Runtime, the witness, and on Infuse."""

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from infuse.errors import InputError, OptionError
from tests.native.ort_fixtures import ort, session_of
from tests.native.session_models import FEED, X, Y, pair_of_tensors, scaled

__all__ = ["ort"]

pytestmark = pytest.mark.row("R9")


def value_of(ort: ModuleType, array: Any = X) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array)


# -- values ----------------------------------------------------------------------------------------


def test_a_value_is_a_tensor(ort: ModuleType) -> None:
    value = value_of(ort)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", 24)
    assert value.is_tensor()
    assert value.has_value()
    assert not value.is_sparse_tensor()
    assert not value.is_tensor_sequence()
    np.testing.assert_array_equal(value.numpy(), X)


def test_a_value_shares_memory_with_its_array(ort: ModuleType) -> None:
    array = X.copy()
    value = value_of(ort, array)
    assert value.data_ptr() == array.ctypes.data
    assert np.shares_memory(value.numpy(), array)
    array[0, 0] = 5
    assert value.numpy()[0, 0] == 5


def test_an_array_that_does_not_lie_row_by_row_is_copied(ort: ModuleType) -> None:
    value = value_of(ort, np.asfortranarray(X))
    np.testing.assert_array_equal(value.numpy(), X)
    assert value_of(ort, X.T).shape() == [3, 2]


TYPES = {
    **{np.float64: ("double", 11), np.float16: ("float16", 10), np.int8: ("int8", 3)},
    **{np.uint8: ("uint8", 2), np.int16: ("int16", 5), np.uint16: ("uint16", 4)},
    **{np.int32: ("int32", 6), np.uint32: ("uint32", 12), np.int64: ("int64", 7)},
    **{np.uint64: ("uint64", 13), np.bool_: ("bool", 9)},
}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_types_of_values(ort: ModuleType, kind: Any) -> None:
    text, number = TYPES[kind]
    value = value_of(ort, np.ones(2, kind))
    assert (value.data_type(), value.element_type()) == (f"tensor({text})", number)
    empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], kind)
    assert (empty.data_type(), empty.shape()) == (f"tensor({text})", [2, 3])
    assert empty.numpy().dtype == kind
    again = ort.OrtValue.ortvalue_from_shape_and_type([4], number)
    assert (again.data_type(), again.shape()) == (f"tensor({text})", [4])


def test_bits_are_read_as_a_type_of_onnx(ort: ModuleType) -> None:
    make = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
    array = np.ones(3, ml_dtypes.bfloat16)
    value = make(array, TensorProto.BFLOAT16)
    assert (value.data_type(), value.shape()) == ("tensor(bfloat16)", [3])
    assert value.element_type() == TensorProto.BFLOAT16
    with pytest.raises(RuntimeError):
        make(np.zeros(2, np.float32), TensorProto.BFLOAT16)
    with pytest.raises(RuntimeError):
        make(np.zeros(2, np.uint16), 99)


@pytest.mark.parametrize("value", [[[1.0, 2.0]], np.array(["a"]), np.array(["a"], object)])
def test_values_are_made_of_arrays_of_numbers(ort: ModuleType, value: Any) -> None:
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_numpy(value)


def test_values_lie_on_the_processor(ort: ModuleType) -> None:
    assert ort.OrtValue.ortvalue_from_numpy(X, "cpu", 0).device_name() == "cpu"
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    with pytest.raises(Exception, match="device"):
        ort.OrtValue.ortvalue_from_numpy(X, "no such device", 0)
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda", 0)
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_shape_and_type([-2], np.float32)


def test_a_value_is_given_other_elements(ort: ModuleType) -> None:
    array = X.copy()
    value = value_of(ort, array)
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(value.numpy(), X + 1)
    np.testing.assert_array_equal(array, X + 1)
    value.update_inplace(value_of(ort, X + 2))
    np.testing.assert_array_equal(array, X + 2)
    with pytest.raises(RuntimeError):
        value.update_inplace(X[:1])
    with pytest.raises(TypeError):
        value.update_inplace([1, 2])


def test_values_are_tensors_of_other_libraries(ort: ModuleType) -> None:
    value = value_of(ort)
    assert value.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(value), X)
    np.testing.assert_array_equal(np.asarray(value), X)
    array = X.copy()
    other = ort.OrtValue.from_dlpack(array)
    assert other.data_ptr() == array.ctypes.data
    assert other.data_type() == "tensor(float)"


def test_a_dense_tensor_is_no_sparse_one(ort: ModuleType) -> None:
    with pytest.raises(Exception, match=r"(?i)sparse"):
        value_of(ort).as_sparse_tensor()


def test_values_go_in_and_come_out(ort: ModuleType) -> None:
    session, feed = session_of(ort), {"x": value_of(ort), "y": value_of(ort, Y)}
    for names in (None, ["sum", "product"]):
        total, product = session.run_with_ort_values(names, feed)
        assert type(total) is ort.OrtValue
        np.testing.assert_array_equal(total.numpy(), X + Y)
        np.testing.assert_array_equal(product.numpy(), X * Y)
    (again,) = session.run_with_ort_values(["product"], feed | {"x": total}, ort.RunOptions())
    np.testing.assert_array_equal(again.numpy(), (X + Y) * Y)


def test_values_that_do_not_fit(ort: ModuleType) -> None:
    session, feed = session_of(ort), {"x": value_of(ort), "y": value_of(ort, Y)}
    invalid = ort.capi.onnxruntime_pybind11_state.InvalidArgument
    with pytest.raises(ValueError, match="missing"):
        session.run_with_ort_values(None, {"x": value_of(ort)})
    with pytest.raises(invalid):
        session.run_with_ort_values(None, feed | {"x": value_of(ort, X.astype(np.float64))})
    with pytest.raises(invalid):
        session.run_with_ort_values(["total"], feed)
    with pytest.raises((AttributeError, TypeError)):
        session.run_with_ort_values(None, FEED)


def test_a_sequence_is_a_value_that_is_no_tensor(ort: ModuleType) -> None:
    session = session_of(ort, pair_of_tensors())
    (value,) = session.run_with_ort_values(None, {"x": value_of(ort)})
    assert (value.data_type(), value.element_type()) == ("seq(tensor(float))", 1)
    assert value.is_tensor_sequence()
    assert value.has_value()
    assert not value.is_tensor()
    for question in (value.numpy, value.shape, value.data_ptr, value.tensor_size_in_bytes):
        with pytest.raises(RuntimeError):
            question()
    (pair,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(pair, [X, X])


# -- bindings --------------------------------------------------------------------------------------


def bound(session: Any, *outputs: str) -> Any:
    binding = session.io_binding()
    for name, array in FEED.items():
        binding.bind_cpu_input(name, array)
    for name in outputs:
        binding.bind_output(name)
    return binding


def test_bound_outputs_come_in_the_order_of_binding(ort: ModuleType) -> None:
    session = session_of(ort)
    binding = bound(session, "product", "sum")
    session.run_with_iobinding(binding, ort.RunOptions())
    product, total = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, X * Y)
    values = binding.get_outputs()
    assert [type(value) for value in values] == [ort.OrtValue] * 2
    np.testing.assert_array_equal(values[1].numpy(), X + Y)
    assert len(binding.get_outputs_as_ortvaluevector()) == 2


def test_an_input_is_read_when_the_session_runs(ort: ModuleType) -> None:
    session, array = session_of(ort), X.copy()
    binding = bound(session, "sum")
    binding.bind_cpu_input("x", array)
    array += 100
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + 100 + Y)


@pytest.mark.parametrize("element_type", [np.float32, "float32", 1])
def test_memory_is_bound_by_address(ort: ModuleType, element_type: Any) -> None:
    session, x, result = session_of(ort), X.copy(), np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, element_type, [2, 3], x.ctypes.data)
    binding.bind_input("y", "cpu", 0, element_type, Y.shape, Y.ctypes.data)
    binding.bind_output("sum", "cpu", 0, element_type, [2, 3], result.ctypes.data)
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(result, X + Y)
    assert binding.get_outputs()[0].data_ptr() == result.ctypes.data


def test_values_are_bound(ort: ModuleType) -> None:
    session, target = session_of(ort), ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value_of(ort))
    binding.bind_ortvalue_input("y", value_of(ort, Y))
    binding.bind_ortvalue_output("product", target)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), X * Y)
    assert binding.get_outputs()[0].data_ptr() == target.data_ptr()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(np.float32, [4, 3]), (np.float32, [6]), (np.float64, [2, 3])],
    ids=["size", "rank", "type"],
)
def test_memory_that_does_not_fit_an_output_is_an_error(
    ort: ModuleType, kind: Any, shape: Any
) -> None:
    session, memory = session_of(ort), np.zeros(100, np.float64)
    binding = bound(session)
    binding.bind_output("sum", "cpu", 0, kind, shape, memory.ctypes.data)
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)
    assert not memory.any()


@pytest.mark.parametrize(
    ("kind", "shape"), [(np.int32, [2, 3]), (np.float32, [6]), (np.float32, [3, 2])]
)
def test_memory_that_does_not_fit_an_input_is_an_error(
    ort: ModuleType, kind: Any, shape: Any
) -> None:
    session = session_of(ort)
    binding = bound(session, "sum")
    binding.bind_input("x", "cpu", 0, kind, shape, X.ctypes.data)
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_bindings_that_lack_something_are_errors(ort: ModuleType) -> None:
    session = session_of(ort)
    binding = bound(session, "sum")
    with pytest.raises(RuntimeError):
        binding.bind_cpu_input("q", X)
    with pytest.raises(RuntimeError):
        binding.bind_cpu_input("x", X.tolist())
    with pytest.raises(ValueError, match="shape"):
        binding.bind_output("sum", "cpu", 0, None, None, X.ctypes.data)
    binding.clear_binding_outputs()
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)
    binding.bind_output("sum")
    binding.clear_binding_inputs()
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_a_binding_is_used_again(ort: ModuleType) -> None:
    session = session_of(ort, scaled().SerializeToString())
    binding = ort.IOBinding(session)
    for rows in (1, 4):
        x = np.ones((rows, 3), np.float32)
        binding.bind_cpu_input("x", x)
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        (result,) = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(result, x * [1, 2, 3])


# -- devices ---------------------------------------------------------------------------------------


def test_devices_have_numbers(ort: ModuleType) -> None:
    device = ort.OrtDevice.make("cpu", 0)
    assert (device.device_type(), device.device_id(), device.device_vendor_id()) == (0, 0, 0)
    assert ort.OrtDevice.make("cuda", 1).device_type() == 1
    with pytest.raises(Exception, match="device"):
        ort.OrtDevice.make("no such device", 0)
    assert ort.get_device() == "CPU"
    (processor,) = ort.get_ep_devices()
    assert processor.ep_name == "CPUExecutionProvider"
    assert processor.device.type == ort.OrtHardwareDeviceType.CPU


def test_memory_of_the_processor(ort: ModuleType) -> None:
    kinds = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, ort.OrtMemType.DEFAULT
    memory = ort.OrtMemoryInfo("Cpu", kinds[0], 0, kinds[1])
    assert (memory.name, memory.device_id, memory.allocator_type) == ("Cpu", 0, kinds[0])
    assert memory.mem_type == kinds[1]
    with pytest.raises(RuntimeError):
        ort.OrtMemoryInfo("No", kinds[0], 0, kinds[1])
    arena = ort.OrtArenaCfg({"max_mem": 1 << 20})
    assert (arena.max_mem, arena.arena_extend_strategy) == (1 << 20, -1)
    assert ort.OrtArenaCfg(0, -1, -1, -1).initial_chunk_size_bytes == -1


# -- Infuse alone ----------------------------------------------------------------------------------


def test_errors_of_values_are_those_of_infuse_too() -> None:
    import infuse.onnxruntime as ours

    with pytest.raises(OptionError, match="no device 'cuda' here"):
        ours.OrtValue.ortvalue_from_numpy(X, "cuda")
    binding = session_of(ours).io_binding()
    with pytest.raises(InputError, match="no input 'q'"):
        binding.bind_cpu_input("q", X)
    with pytest.raises(OptionError, match="no outputs yet"):
        binding.get_outputs()


def test_values_are_copied_one_to_another() -> None:
    import infuse.onnxruntime as ours

    source, target = value_of(ours, X.copy()), value_of(ours, Y.copy())
    ours.copy_tensors([source], [target])
    np.testing.assert_array_equal(target.numpy(), X)
    with pytest.raises(OptionError, match="1 values cannot be copied to 0"):
        ours.copy_tensors([source], [])


def test_vectors_of_values() -> None:
    import infuse.onnxruntime as ours
    from infuse.onnxruntime.capi.onnxruntime_pybind11_state import OrtValueVector

    vector = OrtValueVector()
    session = session_of(ours)
    session.run_with_ortvaluevector(
        None, ["x", "y"], [value_of(ours), value_of(ours, Y)], ["sum"], vector, []
    )
    vector.push_back(value_of(ours, np.array([True])))
    assert [vector.element_type_at(i) for i in range(2)] == [1, 9]
    assert vector.bool_tensor_indices() == [1]
    np.testing.assert_array_equal(vector[0].numpy(), X + Y)
    assert len(list(vector.to_dlpacks(lambda value: value.numpy()))) == 2
