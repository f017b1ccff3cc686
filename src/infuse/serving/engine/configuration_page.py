"""The page of all fields of configurations: `python -m infuse.serving.engine.configuration_page
docs/configuration.md`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args, get_origin

import msgspec

from infuse.options import CompileOptions
from infuse.options.fields import flat_fields, summary_of
from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.engine.pipelines.builtins import BUILTINS, load

Struct: TypeAlias = type[msgspec.Struct]
HEAD: Final = """# Configuration

Every field of a server's and a model's configuration, with what it is where nothing is said
(`required`: it must be said; `none`: there is none). A name is a table of the file:
`limits: {burst: 10}`. [serving.md](serving.md) tells what they are for.

This page is made from the classes: `python -m infuse.serving.engine.configuration_page
docs/configuration.md`.
"""


def classes() -> dict[Struct, str]:
    """The classes of configurations, each before those of its fields, and the built-in step whose
    options a class is; empty for others.
    """
    roots: dict[Struct, str] = {ServerConfig: "", ModelConfig: ""}
    roots |= {load(name).kind: name for name in BUILTINS}
    return {kind: step for root, step in roots.items() for kind in _reached(root)}


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for kind, step in classes().items():
        of = f"Of `{step}`. " if step else ""
        parts.append(f"\n## {kind.__name__}\n\n{of}{summary_of(kind)}\n")
        parts += ["\n| field | default | means |\n|---|---|---|\n", *_rows(kind)]
    return "".join(parts)


def _reached(kind: Struct) -> list[Struct]:
    """A class, and those of its fields."""
    kinds = [kind]
    for field in msgspec.structs.fields(kind):
        for part in _parts(field.type):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                kinds += _reached(part)
    return kinds


def _parts(hint: object) -> Iterator[object]:
    """All types in an annotation."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _rows(kind: Struct) -> Iterator[str]:
    texts = _texts(kind)
    for field in msgspec.structs.fields(kind):
        text = texts[field.name]
        choices = _choices(field.type)
        if any(choice not in text for choice in choices):
            text = f"{text} One of {', '.join(f'`{choice}`' for choice in choices)}."
        yield f"| `{field.name}` | {_default(field)} | {text} |\n"


def _choices(hint: object) -> tuple[str, ...]:
    """The only texts that a field may be."""
    return next((get_args(part) for part in _parts(hint) if get_origin(part) is Literal), ())


def _texts(kind: Struct) -> Mapping[str, str]:
    """What the fields of a class mean: the docstrings below them, and of the options of compiling
    what these say. KeyError for a field without any.
    """
    texts = {each.name: each.about.text for each in flat_fields(CompileOptions)}
    (source,) = ast.parse(inspect.getsource(kind)).body
    body = source.body if isinstance(source, ast.ClassDef) else []
    for pair in pairwise(body):
        match pair:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str() as text)):
                texts[name] = " ".join(text.split())
    return texts


def _default(field: msgspec.structs.FieldInfo) -> str:
    """What a field is where nothing is said: as JSON, or the class whose fields have defaults."""
    if field.required:
        return "required"
    is_made = field.default_factory is not msgspec.NODEFAULT
    default = field.default_factory() if is_made else field.default
    if default is None:
        return "none"
    if isinstance(default, msgspec.Struct):
        name = type(default).__name__
        return f"[{name}](#{name.lower()})"
    return f"`{msgspec.json.format(msgspec.json.encode(default), indent=0).decode()}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
