"""Objects that are compiled while Python still reads and optimizes a model."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build import ahead, build, library
from infuse.build.ahead import compiling, expected, is_expected
from infuse.build.build import compiled_ahead
from infuse.build.cache import Cache
from infuse.build.objects import Objects
from infuse.build.staged import generate
from infuse.build.toolchain import Toolchain
from infuse.ir.graph import Graph
from infuse.lowering.metadata import metadata
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.folder import LIBRARY
from infuse.runtime.model import CompiledModel
from infuse.targets import Target
from infuse.targets.cpu.emit import units
from infuse.targets.cpu.emit.shared_files import POOL
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.cpu.emit.units import FUNCTION
from tests.native.builder import Builder
from tests.native.cache_fixtures import root

__all__ = ["root"]
pytestmark = pytest.mark.row("R1")
SHARED = {POOL, "shared_gemm.cpp", "shared_gemm_blocks.cpp"}


def products(*kinds: str, seed: int = 0) -> Graph:
    """Products whose functions differ, as their results go through different operators."""
    b = Builder("products", seed)
    for number, kind in enumerate(kinds):
        b.output(b(kind, b("MatMul", b.input(3, 5, name=f"x{number}"), b.weight(5, 40))))
    return b.graph


def function_names(graph: Graph) -> set[str]:
    """The functions of a model that are files of their own."""
    program, places = generate(graph, Target.resolve())
    texts = print_sources(program, places, metadata(program, "0"), apart=True)
    return {name.removesuffix(".cpp") for name, text in texts.items() if text.startswith(FUNCTION)}


def check(graph: Graph) -> bytes:
    """The library of a graph, which computes the right answers."""
    rng = np.random.default_rng(1)
    feeds = {value.name: rng.random((3, 5), "f4") for value in graph.inputs}
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        assert isinstance(model, CompiledModel)
        results, content = model.run(feeds), (model.folder / LIBRARY).read_bytes()
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)
    return content


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A compiler that writes the names of its sources into each object, and fails for bad.cpp."""
    path = tmp_path / "compiler.py"
    path.write_text(
        "import sys, time\n"
        "_, name, _, made = sys.argv[1:]\n"
        "if name == 'slow.cpp': time.sleep(3600)\n"
        "if name == 'bad.cpp': sys.exit(1)\n"
        "if name != 'none.cpp': open(made, 'w').write(open(name).read().upper())\n"
    )
    return path


def test_objects_are_there_when_the_compiler_has_ended(script: Path) -> None:
    sources = {"1": ("a.cpp", "first"), "2": ("b.cpp", "second")}
    assert not is_expected("1")
    with compiling((sys.executable, str(script)), sources):
        assert is_expected("1")
        assert is_expected("2")
        assert not is_expected("3")
        with compiling((sys.executable, str(script)), sources):
            assert expected("2") == b"SECOND"
        assert expected("1") == b"FIRST"
        assert expected("3") is None
    assert not is_expected("1")
    assert expected("1") is None


def test_what_fails_is_not_there(script: Path) -> None:
    sources = {"1": ("bad.cpp", "first"), "2": ("none.cpp", ""), "3": ("a.cpp", "third")}
    with compiling((sys.executable, str(script)), sources):
        assert [expected(key) for key in "123"] == [None, None, b"THIRD"]
    with compiling(("/no/compiler",), sources):
        assert [expected(key) for key in "123"] == [None, None, None]


def test_waiting_ends_with_the_time_of_the_caller(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "seconds_left", lambda: 0.1)
    with compiling((sys.executable, str(script)), {"1": ("slow.cpp", "")}):
        assert expected("1") is None


def test_the_end_of_the_block_ends_the_compiler(script: Path) -> None:
    start = time.monotonic()
    with compiling((sys.executable, str(script)), {"1": ("slow.cpp", "")}):
        pass
    assert time.monotonic() - start < 600


