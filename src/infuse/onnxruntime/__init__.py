"""ONNX Runtime's Python interface on top of Infuse.

`import infuse.onnxruntime as ort` in place of `import onnxruntime as ort`; `install()`, or
`python -m infuse.onnxruntime script.py`, for programs that are not to be changed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from _infuse_as_onnxruntime import API_VERSION, install, uninstall
from infuse.onnxruntime.binding import IOBinding
from infuse.onnxruntime.devices import (
    OrtArenaCfg,
    OrtDevice,
    OrtEpDevice,
    OrtHardwareDevice,
    OrtMemoryInfo,
    get_device,
    get_ep_devices,
)
from infuse.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from infuse.onnxruntime.interface import ModelMetadata, NodeArg
from infuse.onnxruntime.notices import OptionWarning, set_default_logger_severity
from infuse.onnxruntime.options import RunOptions, SessionOptions
from infuse.onnxruntime.pool import (
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    has_collective_ops,
    preload_dlls,
    register_execution_provider_library,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
    unregister_execution_provider_library,
)
from infuse.onnxruntime.providers import get_all_providers, get_available_providers
from infuse.onnxruntime.session import InferenceSession
from infuse.onnxruntime.unavailable import (
    AdapterFormat,
    LoraAdapter,
    ModelCompiler,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpContextData,
    OrtEpContextDataBuffer,
    OrtExternalInitializerInfo,
    OrtSyncStream,
    SparseTensor,
)
from infuse.onnxruntime.values import OrtValue, copy_tensors

__version__: Final = API_VERSION
version: Final = API_VERSION
package_name: Final = "onnxruntime"
cuda_version: Final = ""
SessionIOBinding = IOBinding


def get_version_string() -> str:
    """The release of ONNX Runtime whose interface this is."""
    return API_VERSION


def get_build_info() -> str:
    """What this is, in one line."""
    release = import_module("infuse").__version__
    return f"Infuse {release}, with the Python interface of ONNX Runtime {API_VERSION}"


def print_debug_info() -> None:
    """Print what one asks for in a report of a fault."""
    lines = (get_build_info(), f"Python {sys.version}", f"providers {get_available_providers()}")
    sys.stdout.write("\n".join(lines) + "\n")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The rooms that programs reach as attributes: `onnxruntime.capi`."""
        if name in ("backend", "capi", "quantization", "transformers"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OptionWarning",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtSyncStream",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "uninstall",
    "unregister_execution_provider_library",
]
