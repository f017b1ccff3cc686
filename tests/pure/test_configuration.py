"""docs/configuration.md is made from the classes and has every field of a configuration and its
default, and tests set each.
"""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

from infuse.serving import config
from infuse.serving.control import model_config
from infuse.serving.engine.configuration_page import page
from infuse.serving.engine.pipelines import audio, images, scores, text
from infuse.serving.engine.pipelines.steps import Options

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", re.M)


def structs(module: ModuleType) -> Iterator[type[msgspec.Struct]]:
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if kind.__module__ == module.__name__ and issubclass(kind, msgspec.Struct):
            yield kind


MODULES = (config, model_config, audio, images, scores, text)
KINDS = [
    kind for module in MODULES for kind in structs(module) if kind not in (config.Config, Options)
]
FIELDS = [(kind, field) for kind in KINDS for field in msgspec.structs.fields(kind)]


def rows(kind: type) -> dict[str, str]:
    """Defaults by field, as the page has them for a class."""
    section = PAGE.partition(f"\n## {kind.__name__}\n")[2].partition("\n## ")[0]
    return {name: default for name, default, _ in ROW.findall(section)}


def shown(field: msgspec.structs.FieldInfo) -> Any:
    """A default as the page shows it: its data, or words."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT or default is None:
        return "required" if field.required else "none"
    if isinstance(default, msgspec.Struct):
        name = type(default).__name__
        return f"[{name}](#{name.lower()})"
    return msgspec.json.decode(msgspec.json.encode(default))


def read(cell: str) -> Any:
    return yaml.safe_load(cell.strip("`")) if cell.startswith("`") else cell


@cache
def corpus() -> str:
    """The text of all tests but this one."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def test_the_page_is_made_from_the_classes() -> None:
    module = "infuse.serving.engine.configuration_page"
    assert page() == PAGE, f"run python -m {module} docs/configuration.md"


def test_a_field_without_a_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    source, text = inspect.getsource, '"""Connections at once."""'
    assert text in source(config.Limits)
    monkeypatch.setattr(inspect, "getsource", lambda kind: source(kind).replace(text, ""))
    with pytest.raises(KeyError, match="connections"):
        page()


def test_the_page_has_every_class_and_no_other() -> None:
    assert set(re.findall(r"^## (\w+)$", PAGE, re.M)) == {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_fields_and_their_defaults(kind: type[msgspec.Struct]) -> None:
    page = rows(kind)
    expected = {field.name: shown(field) for field in msgspec.structs.fields(kind)}
    assert {name: read(default) for name, default in page.items()} == expected


@pytest.mark.parametrize(("kind", "name"), [(kind, field.name) for kind, field in FIELDS], ids=str)
def test_some_test_sets_the_field(kind: type, name: str) -> None:
    """As an argument, a key of a table, or a line of YAML or of the command line."""
    assert re.search(rf"(?<![\w.]){name}(=|\"?: )|\.{name}=", corpus()), f"{kind.__name__}.{name}"
