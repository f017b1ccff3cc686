"""One library and many models, which it runs as programs: in C, for this machine and others."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import infuse
from infuse.build.bundle import bundle
from infuse.build.libinfuse import LIBRARY
from infuse.build.toolchain import ziglang
from infuse.cli.main import app
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.folder import BUNDLED, METADATA, MODEL_FILE
from tests.native.builder import Builder
from tests.native.test_c_interface import found_by_the_run, run, sizes, small_elements, two_symbols
from tests.native.test_small_code import network

COMPILER = shutil.which("cc") or ""
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE")
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(not COMPILER, reason="needs a C compiler called cc"),
]
HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "infuse.h"

static char memory[1 << 22] __attribute__((aligned(64)));

int main(int count, char** names) {  // folder rows columns
  static char why[128];
  char path[999];
  int64_t symbols[] = {atoll(names[2])}, bytes, sizes[8], counts[16];
  const size_t elements = (size_t)(atoll(names[2]) * atoll(names[3]));
  float* x = calloc(elements + 1, sizeof(float));
  static float y[1 << 20];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  void *model, *context;
  FILE* file;
  (void)count;
  for (size_t i = 0; i < elements; i++) x[i] = (float)(i % 7);
  snprintf(path, sizeof path, "%s/model.program", names[1]);
  if (!(file = fopen(path, "rb"))) return 2;
  bytes = (int64_t)fread(memory, 1, sizeof memory, file);
  fclose(file);
  if (infuse_program_read(memory, bytes / 2, why, sizeof why)) return 4;
  printf("%s\n", why);
  model = infuse_program_read(memory, bytes, why, sizeof why);
  if (!model) return puts(why), 5;
  infuse_options options;
  memset(&options, 0, sizeof options);
  printf("%d", infuse_program_create(model, &options, &context));
  options.abi = INFUSE_ABI;
  options.weights = memory;
  printf(" %d", infuse_program_create(model, &options, &context));
  options.weights = NULL;
  printf(" %d", infuse_program_create(model, &options, &context));
  printf(" %d", (int)infuse_program_counts(model, counts, 16));
  if (infuse_program_shapes(model, symbols, sizes)) return 6;
  printf(" %d", infuse_run(context, symbols, inputs, outputs));
  infuse_cancel(context, 1);
  printf(" %d\n", infuse_run(context, symbols, inputs, outputs));
  infuse_cancel(context, 0);
  if (infuse_run(context, symbols, inputs, outputs)) return 7;
  int64_t total = 1;
  for (int i = 0; i < counts[3]; i++) total *= sizes[i];
  for (int64_t i = 0; i < total; i++) printf("%.9g ", (double)y[i]);
  infuse_close(context);
  infuse_program_close(model);
  return 0;
}
"""


def layer() -> Graph:
    b = Builder("layer")
    x = b.input("n", 5, name="x")
    b.output(b("Softmax", b("Relu", b("MatMul", x, b.weight(5, 4)))))
    return b.graph


def bundled(folder: Path, graphs: dict[str, Graph], **options: object) -> Path:
    optimized = {name: infuse.optimize(graph) for name, graph in graphs.items()}
    return bundle(optimized, CompileOptions(threads=2, **options), folder)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graphs = {
        make.__name__: make() for make in (layer, two_symbols, found_by_the_run, small_elements)
    }
    return bundled(tmp_path_factory.mktemp("bundle") / "made", graphs)


def test_every_example_runs(folder: Path, tmp_path: Path) -> None:
    expected = {
        "layer": [[8, 4]],
        "two_symbols": [[8, 8, 5], [8, 4]],
        "found_by_the_run": [[2, 0], [8, 3]],
        "small_elements": [[8]] * 4,
    }
    for name, shapes in expected.items():
        program = tmp_path / name
        libraries = (f"-I{folder}", f"-L{folder}", "-linfuse", f"-Wl,-rpath,{folder}")
        command = [COMPILER, *STRICT, "example.c", *libraries, "-o", str(program)]
        subprocess.run(command, cwd=folder / name, check=True)
        assert sizes(run(program, folder / name)) == shapes


def test_a_host_gets_the_right_numbers(folder: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "host.c", tmp_path / "host"
    source.write_text(HOST)
    libraries = (f"-I{folder}", f"-L{folder}", "-linfuse", f"-Wl,-rpath,{folder}")
    subprocess.run(
        [COMPILER, "-Wall", "-Werror", str(source), *libraries, "-o", str(program)], check=True
    )
    why, codes, numbers = run(program, folder, "layer", "3", "5").splitlines()
    assert why == "its length is not what it says"
    assert codes == "4 4 0 4 0 3"
    x = (np.arange(15) % 7).reshape(3, 5).astype(np.float32)
    with infuse.compile(layer()) as model:
        expected = model(x)
    found = np.array(numbers.split(), np.float32).reshape(3, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs binutils")
def test_the_header_has_the_functions_of_the_library(folder: Path) -> None:
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", str(folder / LIBRARY)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in shown.splitlines() if " T " in line}
    declared = set(re.findall(r"\binfuse_\w+(?=\()", (folder / BUNDLED).read_text()))
    own = {"infuse_library", "infuse_function_table", "infuse_functions", "infuse_program_load"}
    assert names == declared | own


def test_a_library_of_one_model_is_small(tmp_path: Path) -> None:
    sizes = {}
    for small in (False, True):
        made = bundled(tmp_path / f"{small}", {"network": network()}, size=small)
        sizes[small] = (made / LIBRARY).stat().st_size
    assert sizes[True] < 0.9 * sizes[False]


@pytest.mark.skipif(ziglang() is None, reason="needs ziglang (pip install ziglang)")
def test_other_machines_get_bundles(tmp_path: Path) -> None:
    made = bundled(tmp_path / "made", {"layer": layer()}, target="android-arm64")
    head = (made / LIBRARY).read_bytes()[:20]
    assert head[:5] == b"\x7fELF\x02"
    assert head[18] == 183  # EM_AARCH64
    metadata = json.loads((made / "layer" / METADATA).read_text())
    assert metadata["target"] == "android-arm64"
    assert MODEL_FILE in {file.name for file in (made / "layer").iterdir()}


@pytest.mark.parametrize("target", ["wasm32", "windows", "armv7", "c", "cortex-m4", "ios"])
def test_targets_without_bundles(target: str, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match="there are no libraries that run programs for the target"
    ):
        bundled(tmp_path / "made", {"layer": layer()}, target=target)
    assert not (tmp_path / "made").exists()


def test_the_command_makes_and_replaces_a_bundle(tmp_path: Path) -> None:
    for name in "ab":
        infuse.save(layer(), tmp_path / f"{name}.infuse")
    models = [str(tmp_path / f"{name}.infuse") for name in "ab"]
    output = tmp_path / "made"
    runner = CliRunner()
    for chosen in (models[:1], models):
        done = runner.invoke(app, ["bundle", *chosen, "-o", str(output), "--json"])
        assert done.exit_code == 0, done.output
        assert len(json.loads(done.stdout)["models"]) == len(chosen)
    again = runner.invoke(app, ["bundle", models[0], models[0], "-o", str(output)])
    assert again.exit_code == 1
    assert "two models would lie in the folder" in str(again.exception)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    refused = runner.invoke(app, ["bundle", *models, "-o", str(tmp_path / "other")])
    assert refused.exit_code == 1
    assert "a folder with other things in it" in str(refused.exception)
