"""Functions that are files of their own, and their objects, which models share."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build.objects import Objects
from infuse.build.staged import generate
from infuse.errors import CacheError
from infuse.ir.graph import Graph
from infuse.lowering.metadata import metadata
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from infuse.targets.cpu.emit.language import CPP
from infuse.targets.cpu.emit.shared_files import POOL, included
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.cpu.emit.units import SMALL
from infuse.targets.text.sizes import fields_in
from tests.native.builder import Builder
from tests.native.cache_fixtures import root

__all__ = ["root"]
pytestmark = pytest.mark.row("R1")

GEMM = ("shared_gemm.cpp", "shared_gemm_blocks.cpp")


def product(*, seed: int = 0, rows: int = 3, last: str = "Relu", name: str = "product") -> Graph:
    """A product and what follows it, which is one function, and a step of the model's own."""
    b = Builder(name, seed)
    x = b.input(rows, 5, name="x")
    b.output(b("Tanh", b("Transpose", b(last, b("MatMul", x, b.weight(5, 40))), perm=(1, 0))))
    return b.graph


def sources(graph: Graph) -> dict[str, str]:
    program, plan = generate(graph, Target.resolve("x86-64-v3"))
    return print_sources(program, plan, metadata(program, "0"), apart=True)


def units(graph: Graph) -> dict[str, str]:
    return {name: text for name, text in sources(graph).items() if "matmul" in name}


def check(graph: Graph) -> None:
    feeds = {"x": np.random.default_rng(1).random((int(str(graph.inputs[0].shape[0])), 5), "f4")}
    (result,) = infuse.compile(graph, infuse.CompileOptions(threads=1)).run(feeds).values()
    (expected,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


# -- files -----------------------------------------------------------------------------------------


def test_a_function_that_calls_a_large_kernel_is_a_file() -> None:
    texts = sources(product())
    (name,) = units(product())
    assert {name, "model.cpp", POOL, *GEMM} <= texts.keys()
    assert all(f"INFUSE_{each[:-4].upper()}(extern)" in texts[name] for each in GEMM)
    assert "gemm(c, " not in texts["model.cpp"]
    assert (
        f'extern "C" __attribute__((visibility("hidden"))) int {name[:-4]}(' in texts["model.cpp"]
    )


def test_the_main_file_only_calls_functions() -> None:
    texts = sources(product())
    (head,) = (line for line in texts["model.cpp"].splitlines() if " int tanh_" in line)
    assert head.endswith(");")
    assert f"{head[:-1]} {{" in texts[SMALL]
    assert "map.hpp" not in texts["model.cpp"]


def test_equal_functions_of_different_models_are_equal_files() -> None:
    one, other = units(product()), units(product(seed=1, rows=7, name="other"))
    assert one == other
    assert one.keys() != units(product(last="Sigmoid")).keys()


def test_sizes_are_part_of_a_file_only_where_it_reads_them() -> None:
    def graph(symbol: str, *, reads: bool) -> Graph:
        b = Builder("sized")
        x, row = b.input(symbol, 4, 5, name="x"), b.input(symbol, 1, 40, name="row")
        y = b("MatMul", x, b.weight(5, 40))
        b.output(b("Add", b("Transpose", y, perm=(1, 0, 2)), 1.0) if not reads else y)
        b.output(b("Transpose", b("Add", y, row), perm=(1, 2, 0)))
        return b.graph

    for reads in (False, True):
        for text in units(graph("batch", reads=reads)).values():
            assert ("struct Sizes;" in text) == (not fields_in(text))


def test_in_one_file_nothing_is_shared() -> None:
    program, plan = generate(product(), Target.resolve("x86-64-v3"))
    texts = print_sources(program, plan, metadata(program, "0"))
    assert list(texts) == ["model.cpp"]
    assert "APART" not in texts["model.cpp"]
    assert "extern template" not in texts["model.cpp"]


def test_headers_are_followed_to_all_that_they_include() -> None:
    assert {"gemm.hpp", "simd.hpp", "threads.hpp", "workers.hpp"} <= included("conv.hpp")


# -- objects ---------------------------------------------------------------------------------------


def objects(root: Path) -> dict[str, int]:
    """The objects of a cache and when each was made."""
    folder = root / "objects"
    folders = [path for path in folder.iterdir() if path.is_dir()]
    return {path.name: next(path.iterdir()).stat().st_mtime_ns for path in folders}


def test_models_share_objects(root: Path) -> None:
    check(product())
    before = objects(root)
    check(product(seed=1, rows=7, name="other"))
    assert objects(root) == before
    check(product(last="Sigmoid"))
    assert len(objects(root)) == len(before) + 1


def test_a_damaged_object_is_compiled_again(root: Path) -> None:
    check(product())
    for folder in (root / "objects").iterdir():
        if folder.is_dir():
            (file,) = folder.iterdir()
            file.write_bytes(file.read_bytes()[:-8] + b"12345678")
    before = objects(root)
    check(product(seed=1))
    assert objects(root).keys() == before.keys()
    assert all(objects(root)[key] != before[key] for key in before)


def test_without_a_place_for_objects_models_are_compiled(root: Path) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / "objects").write_text("this is not a folder")
    check(product())


