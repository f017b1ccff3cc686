"""The pages of reference that are made of the code: `python -m infuse.cli.reference docs`."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from infuse.frontends.sklearn.calls import PREDICT, PROBABILITIES, SCORES, TABLE, TRANSFORM

MARK: Final = "<!-- What follows is made of the code: python -m infuse.cli.reference docs -->"
"""Behind what a page says in front."""
_ANNOTATED: Final = re.compile(r"(?:\w+\.)*Annotated\[(\w+), [^\]]*\]")
_LIBRARIES: Final = {"XGB": "XGBoost", "LGBM": "LightGBM", "CatBoost": "CatBoost"}
_OUTPUTS: Final = {
    PREDICT: "predict",
    PROBABILITIES: "predict_proba",
    SCORES: "decision_function",
    TRANSFORM: "transform",
}


_SERVING: Final = (
    "Engine",
    "InferRequest",
    "InferResponse",
    "RequestedOutput",
    "Tensor",
    "ServerConfig",
    "ModelConfig",
)
"""The public names of `infuse.serving`."""


def pages() -> dict[str, str]:
    """What is made of the code of each page, by its name."""
    return {
        "api_training.md": "".join(_names(import_module("infuse.training"))),
        "api_processing.md": "".join(_by_module(import_module("infuse.processing"))),
        "api_serving.md": "".join(_names(import_module("infuse.serving"), _SERVING)),
        "estimators.md": "".join(_estimators()),
    }


def whole(text: str, made: str) -> str:
    """A page, with what is made of the code in place of what was."""
    return f"{text.partition(MARK)[0]}{MARK}\n\n{made.rstrip()}\n"


# -- functions and classes -------------------------------------------------------------------------


def _names(module: ModuleType, names: tuple[str, ...] = ()) -> Iterator[str]:
    for name in sorted(names or module.__all__, key=str.lower):
        yield from _entry(name, getattr(module, name))


def _by_module(module: ModuleType) -> Iterator[str]:
    """The names of a room by the modules that they are from."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in module.__all__:
        groups[getattr(module, name).__module__.rpartition(".")[2]].append(name)
    for group, names in sorted(groups.items()):
        yield f"## {group.replace('_', ' ').capitalize()}\n\n"
        for name in sorted(names):
            yield from _entry(name, getattr(module, name), "###")


def _entry(name: str, what: Any, mark: str = "##") -> Iterator[str]:
    """A name with its parameters and what its docstring says."""
    yield f"{mark} {name}\n\n"
    if isinstance(what, ModuleType):
        yield f"{_text(what)}\n\n"
        for each, function in vars(what).items():
            if inspect.isfunction(function) and not each.startswith("_"):
                yield f"```text\n{name}.{each}{_signature(function)}\n```\n\n{_text(function)}\n\n"
        return
    yield f"```text\n{name}{_signature(what)}\n```\n\n{_text(what)}\n\n"
    for each, method in vars(what).items() if inspect.isclass(what) else ():
        is_own = inspect.isfunction(method) and method.__qualname__ == f"{what.__qualname__}.{each}"
        if is_own and not each.startswith("_") and method.__doc__:
            yield f"```text\n{name}.{each}{_signature(method)}\n```\n\n{_text(method)}\n\n"


def _signature(what: Any) -> str:
    """Its parameters, one a line where they are long."""
    try:
        signature = inspect.signature(what)
    except (TypeError, ValueError):  # a protocol
        return ""
    parts = list(_parameters(signature))
    result = signature.return_annotation
    end = ")" if result in (signature.empty, None, "None") else f") -> {_plain(result)}"
    line = f"({', '.join(parts)}{end}"
    return line if len(line) < 80 else "(\n" + "".join(f"    {p},\n" for p in parts) + end


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    starred = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or each.kind is each.VAR_POSITIONAL
        many = each.kind is each.VAR_POSITIONAL
        stars = "*" if many else "**" if each.kind is each.VAR_KEYWORD else ""
        type = "" if each.annotation is each.empty else f": {_plain(each.annotation)}"
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        yield f"{stars}{each.name}{type}{default}"


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = _ANNOTATED.sub(r"\1", text)
    return re.sub(r"\b(?:typing|collections\.abc|pathlib|infuse(?:\.\w+)*)\.(?=[A-Z])", "", text)


def _shown(default: Any) -> str:
    text = repr(default)
    return "…" if " at 0x" in text or len(text) > 40 else text


def _text(what: Any) -> str:
    """A docstring, in which lines of fields (`rate: what it is`) are a list."""
    fields = getattr(what, "__dataclass_fields__", {})
    lines = (inspect.getdoc(what) or "").splitlines()
    return "\n".join(
        f"* `{line.split(':', 1)[0]}`:{line.split(':', 1)[1]}"
        if line.split(":", 1)[0] in fields and ":" in line
        else line
        for line in lines
    )


# -- estimators ------------------------------------------------------------------------------------


def _estimators() -> Iterator[str]:
    methods: dict[str, set[str]] = defaultdict(set)
    import_module("infuse.frontends.sklearn")
    for name, method in TABLE:
        methods[name].add(method)
    by_library: dict[str, list[str]] = defaultdict(list)
    for name in methods:
        library = next(
            (named for begin, named in _LIBRARIES.items() if name.startswith(begin)), "scikit-learn"
        )
        by_library[library].append(name)
    for library in ("scikit-learn", *_LIBRARIES.values()):
        names = sorted(by_library[library])
        yield f"## {library}: {len(names)} classes\n\n| class | computed |\n|---|---|\n"
        for name in names:
            told = ", ".join(f"`{_OUTPUTS[m]}`" for m in _OUTPUTS if m in methods[name])
            yield f"| `{name}` | {told} |\n"
        yield "\n"


if __name__ == "__main__":
    for name, made in pages().items():
        page = Path(sys.argv[1]) / name
        page.write_text(whole(page.read_text("utf-8"), made), encoding="utf-8")
