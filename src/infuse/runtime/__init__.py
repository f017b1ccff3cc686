"""Runs compiled models; depends on nothing of the compiler."""

from infuse.runtime.cpus import available_cpus
from infuse.runtime.interface import Model, Runner
from infuse.runtime.model import CompiledModel
from infuse.runtime.session import Session
from infuse.runtime.shapes import TensorSpec

__all__ = ["CompiledModel", "Model", "Runner", "Session", "TensorSpec", "available_cpus"]