def logged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all calls of the compiler are written down."""
    log, command = folder / "calls", Toolchain.find().command
    if len(command) > 1:
        pytest.skip("the compiler is a command with arguments")
    wrapper = folder / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec "{command[0]}" "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("CXX", str(wrapper))
    return log


@pytest.mark.parametrize("processors", [1, 2])
def test_models_with_products_share_files_that_are_compiled_ahead(
    processors: int, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(tmp_path, monkeypatch)
    for module in (library, build):
        monkeypatch.setattr(module, "cpu_limit", lambda: processors)
    check(products("Relu"))
    words = [word for word in log.read_text().split() if Path(word).name in SHARED]
    assert sorted(Path(word).name for word in words) == sorted(SHARED)
    assert {Path(word).is_absolute() for word in words} == {processors == 1}, (
        "the folder is its own"
    )
    log.unlink()
    check(products("Sigmoid"))
    assert not any(name in log.read_text() for name in SHARED)


def test_only_the_threads_are_compiled_ahead_of_models_without_products(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(tmp_path, monkeypatch)
    monkeypatch.setattr(build, "cpu_limit", lambda: 2)
    b = Builder("map")
    b.output(b("Tanh", b.input(3, 5, name="x")))
    check(b.graph)
    assert not any(name in log.read_text() for name in SHARED - {POOL})


def test_an_error_in_the_block_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "cpu_limit", lambda: 2)
    with pytest.raises(ZeroDivisionError), compiled_ahead(products("Relu")):
        raise ZeroDivisionError
    assert not (root / "objects").exists()


def test_functions_of_one_object_serve_models_that_have_some_of_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "cpu_limit", lambda: 1)
    monkeypatch.setenv("CXX", f"{Toolchain.find().command[0]} -ggdb0")  # names stay, and no more
    kinds = (
        ("Relu", "Sigmoid", "Tanh", "Exp"),
        ("Relu", "Softplus", "Erf", "Exp"),
        ("Tanh", "Erf", "Sigmoid"),
    )
    graphs = [products(*each) for each in kinds]
    names = [function_names(graph) for graph in graphs]
    assert [len(own) for own in names] == [4, 4, 3]
    for graph, own in zip(graphs, names):
        content = check(graph)
        there = {name for name in set().union(*names) if f"\0{name}\0".encode() in content}
        assert there == own, "the linker drops what is not called"
    for folder in (Cache().root / "compiled").iterdir():
        if not folder.name.startswith("."):
            folder.chmod(0o700)
            shutil.rmtree(folder)
    for graph in graphs:
        check(graph)
    objects = Objects(Cache().root, 10**9).root
    contents = [next(folder.iterdir()).name for folder in objects.iterdir() if folder.is_dir()]
    assert len(set(contents)) < len(contents)


def test_functions_of_one_object_may_read_sizes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "cpu_limit", lambda: 1)
    monkeypatch.setattr(units, "fields_in", lambda text: {"s_batch"})
    b = Builder("sized")
    row = b.input("batch", 1, 40, name="row")
    for kind in ("Relu", "Sigmoid", "Tanh"):
        x = b.input("batch", "rows", 5)
        b.output(b(kind, b("Add", b("MatMul", x, b.weight(5, 40)), row)))
    model = infuse.compile(b.graph, infuse.CompileOptions(threads=1))
    assert isinstance(model, CompiledModel)
    (joined,) = (path.read_text() for path in model.folder.glob("with_*.cpp"))
    texts = [(model.folder / line.split('"')[1]).read_text() for line in joined.splitlines()]
    assert len(texts) == 3
    assert all("struct Sizes {" in text for text in texts)
    for batch, rows in ((1, 7), (3, 1), (4, 6)):
        feeds = b.feeds({"batch": batch, "rows": rows})
        results = model.run(feeds)
        for name, value in evaluate(b.graph, feeds).items():
            np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)


def test_threads_may_begin_at_once_and_ask_too_late(script: Path) -> None:
    command, sources = (sys.executable, str(script)), {"1": ("a.cpp", "first")}
    with compiling(command, sources):
        first = ahead._RUNNING.pop("1")
        with compiling(command, sources):
            assert expected("1") == b"FIRST"
        assert first.object("1") == b"FIRST"
    assert not is_expected("1")
    assert first.object("1") is None, "the folder is gone"
