"""What a host may bring to a compiled model and do with it, by its C interface: memory, threads, an
arena, cancelling; which functions there are, and that compilers of C and C++ take the header.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infuse.build.compile import compile_graph
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.folder import ABI
from infuse.targets.text.interface import header
from tests.native.builder import Builder

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
DRIVER = Path(__file__).with_name("interface_driver.c")
WIDTH, LAYERS = 96, 6
FUNCTIONS = {
    *("infuse_arena_bytes", "infuse_cancel", "infuse_close", "infuse_create", "infuse_error"),
    *("infuse_live_bytes", "infuse_metadata", "infuse_needed_bytes", "infuse_open"),
    *("infuse_output", "infuse_run", "infuse_shapes", "infuse_status"),
}
"""Functions of the interface: one that goes, or means another thing, needs another ABI number."""
EXPECTED = """heap: 1 0
refused: 1 0 1
threads: 1 1
cancelled: 3 1 the run was cancelled
busy: 6 the context runs another call
again: 3 0 1
arena: 0 1 1 -1
small: 1 the arena has {less} bytes, and these sizes need {needed}
options: 40 40 40 40 40 40 1 the run was cancelled; an unknown code
"""
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"),
]


def layers() -> Graph:
    b = Builder("layers")
    x = b.input("n", WIDTH, name="x")
    for _ in range(LAYERS):
        x = b("Softmax", b("Add", b("MatMul", x, b.weight(WIDTH, WIDTH)), x), axis=0)
    b.output(x)
    return b.graph


def called(command: list[str], folder: Path) -> str:
    """What a command prints that succeeds."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ["native", "c"])
def test_hosts_bring_memory_and_threads_and_end_runs(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with compile_graph(layers(), CompileOptions(target=target), output=folder) as model:
        weights = model.weights_bytes
    program = tmp_path / "program"
    macros = f"-DWEIGHTS_BYTES={weights}", f"-DSINGLE={int(target == 'c')}"
    command = [str(COMPILER), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", *macros]
    libraries = ("model.so", f"-Wl,-rpath,{folder}", "-lpthread", "-o", str(program))
    include = f"-I{folder}"
    called([*command, include, str(DRIVER), *libraries], folder)
    text = called([str(program)], folder)
    small = re.search(r"has (\d+) bytes, and these sizes need (\d+)", text)
    assert small
    assert int(small[2]) - int(small[1]) == 64
    assert text == EXPECTED.format(less=small[1], needed=small[2])


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs binutils")
@pytest.mark.parametrize("target", ["native", "c"])
def test_a_library_has_these_functions_and_no_others(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    compile_graph(layers(), CompileOptions(target=target), output=folder).close()
    shown = called(["nm", "-D", "--defined-only", str(folder / "model.so")], folder)
    names = {line.split()[-1] for line in shown.splitlines() if " T " in line}
    assert names == FUNCTIONS
    declared = set(re.findall(r"\binfuse_\w+(?=\()", (folder / "model.h").read_text()))
    assert declared == FUNCTIONS


def test_the_header_has_the_number_of_the_interface() -> None:
    assert f"#define INFUSE_ABI {ABI}\n" in header({})


@pytest.mark.parametrize(
    ("compiler", "standard"),
    [("gcc", "c89"), ("gcc", "c99"), ("gcc", "c11"), ("g++", "c++11"), ("clang", "c89")],
)
def test_compilers_take_the_header(compiler: str, standard: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    (tmp_path / "model.h").write_text(header({}))
    (tmp_path / "other.h").write_text(header({"prefix": "other"}))
    source = tmp_path / ("use.cpp" if "+" in standard else "use.c")
    text = '#include "model.h"\n#include "other.h"\nint main(void) { return INFUSE_OK; }\n'
    source.write_text(text)
    command = [compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    called([*command, "-c", str(source), "-o", str(tmp_path / "use.o")], tmp_path)
