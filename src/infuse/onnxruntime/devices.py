"""Devices and their memory: one processor, whose memory is the process's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from infuse.errors import OptionError
from infuse.onnxruntime.enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from infuse.onnxruntime.errors import ValueFault, refused

CPU: Final = "cpu"
CPU_PROVIDER: Final = "CPUExecutionProvider"
_KINDS: Final = {
    CPU: 0,
    "cuda": 1,
    "gpu": 1,
    "fpga": 2,
    "npu": 3,
    "cann": 3,
    "dml": 4,
    "webgpu": 1,
}
"""Names of devices, with ONNX Runtime's numbers of their kinds."""


class OrtDevice:
    """A device by kind and number."""

    def __init__(self, name: str, device_id: int = 0, vendor_id: int = 0) -> None:
        if name not in _KINDS:
            raise OptionError(
                f"there is no kind of device {name!r}", hint=f"one of: {', '.join(_KINDS)}"
            )
        self._kind, self._id, self._vendor = _KINDS[name], int(device_id), max(0, int(vendor_id))

    @staticmethod
    def make(
        ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1
    ) -> OrtDevice:
        """The device of this name and number; OptionError for a name that is none."""
        return OrtDevice(ort_device_name, device_id, vendor_id)

    def device_id(self) -> int:
        """Its number."""
        return self._id

    def device_type(self) -> int:
        """The number of its kind: 0 for processors."""
        return self._kind

    def device_vendor_id(self) -> int:
        """The PCI number of its vendor, 0 where that does not matter."""
        return self._vendor

    def device_mem_type(self) -> int:
        """The kind of its memory: 0, the usual one."""
        return 0

    def _get_c_device(self) -> OrtDevice:
        return self


def require_cpu(device: str | OrtDevice) -> None:
    """ValueFault for a device that is not there, OptionError for a name that is none."""
    if isinstance(device, OrtDevice):
        if device.device_type():
            raise ValueFault(f"there is no device of kind {device.device_type()} here")
    elif device not in _KINDS:
        raise OptionError(f"there is no kind of device {device!r}", hint=f"use {CPU!r}")
    elif device != CPU:
        raise ValueFault(f"there is no device {device!r} here", hint=f"use {CPU!r}")


class OrtMemoryInfo:
    """A place in which tensors lie."""

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType,
        device_id: int,
        mem_type: OrtMemType,
    ) -> None:
        if name != "Cpu":
            raise ValueFault(f"there is no memory {name!r} here", hint="use 'Cpu'")
        self.name, self.device_id = name, int(device_id)
        self.allocator_type = OrtAllocatorType(int(allocator_type))
        self.mem_type = OrtMemType(int(mem_type))
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """Memory of a device; ValueFault for another one than the processor."""
        if device_type != OrtMemoryInfoDeviceType.CPU:
            raise ValueFault(f"there is no memory of {device_type} here", hint="use CPU")
        return OrtMemoryInfo("Cpu", allocator_type, device_id, OrtMemType.DEFAULT)

    @staticmethod
    def cpu() -> OrtMemoryInfo:
        """The memory of the process."""
        return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


class OrtArenaCfg:
    """How ONNX Runtime's arena grows. The memory of a compiled model is planned instead."""

    def __init__(self, *numbers: Any) -> None:
        if len(numbers) == 1 and isinstance(numbers[0], dict):
            values = numbers[0]
        elif len(numbers) == len(_ARENA):
            values = dict(zip(_ARENA, numbers))
        else:
            raise OptionError(f"an arena takes {', '.join(_ARENA)}, or these in a dictionary")
        if unknown := sorted(values.keys() - {*_ARENA, *_ARENA_GROWTH}):
            raise OptionError(f"an arena has no {', '.join(unknown)}")
        for name in (*_ARENA, *_ARENA_GROWTH):
            setattr(self, name, int(values.get(name, 0 if name == _ARENA[0] else -1)))


_ARENA: Final = (
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
)
_ARENA_GROWTH: Final = ("initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A processor."""

    type: OrtHardwareDeviceType = OrtHardwareDeviceType.CPU
    vendor_id: int = 0
    vendor: str = ""
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrtEpDevice:
    """A processor and what runs models on it."""

    ep_name: str = CPU_PROVIDER
    ep_vendor: str = "Infuse"
    ep_metadata: dict[str, str] = field(default_factory=dict)
    ep_options: dict[str, str] = field(default_factory=dict)
    device: OrtHardwareDevice = field(default_factory=OrtHardwareDevice)

    def memory_info(self, kind: OrtDeviceMemoryType) -> OrtMemoryInfo:
        """The memory of the process."""
        return OrtMemoryInfo.cpu()

    def create_sync_stream(self) -> Any:
        """Refused: a processor has no streams."""
        raise refused("streams of devices", "leave the stream out")


def get_ep_devices() -> list[OrtEpDevice]:
    """The devices that models can run on: this processor."""
    return [OrtEpDevice()]


def get_device() -> str:
    """The kind of processor that models run on."""
    return "CPU"
