"""Runs compiled models; depends on nothing of the compiler."""

from infuse.runtime.cpus import available_cpus
from infuse.runtime.model import CompiledModel
from infuse.runtime.session import Session
from infuse.runtime.shapes import TensorSpec

__all__ = ["CompiledModel", "Session", "TensorSpec", "available_cpus"]
