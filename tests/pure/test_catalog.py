"""Files that register something are imported when it is looked up, whatever notes there are."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from infuse import catalog
from infuse.catalog import SHIPPED, Catalog, CatalogTable, ship
from infuse.lowering.expand import composer
from infuse.lowering.kernel_table import TABLES
from infuse.ops.core.base import OPERATORS, REGISTRY

FILES = {
    "table": """
from infuse.catalog import Catalog, CatalogTable, calling_module
CATALOG = Catalog("shop", "shop.more")
THINGS = CatalogTable(CATALOG)
def sells(name, thing, fact=0):
    THINGS.register(("", name), thing, calling_module(), fact)
""",
    "fruit": "from shop.table import sells\nsells('apple', 1, 1)\nsells('pear', 2)",
    "tools": "from shop.table import sells\nsells('saw', 3, 2)",
    "more/__init__": "",
    "more/lamps": "from shop.table import sells\nsells('lamp', 4, 2)",
}
HOME = Path("shop")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """What imports the package anew, as another process would."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(catalog, "CATALOGS", [])
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {"__init__": "", **FILES}.items():
        path = tmp_path / HOME / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]

    def fresh() -> Any:
        forget()
        return import_module("shop.table")

    yield fresh
    forget()


def notes() -> Path:
    (path,) = (HOME / "__pycache__").glob("catalog.*.json")
    return path


def is_imported(name: str) -> bool:
    return f"shop.{name}" in sys.modules


def test_the_first_process_imports_all_and_the_next_what_it_looks_up(
    shop: Callable[[], Any],
) -> None:
    assert shop().THINGS["", "pear"] == 2
    assert is_imported("tools")
    things = shop().THINGS
    assert things["", "pear"] == 2
    assert not is_imported("tools")
    assert ("", "lamp") in things
    assert ("", "boat") not in things
    assert sorted(things) == [("", "apple"), ("", "lamp"), ("", "pear"), ("", "saw")]
    assert len(things) == 4
    assert not is_imported("tools")
    assert dict(things)["", "saw"] == 3


def test_facts_need_no_import(shop: Callable[[], Any]) -> None:
    shop().CATALOG.facts()
    facts = shop().CATALOG.facts()
    assert facts == {("", "apple"): 1, ("", "pear"): 0, ("", "saw"): 2, ("", "lamp"): 2}
    assert not is_imported("fruit")


def test_notes_are_taken_again_when_a_source_changes(
    shop: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ("", "boat") not in shop().THINGS
    (HOME / "boats.py").write_text("from shop.table import sells\nsells('boat', 5)")
    assert ("", "boat") not in shop().THINGS  # the hash is that of Infuse's sources
    monkeypatch.setattr(catalog, "stamp", lambda: "other sources")
    assert shop().THINGS["", "boat"] == 5


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": []}'])
def test_notes_that_cannot_be_used_are_taken_again(shop: Callable[[], Any], content: str) -> None:
    assert shop().THINGS["", "saw"] == 3
    whole = json.loads(notes().read_text())
    notes().write_text(content)
    assert shop().THINGS["", "saw"] == 3
    assert json.loads(notes().read_text()) == whole


def test_a_folder_that_takes_no_files_is_no_error(
    shop: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert shop().THINGS["", "lamp"] == 4
    assert not list((HOME / "__pycache__").glob("catalog.*"))


def test_what_a_wheel_brings_counts(shop: Callable[[], Any]) -> None:
    path, text = shop().CATALOG.shipped()
    assert path == HOME / SHIPPED
    path.write_text(text)
    assert shop().THINGS["", "lamp"] == 4
    assert not is_imported("fruit")
    assert not list((HOME / "__pycache__").glob("catalog.*"))


def test_what_others_register_counts_over_what_is_imported_later(
    shop: Callable[[], Any],
) -> None:
    shop().CATALOG.facts()
    table = shop()
    table.THINGS.register(("", "apple"), 7, "their.module")
    assert table.THINGS["", "pear"] == 2
    assert table.THINGS["", "apple"] == 7


def test_a_file_that_cannot_be_imported_leaves_no_part_of_a_table(
    shop: Callable[[], Any],
) -> None:
    (HOME / "nothing.py").write_text("raise RuntimeError('broken')")
    things = shop().THINGS
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            things["", "saw"]
    assert not list((HOME / "__pycache__").glob("catalog.*"))


def test_threads_see_whole_tables(shop: Callable[[], Any]) -> None:
    for _ in range(20):
        for path in (HOME / "__pycache__").glob("catalog.*"):
            path.unlink()
        things = shop().THINGS
        with ThreadPoolExecutor(8) as pool:
            keys = [("", name) for name in ("apple", "pear", "saw", "lamp")] * 4
            found = list(pool.map(things.__getitem__, keys))
        assert found == [1, 2, 3, 4] * 4


def test_a_process_imports_no_operators_that_nothing_looks_up(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom infuse.ops import REGISTRY\n"
        "REGISTRY['', 'Relu']\nprint('infuse.ops.recurrent' in sys.modules)"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    said = [
        subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True)
        for _ in range(2)
    ]
    assert said[-1].stdout.split() == [b"False"], said[-1].stderr


def test_every_catalog_can_be_shipped(tmp_path: Path) -> None:
    ship(tmp_path)
    for each in (OPERATORS, composer.FILES, *(table.files for table in TABLES.values())):
        path, text = each.shipped()
        assert (tmp_path / path).read_text() == text
        assert json.loads(text)["keys"]


def test_keys_of_operators_are_those_of_their_classes() -> None:
    assert OPERATORS.facts().keys() == set(REGISTRY)
    for key, fact in OPERATORS.facts().items():
        assert REGISTRY[key].traits.value == fact
        assert (REGISTRY[key].domain, REGISTRY[key].name) == key


def test_what_nothing_registers_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "CATALOGS", [])
    empty: CatalogTable[int] = CatalogTable(Catalog("infuse.options"))
    with pytest.raises(KeyError):
        empty["", "Nothing"]
