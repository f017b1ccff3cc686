"""What a figure was measured on: processor, cores, versions."""

import importlib.metadata
import json
import os
import platform
from pathlib import Path

PACKAGES = (
    "infuse",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "onnxsim",
    "onnxslim",
    "openvino",
    "ncnn",
    "mnn",
    "torch",
    "ai-edge-litert",
    "litert-torch",
    "tract",
)


def _cpuinfo() -> dict[str, str]:
    """What the system says of the first processor, by name; nothing where it says none."""
    info = Path("/proc/cpuinfo")
    first = info.read_text().partition("\n\n")[0].splitlines() if info.is_file() else []
    return {name.strip(): text.strip() for name, _, text in (x.partition(":") for x in first)}


def processor() -> str:
    """Model name of the processor."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def generation() -> str:
    """Which generation the processor is of, where its name does not tell: family and model."""
    fields = _cpuinfo()
    return ", ".join(f"{name} {fields[name]}" for name in ("cpu family", "model") if name in fields)


def versions() -> dict[str, str]:
    """Version of each package that is installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, object]:
    """Everything that a reader needs beside the figures."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "generation": generation(),
        "cores": cores,
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": versions(),
    }


def save(path: Path, content: dict[str, object]) -> None:
    """Write figures as JSON, with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"machine": describe()} | content, indent=1) + "\n", encoding="utf-8"
    )
