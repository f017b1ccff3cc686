"""What a build of ONNX Runtime says of itself."""

from __future__ import annotations

from _infuse_as_onnxruntime import API_VERSION, NAME


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Name, release and CUDA's release (none)."""
    return NAME, API_VERSION, ""


def check_distro_info() -> None:
    """Nothing to check: native code is made on the machine."""
