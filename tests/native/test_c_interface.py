"""The C interface: every generated header and example compiles and runs, and models with prefixes
live side by side.
"""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.errors import OptionError
from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.model import CompiledModel
from infuse.targets.text.names import prefixed
from tests.branch_models import RETURNED
from tests.native.builder import Builder

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
STRICT = ("-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1")
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"),
]


def fixed() -> Graph:
    b = Builder("fixed")
    b.output(b("MatMul", b.input(3, 4), b.weight(4, 5)))
    return b.graph


def two_symbols() -> Graph:
    b = Builder("two symbols")
    x = b.input("batch", "seq", 4, name='x "quoted" */ \\ %d')
    b.output(b("MatMul", x, b.weight(4, 5)), b("ReduceSum", x, [1], keepdims=0))
    return b.graph


def formulas() -> Graph:
    b = Builder("formulas")
    n = dims.symbol("n")
    x = b.input("n", name="x")
    y = b.input(dims.floordiv(n * 2 + 1, 3), name="y")  # type: ignore[arg-type]
    b.output(b("Neg", x), b("Exp", y))
    return b.graph


def found_by_the_run() -> Graph:
    b = Builder("nonzero")
    x = b.input("n", 3)
    b.output(b("NonZero", b("Cast", x, to=dtypes.bool_)), b("Neg", x))
    return b.graph


def small_elements() -> Graph:
    b = Builder("types")
    kinds = (dtypes.float16, dtypes.uint8, dtypes.bool_, dtypes.float64)
    values = [b.input("n", dtype=kind, name=f"in{i}") for i, kind in enumerate(kinds)]
    b.output(*(b("Cast", v, to=dtypes.int64) for v in values))
    return b.graph


GRAPHS = (fixed, two_symbols, formulas, found_by_the_run, small_elements)


def build(folder: Path, source: Path, output: Path, *libraries: str) -> None:
    command = [str(COMPILER), *STRICT, str(source), "-o", str(output), *libraries]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(program: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(program), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sizes(text: str) -> list[list[int]]:
    return [[int(n) for n in line.partition(":")[2].split()] for line in text.splitlines()]


@pytest.mark.parametrize("make", GRAPHS)
def test_the_example_of_every_model_compiles_and_runs(make: object, tmp_path: Path) -> None:
    graph = make()  # type: ignore[operator]
    folder = tmp_path / "model"
    with compile_graph(graph, CompileOptions(threads=1), output=folder) as model:
        assert isinstance(model, CompiledModel)
        build(
            folder, folder / "example.c", tmp_path / "example", "model.so", f"-Wl,-rpath,{folder}"
        )
        for value in (8, 5):
            shown = sizes(
                run(tmp_path / "example", folder, *[str(value)] * len(model.metadata["symbols"]))
            )
            names = dict.fromkeys(model.metadata["symbols"], value)
            feeds = {v.name: np.zeros(_shape(v, names), v.dtype.numpy) for v in graph.inputs}
            assert shown == [list(x.shape) for x in model.run(feeds).values()]


def test_a_result_of_any_rank_is_a_list_and_its_sizes(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    graph = infuse.optimize(infuse.load(RETURNED["a result of any rank"].proto))
    compile_graph(graph, CompileOptions(threads=1), output=folder).close()
    build(folder, folder / "example.c", tmp_path / "example", "model.so", f"-Wl,-rpath,{folder}")
    assert sizes(run(tmp_path / "example", folder)) == [[1], [8, 8], [0]]
    header = (folder / "model.h").read_text()
    assert re.search(r"outputs\[0\]: y, float32.*its sizes: outputs\[2\]", header)
    assert re.search(r"outputs\[2\]: y.sizes, int64", header)


def _shape(value: object, names: dict[str, int]) -> list[int]:
    return [dims.evaluate(d, names) for d in value.shape]  # type: ignore[attr-defined]


def test_the_header_names_every_symbol_and_has_room_for_it(tmp_path: Path) -> None:
    compile_graph(two_symbols(), CompileOptions(threads=1), output=tmp_path / "model").close()
    text = (tmp_path / "model" / "model.h").read_text()
    assert re.search(r"int64_t symbols\[\] = \{8, 8\};\s+// batch, seq", text)
    assert "inputs[] = {input0};" in text
    assert "outputs[] = {output0, output1};" in text
    for compiler, name in (("cc", "header.c"), ("c++", "header.cpp")):
        source = tmp_path / name
        source.write_text('#include "model/model.h"\nint main(void) { return INFUSE_OK; }\n')
        subprocess.run(
            [compiler, "-Wall", "-Werror", str(source), "-c", "-o", str(tmp_path / "header.o")],
            check=True,
        )


def test_two_models_with_prefixes_run_in_one_program(tmp_path: Path) -> None:
    b = Builder()
    b.output(b("Add", b.input("n", name="x"), 1.0))
    c = Builder()
    c.output(c("Mul", c.input("n", name="x"), 10.0))
    for name, graph in (("more", b.graph), ("times", c.graph)):
        with compile_graph(
            graph, CompileOptions(threads=1, prefix=name), output=tmp_path / name
        ) as model:
            assert (
                model.run({"x": np.ones(2, np.float32)})["y0"].tolist()
                == [[2, 2], [10, 10]][name == "times"]
            )
    source = tmp_path / "both.c"
    source.write_text(r"""
#include <stdio.h>
#include "more/model.h"
#include "times/model.h"

int main(void) {
  static const _Alignas(64) char weights[4096];
  int64_t n = 1;
  float x = 4, sum = 0, product = 0;
  const void* inputs[] = {&x};
  void *first[] = {&sum}, *second[] = {&product};
  void* a = more_open(weights, 1);
  void* b = times_open(weights, 1);
  if (!a || !b || more_run(a, &n, inputs, first) != INFUSE_OK ||
      times_run(b, &n, inputs, second) != INFUSE_OK)
    return 1;
  printf("%g %g\n", (double)sum, (double)product);
  more_close(a);
  times_close(b);
  return 0;
}
""")
    places = [
        part
        for name in ("more", "times")
        for part in (f"-L{name}", f"-l{name}", f"-Wl,-rpath,{tmp_path / name}")
    ]
    build(tmp_path, source, tmp_path / "both", *places)
    assert run(tmp_path / "both", tmp_path) == "5 40\n"


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs binutils")
def test_libraries_have_names(tmp_path: Path) -> None:
    for prefix, name in (("infuse", "model.so"), ("ears", "libears.so")):
        folder = tmp_path / prefix
        compile_graph(fixed(), CompileOptions(threads=1, prefix=prefix), output=folder).close()
        command = ["readelf", "-d", "-W", "--dyn-syms", str(folder / name)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"soname: [{name}]" in shown
        assert f" {prefix}_run" in shown
        assert (" infuse_run" in shown) == (prefix == "infuse")
        with infuse.load_compiled(folder) as model:
            model.run({"x0": np.zeros((3, 4), np.float32)})


@pytest.mark.parametrize("prefix", ["", "1st", "a-b", "a b", "é", "x" * 61, 'a"', "a;b"])
def test_prefixes_that_names_of_c_cannot_have(prefix: str) -> None:
    with pytest.raises(OptionError, match="names of C cannot begin with"):
        compile_graph(fixed(), CompileOptions(prefix=prefix))


def test_a_prefix_changes_functions_and_nothing_else() -> None:
    assert prefixed("infuse_run(infuse_model::x, INFUSE_OK, my_infuse_run)", "p") == (
        "p_run(infuse_model::x, INFUSE_OK, my_infuse_run)"
    )
