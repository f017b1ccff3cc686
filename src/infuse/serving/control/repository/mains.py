"""Which of a version's files is the model: told by names, for contents are read by the process that
compiles them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from infuse.runtime.folder import METADATA, STAGES

ENDINGS: Final = (
    ".onnx",
    ".infuse",
    ".pt2",
    ".pt",
    ".pth",
    ".tflite",
    ".keras",
    ".h5",
    ".hdf5",
    ".mindir",
    ".ubj",
    ".cbm",
)
"""Of files that are models, whatever stands before."""
ALONE: Final = (".onnx", ".infuse", ".pt2", ".tflite", ".keras", ".mindir")
"""Of files in the repository's root that are models."""
_STANDARD: Final = tuple(f"model{ending}" for ending in (*ENDINGS, ".json", ".txt", ".pb"))
_COMPILED: Final = (METADATA, STAGES)  # a compiled model's folder holds one of them
_WEIGHTS: Final = (".safetensors", ".safetensors.index.json")
_PADDLE: Final = (".pdmodel", ".pdiparams")
_OBJECTS: Final = (".pkl", ".pickle", ".joblib", ".skops")


def main_of(names: Collection[str], declared: str) -> tuple[str, bool, str]:
    """The file or folder to load ("": the version's own folder), whether it is compiled, and what
    is wrong if there is none.
    """
    if declared:
        if declared in names:
            return declared, False, ""
        inner = _inner(names, declared)
        if _is_compiled(inner) or _is_model(inner):
            return declared, _is_compiled(inner), ""
        return "", False, f"there is no {declared!r}, which its configuration names as its file"
    if standard := next((name for name in _STANDARD[:2] if name in names), ""):
        return standard, False, ""
    if _is_compiled(names):
        return "", True, ""
    if _is_model(names):
        return "", False, ""
    if standard := next((name for name in _STANDARD[2:] if name in names), ""):
        return standard, False, ""
    single = sorted(name for name in names if "/" not in name and name.endswith(ENDINGS))
    folders = {name.partition("/")[0] for name in names if "/" in name}
    candidates = [*single]
    compiled = False
    for folder in sorted(folders):
        inner = _inner(names, folder)
        if _is_compiled(inner) or _is_model(inner):
            candidates.append(folder)
            compiled = compiled or _is_compiled(inner)
    if len(candidates) == 1:
        return candidates[0], compiled, ""
    if candidates:
        several = ", ".join(candidates)
        return (
            "",
            False,
            f"it holds several models ({several}); `file` in its configuration can choose one",
        )
    return "", False, _missing(names)


def _inner(names: Collection[str], folder: str) -> list[str]:
    """The names of what a folder holds, as seen from it."""
    return [name[len(folder) + 1 :] for name in names if name.startswith(f"{folder}/")]


def _is_compiled(names: Collection[str]) -> bool:
    return any(mark in names for mark in _COMPILED)


def _is_model(names: Collection[str]) -> bool:
    """Whether these are the files of a model that is a folder: SavedModel, Hugging Face,
    PaddlePaddle, TensorFlow.js.
    """
    top = [name for name in names if "/" not in name]
    return (
        "saved_model.pb" in top
        or ("config.json" in top and any(name.endswith(_WEIGHTS) for name in top))
        or ("model.json" in top and any(name.endswith(".bin") for name in top))
        or any(name.endswith(_PADDLE) for name in top)
    )


def _missing(names: Collection[str]) -> str:
    if objects := sorted(name for name in names if name.endswith(_OBJECTS)):
        return (
            f"{objects[0]} is a pickled object, which would run code of its author: where it was "
            "made, infuse.save(infuse.load(estimator), 'model.onnx') writes a model"
        )
    return (
        "it holds no model: neither model.onnx nor another file or folder that infuse.load takes, "
        "nor a compiled model"
    )
