"""Configuration entries of sessions and runs: pairs of texts under names that ONNX Runtime
documents.
"""

from __future__ import annotations

from typing import Final

from infuse.errors import OptionError, did_you_mean
from infuse.onnxruntime.errors import ArgumentTypeError, UnknownEntry

_LONGEST: Final = 1024
SESSION_KEYS: Final = frozenset(
    [
        "session.allow_released_opsets_only",
        "session.collect_node_memory_stats_to_file",
        "session.compile_only",
        "session.debug_layout_transformation",
        "session.disable_aot_function_inlining",
        "session.disable_cpu_ep_fallback",
        "session.disable_double_qdq_remover",
        "session.disable_model_compile",
        "session.disable_prepacking",
        "session.disable_qdq_constant_folding",
        "session.disable_quant_qdq",
        "session.dynamic_block_base",
        "session.enable_dq_matmulnbits_fusion",
        "session.enable_quant_qdq_cleanup",
        "session.fail_on_suboptimal_compiled_model",
        "session.force_spinning_stop",
        "session.function_expansion_byte_limit",
        "session.function_expansion_node_limit",
        "session.gqa_value_layout",
        "session.graph_optimizations_loop_level",
        "session.inter_op.allow_spinning",
        "session.inter_op.spin_backoff_max",
        "session.inter_op.spin_duration_us",
        "session.intra_op.allow_spinning",
        "session.intra_op.spin_backoff_max",
        "session.intra_op.spin_duration_us",
        "session.intra_op_thread_affinities",
        "session.layer_assignment_settings",
        "session.load_model_format",
        "session.max_shape_override",
        "session.model_external_initializers_file_folder_path",
        "session.name_based_layer_assignment",
        "session.node_partition_config_file",
        "session.optimized_model_external_initializers_file_name",
        "session.optimized_model_external_initializers_min_size_in_bytes",
        "session.prepack.enable_parallel",
        "session.qdq_matmulnbits_accuracy_level",
        "session.qdq_matmulnbits_block_size",
        "session.qdqisint8allowed",
        "session.record_ep_graph_assignment_info",
        "session.resource_cuda_partitioning_settings",
        "session.save_external_prepacked_constant_initializers",
        "session.save_model_format",
        "session.set_denormal_as_zero",
        "session.strict_shape_type_inference",
        "session.strict_workspace_verification",
        "session.use_device_allocator_for_initializers",
        "session.use_env_allocators",
        "session.use_external_initializer_file_buffers_directly",
        "session.use_ort_model_bytes_directly",
        "session.use_ort_model_bytes_for_initializers",
        "session.x64quantprecision",
        "optimization.constant_folding_max_output_size_in_bytes",
        "optimization.disable_specified_optimizers",
        "optimization.enable_cast_chain_elimination",
        "optimization.enable_gelu_approximation",
        "optimization.minimal_build_optimizations",
        "mlas.disable_kleidiai",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "mlas.use_lut_gemm",
        "ep.context_enable",
        "ep.context_embed_mode",
        "ep.context_file_path",
        "ep.context_model_external_initializers_file_name",
        "ep.context_node_name_prefix",
        "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts",
    ]
)
"""Entries of sessions that ONNX Runtime documents."""
RUN_KEYS: Final = frozenset(
    [
        "memory.enable_memory_arena_shrinkage",
        "disable_synchronize_execution_providers",
        "qnn.htp_perf_mode",
        "qnn.htp_perf_mode_post_run",
        "qnn.rpc_control_latency",
        "qnn.lora_config",
        "gpu_graph_id",
    ]
)
"""Entries of runs that ONNX Runtime documents."""


class Entries:
    """Entries by name. An unknown name that is nearly a documented one is refused as misspelt;
    other unknown names belong to providers, and are taken.
    """

    def __init__(self, owner: str, documented: frozenset[str]) -> None:
        self._owner, self._documented = owner, documented
        self._texts: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        """Put an entry in, in place of an earlier one. UnknownEntry for a name that is empty or
        too long, OptionError for one that is misspelt.
        """
        if not isinstance(name, str) or not isinstance(text, str):
            raise ArgumentTypeError(
                f"the entry {name!r}: {text!r} is not a pair of texts", where=self._owner
            )
        if not 0 < len(name) <= _LONGEST:
            raise UnknownEntry(
                f"the name of an entry has {len(name)} characters",
                where=self._owner,
                hint=f"1 to {_LONGEST} are possible",
            )
        if name not in self._documented and name not in self._texts:
            self._refuse_misspelt(name)
        self._texts[name] = text

    def _refuse_misspelt(self, name: str) -> None:
        hint = did_you_mean(name, self._documented, likeness=0.9)
        if hint:
            raise OptionError(
                f"{name!r} is not an entry of ONNX Runtime", where=self._owner, hint=hint
            )

    def get(self, name: str) -> str:
        """The text of an entry; UnknownEntry when there is none."""
        if name not in self._texts:
            raise UnknownEntry(f"there is no entry {name!r}", where=self._owner)
        return self._texts[name]

    def names(self) -> list[str]:
        """The names of all entries."""
        return list(self._texts)
