"""What ONNX Runtime keeps for a whole process: threads, allocators, a seed, telemetry."""

from __future__ import annotations

from infuse.errors import OptionError
from infuse.onnxruntime.devices import OrtArenaCfg, OrtMemoryInfo
from infuse.onnxruntime.errors import refused
from infuse.onnxruntime.notices import no_effect

_threads = 0


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """How many threads sessions take that share them (`use_per_session_threads = False`). Every
    session still has threads of its own.
    """
    global _threads  # noqa: PLW0603  the pool is the process's
    if intra_op_num_threads < 0:
        raise OptionError(f"{intra_op_num_threads} threads cannot be", hint="0 lets Infuse choose")
    if inter_op_num_threads:
        no_effect("inter_op_num_threads of set_global_thread_pool_sizes")
    _threads = intra_op_num_threads


def pool_threads() -> int:
    """What `set_global_thread_pool_sizes` was last called with; 0 for nothing."""
    return _threads


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena: OrtArenaCfg | None) -> None:
    """Nothing to set: a compiled model plans its memory."""
    no_effect("create_and_register_allocator", "a compiled model plans its memory")


def create_and_register_allocator_v2(
    provider_type: str,
    memory_info: OrtMemoryInfo,
    options: dict[str, str],
    arena: OrtArenaCfg | None,
) -> None:
    """Nothing to set: a compiled model plans its memory."""
    no_effect("create_and_register_allocator_v2", "a compiled model plans its memory")


def set_seed(seed: int) -> None:
    """Without effect: operators that draw numbers without a seed of their own draw others in each
    run.
    """
    no_effect("set_seed", "give the operators of the model a seed")


def set_default_logger_verbosity(level: int) -> None:
    """Without effect, as in releases of ONNX Runtime: only its debug builds have such messages."""
    no_effect("set_default_logger_verbosity")


def disable_telemetry_events() -> None:
    """Infuse sends nothing anywhere."""


def enable_telemetry_events() -> None:
    """Infuse sends nothing anywhere."""
    no_effect("enable_telemetry_events", "Infuse sends nothing anywhere")


def has_collective_ops() -> bool:
    """Whether models may run on several machines at once."""
    return False


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str = ""
) -> None:
    """Nothing to load: these are libraries of GPUs."""
    no_effect("preload_dlls", "Infuse runs on the CPU")


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Refused: providers are written for ONNX Runtime's own interface."""
    raise refused(f"way to load the provider {registration_name!r}", "use the CPU's")


def unregister_execution_provider_library(registration_name: str) -> None:
    """Refused: no provider can have been registered."""
    raise refused(f"provider library {registration_name!r}", "use the CPU's provider")
