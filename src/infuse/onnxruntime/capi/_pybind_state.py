"""The same names as `onnxruntime_pybind11_state`."""

from infuse.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
from infuse.onnxruntime.capi.onnxruntime_pybind11_state import __all__  # noqa: F401
