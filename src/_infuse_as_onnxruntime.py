"""Infuse under the name `onnxruntime`, for programs that import that.

A module of its own, beside the package: with INFUSE_AS_ONNXRUNTIME=1 every start of Python imports
it (infuse_as_onnxruntime.pth), and Infuse itself is imported no earlier than `onnxruntime`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

API_VERSION: Final = "1.31.1"
"""The release of ONNX Runtime whose interface this room has."""
NAME: Final = "onnxruntime"
_OURS: Final = "infuse.onnxruntime"
_METADATA: Final = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {API_VERSION}
Summary: Infuse under the name of ONNX Runtime
"""


class _Alias(Loader):
    """Gives a module of `infuse.onnxruntime` under another name: the same object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run; only its own spec is put back, which importlib has replaced."""
        module.__spec__ = self._own


class _Metadata(Distribution):
    """What `importlib.metadata` says of the package `onnxruntime`."""

    def read_text(self, filename: str) -> str | None:
        return {"METADATA": _METADATA, "top_level.txt": NAME}.get(filename)

    def locate_file(self, path: Any) -> Path:
        """A path below `infuse.onnxruntime`."""
        return _folder() / str(path)


class Replacement(MetaPathFinder):
    """Finds `onnxruntime` and what lies below it in `infuse.onnxruntime`, and its metadata."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of ours, where `fullname` is that of one of ONNX Runtime."""
        if fullname.split(".", maxsplit=1)[0] != NAME:
            return None
        own = f"infuse.{fullname}"
        folder = _folder().joinpath(*fullname.split(".")[1:])
        is_package = (folder / "__init__.py").is_file()
        if not is_package and not folder.with_suffix(".py").is_file():
            return None
        spec = ModuleSpec(fullname, _Alias(own), origin=str(folder), is_package=is_package)
        if is_package:
            spec.submodule_search_locations = [str(folder)]
        return spec

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[Distribution]:
        """The package `onnxruntime`, where it or all are asked for."""
        if context.name in (None, NAME):
            yield _Metadata()


def install() -> None:
    """Let `import onnxruntime` give `infuse.onnxruntime` from now on, in this process: as a module,
    to `importlib.util.find_spec`, and to `importlib.metadata`. Twice is once.

    Warns where ONNX Runtime itself was imported before: who has it, keeps it.
    """
    if any(isinstance(finder, Replacement) for finder in sys.meta_path):
        return
    imported = sys.modules.get(NAME)
    if imported is not None and imported is not sys.modules.get(_OURS):
        warnings.warn(
            "onnxruntime was imported before infuse took its name: what has it, keeps it",
            RuntimeWarning,
            stacklevel=2,
        )
    _forget()
    sys.meta_path.insert(0, Replacement())


def uninstall() -> None:
    """Undo `install`: the next `import onnxruntime` gives ONNX Runtime, where it is there."""
    if any(isinstance(finder, Replacement) for finder in sys.meta_path):
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Replacement)]
        _forget()


def _folder() -> Path:
    """Where `infuse.onnxruntime` lies; Infuse is not imported for that."""
    spec = find_spec("infuse")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("infuse is to stand for onnxruntime, and is not installed")
    return Path(spec.origin).parent / NAME


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]