def test_others_may_not_write_to_objects(root: Path) -> None:
    check(product())
    for path in (root / "objects").iterdir():
        if path.is_dir():
            assert not stat.S_IMODE(path.stat().st_mode) & 0o277


def test_objects_that_others_may_replace_are_refused(root: Path) -> None:
    check(product())
    (root / "objects").chmod(0o777)
    with pytest.raises(CacheError, match=r"others may write to the cache"):
        check(product(seed=1))


def test_objects_of_two_processes_are_one(tmp_path: Path) -> None:
    first, second = (Objects(tmp_path, 10**9) for _ in range(2))
    first.add("key", b"content")
    second.add("key", b"the same, compiled beside it")
    assert first.find("key") == second.find("key") == b"content"
    assert first.find("another") is None
    assert [p.name for p in (tmp_path / "objects").iterdir() if p.is_dir()] == ["key"]


def test_what_was_used_longest_ago_leaves_first(tmp_path: Path) -> None:
    store = Objects(tmp_path, 10 * 1000)
    for number in range(2):
        store.add(f"key{number}", bytes(400))
        os.utime(store.root / f"key{number}", (number, number))
    assert store.find("key0") == bytes(400)
    store.add("key2", bytes(400))
    left = {p.name for p in store.root.iterdir() if p.is_dir()}
    assert left == {"key0", "key2"}
    assert time.time() - (store.root / "key0").stat().st_mtime < 100


def test_sizes_that_a_file_reads_are_those_of_the_call(root: Path) -> None:
    b = Builder("sized")
    x, row = b.input("batch", "rows", 5, name="x"), b.input("batch", 1, 40, name="row")
    b.output(b("Add", b("MatMul", x, b.weight(5, 40)), row))
    model = infuse.compile(b.graph, infuse.CompileOptions(threads=2))
    for batch, rows in ((1, 7), (3, 1), (4, 6)):
        feeds = b.feeds({"batch": batch, "rows": rows})
        (result,) = model.run(feeds).values()
        (expected,) = evaluate(b.graph, feeds).values()
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_copies_of_all_models_are_one_object(root: Path) -> None:
    def turned(*shape: int) -> Graph:
        b = Builder("turned")
        b.output(b("Tanh", b("Transpose", b.input(*shape, name="x"), perm=(0, 2, 1))))
        return b.graph

    texts = sources(turned(2, 5, 9))
    assert "INFUSE_SHARED_COPY(extern, 4)" in texts[SMALL]
    assert "INFUSE_SHARED_COPY(, 4)" in texts["shared_copy_4.cpp"]
    for shape in ((2, 5, 9), (3, 17, 20)):
        x = np.random.default_rng(0).random(shape, "f4")
        y = infuse.compile(turned(*shape), infuse.CompileOptions(threads=1)).run({"x": x})["y0"]
        np.testing.assert_allclose(y, np.tanh(x.transpose(0, 2, 1)), rtol=1e-6)


def test_planes_of_few_channels_need_no_copy_of_any_kind() -> None:
    def turned(*shape: int | str) -> Graph:
        b = Builder("turned")
        b.output(b("Transpose", b.input(*shape, name="x"), perm=(0, *range(2, len(shape)), 1)))
        return b.graph

    for channels, calls in ((2, True), (3, True), (4, True), (5, False)):
        texts = sources(turned("n", channels, "h", 9))
        assert (f"interleave_planes<{channels}>" in texts[SMALL]) is calls
        assert ("shared_copy_4.cpp" in texts) is not calls
        model = infuse.compile(turned("n", channels, "h", 9), infuse.CompileOptions(threads=2))
        for images, height in ((1, 700), (3, 5), (2, 0), (0, 3)):
            x = np.random.default_rng(0).random((images, channels, height, 9), "f4")
            y = model.run({"x": x})["y0"]
            np.testing.assert_array_equal(y, x.transpose(0, 2, 3, 1))


def test_layers_that_differ_in_numbers_share_a_function() -> None:
    """As quantized ones do, whose scales and zero points are all different."""
    b = Builder()
    numbers = [(0.37, 11.0, 250.0), (5.9, -21.0, 200.0), (0.13, 148.0, 90.0)]
    for scale, zero, most in numbers:
        x = b.input("rows", 40)
        product = b("MatMul", x, b.weight(40, 24))
        shifted = b("Add", b("Mul", product, np.float32(scale)), np.float32(zero))
        b.output(b("Min", shifted, np.float32(most)))
    program, _ = generate(b.graph, Target.resolve())
    assert len({CPP.text_of(step.function) for step in program.steps}) == 1
    with infuse.compile(b.graph, infuse.CompileOptions(threads=1)) as model:
        feeds = b.feeds({"rows": 7})
        results = model.run(feeds)
    weights = [node.inputs[1] for node in b.graph.nodes if node.kind == "MatMul"]
    for i, (scale, zero, most) in enumerate(numbers):
        weight = weights[i]
        assert weight is not None
        assert weight.const is not None
        exact = feeds[f"x{i}"].astype(np.float64) @ weight.const * scale + zero
        np.testing.assert_allclose(results[f"y{i}"], np.minimum(exact, most), rtol=1e-4, atol=1e-4)
