"""Models as one file of C: any compiler of C99 takes it, and where there is no system it needs
nothing.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.staged import generate
from infuse.build.toolchain import ziglang
from infuse.errors import CompiledModelError, OptionError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.targets.c.bare import require_static
from tests.native.bare_tools import Failure, compiler, run_source, sources, undefined
from tests.native.builder import Builder
from tests.native.op_cases import GROUPS, Case, cases, check, members
from tests.native.test_foreign import network
from tests.native.test_plain_c import native

pytestmark = pytest.mark.row("R5")
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
FORMULAS = """graph "formulas" (%x: float32[4, 8]) {
  %s = Sigmoid(%x)
  %t = Tanh(%s)
  %e = Erf(%t)
  %y = Softmax(%e)
  return y = %y
}"""


def fixed() -> Graph:
    """A network whose sizes are numbers."""
    make = Builder()
    x = make.input(1, 3, 9, 9, name="x")
    rng = np.random.default_rng(5)
    w, b = rng.normal(size=(6, 3, 3, 3)).astype(np.float32), np.zeros(6, np.float32)
    make.output(make("Relu", make("Conv", x, w, b, pads=[1, 1, 1, 1], strides=[2, 2])))
    return make.graph


@pytest.mark.parametrize("profile", ["hosted", "bare"])
@pytest.mark.parametrize("bits", [64, 32])
def test_strict_compilers_take_it(profile: str, bits: int, tmp_path: Path) -> None:
    model = sources(parse(FORMULAS), tmp_path, profile=profile)
    commands = [[compiler()]] if bits == 64 else []
    if ziglang():
        commands.append([str(ziglang()), "cc", *(["-target", "x86-linux-musl"] * (bits == 32))])
    if bits == 64 and shutil.which("tcc"):  # it knows no extensions of GCC
        subprocess.run(["tcc", "-c", "model.c", "-o", "model.o"], cwd=model.folder, check=True)
    if not commands:
        pytest.skip("pip install ziglang: the compiler for 32 bits")
    for command in commands:
        for level in ("-O0", "-O2"):
            words = [*command, *STRICT, level, "-c", "model.c", "-o", "model.o"]
            done = subprocess.run(
                words, cwd=model.folder, capture_output=True, text=True, check=False
            )
            assert not done.returncode, done.stderr[:3000]


def test_several_contexts_lie_where_the_host_says(tmp_path: Path) -> None:
    """Without a heap: the example runs, and contexts are opened in memory of the host."""
    model = sources(fixed(), tmp_path, profile="bare", prefix="net")
    folder = model.folder
    (folder / "host.c").write_text(HOST)
    for name, flags in (("example", ["-nostdlib", "-c"]), ("host", [])):
        words = [compiler(), *STRICT, "-fno-pic", *flags, f"{name}.c"]
        words += ["-o", f"{name}.o"] if flags else ["model.c", "-no-pie", "-o", name]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr[:2000]
    done = subprocess.run(["./host"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "0", "0", "1", "4", "4", "4", "1", "3", "cancelled"]


HOST = """
#include <stdio.h>
#include <string.h>
#include "model.h"
static union { char bytes[2 * NET_ARENA_BYTES + 128]; double aligned; } memory;
int main(void) {
  static float x[243], y[150];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  void *first = NULL, *second = NULL, *own = net_open(NULL, 1), *more = net_open(NULL, 1);
  char* start = memory.bytes + (64 - (size_t)memory.bytes % 64);
  infuse_options options;
  memset(&options, 0, sizeof options);
  options.abi = INFUSE_ABI;
  options.arena = start;
  options.arena_bytes = NET_ARENA_BYTES;
  printf("%d ", net_create(&options, &first));
  options.arena = start + (NET_ARENA_BYTES + 63) / 64 * 64;
  printf("%d ", net_create(&options, &second));
  printf("%d ", net_run(second, NULL, inputs, outputs));
  printf("%d ", !own || more || net_run(first, NULL, inputs, outputs));
  options.arena_bytes = NET_ARENA_BYTES - 1;
  printf("%d ", net_create(&options, &first));
  options.arena = start + 8;
  printf("%d ", net_create(&options, &first));
  options.arena = NULL;
  printf("%d ", net_create(&options, &first));
  options.arena = start, options.abi = 1;
  printf("%d ", net_create(&options, &first));
  net_close(own);
  own = net_open(NULL, 1);
  net_cancel(own, 1);
  printf("%d ", own != NULL);
  printf("%d ", net_run(own, NULL, inputs, outputs));
  printf("%s", strstr(net_error(own), "cancelled"));
  return 0;
}
"""


def test_its_example_runs_alone(tmp_path: Path) -> None:
    model = sources(network(), tmp_path)
    assert not (model.folder / "weights.bin").exists()
    flags = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    words = [compiler(), *flags, "model.c", "example.c", "-o", "example", "-lm"]
    subprocess.run(words, cwd=model.folder, check=True)
    done = subprocess.run(
        ["./example"], cwd=model.folder, capture_output=True, text=True, check=True
    )
    assert (done.stdout.splitlines()[0], done.stderr) == ("outputs[0]: 8 33", "")


@pytest.mark.parametrize("batch", [1, 3])
def test_it_computes_what_the_graph_says(batch: int, tmp_path: Path) -> None:
    graph = network()
    x = np.random.default_rng(batch).normal(size=(batch, 5, 20, 20)).astype(np.float32)
    model = sources(graph, tmp_path)
    actual = run_source(model, {"x": x}) if batch else {}
    expected = evaluate(graph, {"x": x})
    np.testing.assert_allclose(actual["y0"], expected["y0"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("flags", [("-O0",), ("-Os",), ("-O3",)])
def test_bare_code_calls_nothing(flags: tuple[str, ...], tmp_path: Path) -> None:
    model = sources(parse(FORMULAS), tmp_path, profile="bare")
    flags = ("-fno-stack-protector", "-fno-pic", *flags)
    assert undefined(model.folder, *flags) <= {"memcpy", "memset", "memmove"}
    header = (model.folder / "model.h").read_text()
    assert "#define INFUSE_ARENA_BYTES " in header
    assert "#define INFUSE_WEIGHTS_BYTES " in header


def test_bare_code_computes_what_the_graph_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for graph in (fixed(), parse(FORMULAS)):
        shape = tuple(graph.inputs[0].shape)
        x = rng.normal(size=shape).astype(np.float32)
        x.reshape(-1)[:4] = [np.inf, -0.0, -np.inf, 1e-42]
        actual = run_source(sources(graph, tmp_path, profile="bare"), {"x": x})
        for name, expected in evaluate(graph, {"x": x}).items():
            np.testing.assert_allclose(actual[name], expected, rtol=2e-6, atol=1e-6)


def test_bare_code_says_what_failed(tmp_path: Path) -> None:
    make = Builder()
    table, index = make.input(5, 2, name="x"), make.input(3, dtype=dtypes.int64, name="i")
    make.output(make("Gather", table, index))
    model = sources(make.graph, tmp_path, profile="bare")
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    result = run_source(model, {"x": x, "i": np.array([4, -5, 1])})
    np.testing.assert_array_equal(result["y0"], x[[4, 0, 1]])
    with pytest.raises(Failure, match=r"Gather.*: an index lies outside"):
        run_source(model, {"x": x, "i": np.array([1, 5, 1])})


def is_fixed(case: Case) -> bool:
    """Whether a row has code without a heap."""
    try:
        require_static(*generate(case.alone(), Target.resolve("c")))
    except (UnsupportedOperatorError, OptionError):
        return False
    return True


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_without_a_system(group: str, tmp_path: Path) -> None:
    """A part of the short form of the table; powers of float64 err more than it allows."""

    def run(graph: Graph, feeds: Any) -> Any:
        return run_source(sources(graph, tmp_path, profile="bare"), feeds)

    rows = [case for op in members(group) for case in cases(op, full=False)]
    check([case for case in rows[1::4] if native(case) and is_fixed(case)], run=run)


def test_what_has_no_fixed_size_is_refused(tmp_path: Path) -> None:
    bare = CompileOptions(profile="bare")
    with pytest.raises(OptionError, match=r"those of the model are not: n.*--set-dim n=1"):
        infuse.compile(network(), bare, output=tmp_path / "a")
    make = Builder()
    make.output(make("NonZero", make.input(4, name="x")))
    with pytest.raises(UnsupportedOperatorError, match="depend on the elements of a tensor"):
        infuse.compile(make.graph, bare, output=tmp_path / "b")
    assert not any(tmp_path.iterdir())


def test_what_one_file_cannot_be_is_refused(tmp_path: Path) -> None:
    graph = parse(FORMULAS)
    with pytest.raises(OptionError, match=r"is C\+\+, and one file of C is asked for"):
        infuse.compile(graph, CompileOptions("x86-64", single=True), output=tmp_path / "a")
    with pytest.raises(OptionError, match="name a folder for it"):
        infuse.compile(graph, CompileOptions(single=True))
    for more in ({"tune": True}, {"debug": True}, {"precision": "bf16"}, {"compile": "never"}):
        with pytest.raises(OptionError):
            CompileOptions(single=True, **more)
    model = infuse.compile(graph, CompileOptions(single=True), output=tmp_path / "b")
    with pytest.raises(OptionError, match="does not run here"):
        model.run({})
    with pytest.raises(CompiledModelError, match="one file of C, which programs have"):
        infuse.load_compiled(tmp_path / "b")
