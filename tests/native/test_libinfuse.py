"""A library that runs models which were written for it later, without a compiler, from C."""

import json
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import infuse
from infuse.build.bundle import bundle
from infuse.build.collecting import collected
from infuse.build.libinfuse import ARCHIVE, LIBRARY, publish_library, read_library
from infuse.build.model_file import MAGIC, write_model_file
from infuse.cli.main import app
from infuse.errors import CompiledModelError, OptionError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import BUNDLED, METADATA, MODEL_FILE, PROGRAM, WEIGHTS
from infuse.runtime.program import Facts
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.test_bundle import layer
from tests.native.test_small_code import network

COMPILER = shutil.which("cc") or ""
HEAD = struct.Struct("<8s9q")
pytestmark = [
    pytest.mark.row("R5", "X1"),
    pytest.mark.skipif(not COMPILER, reason="needs a C compiler called cc"),
]
HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include "infuse.h"

static char* whole(const char* path, int64_t* bytes) {
  FILE* file = fopen(path, "rb");
  char* memory = aligned_alloc(64, 1 << 22);
  *bytes = file ? (int64_t)fread(memory, 1, 1 << 22, file) : -1;
  if (file) fclose(file);
  return memory;
}

static void tell(void* program, const char* input, int64_t symbol) {
  static float x[1 << 16], y[1 << 20];
  int64_t symbols[] = {symbol}, counts[16], sizes[16], total = 1;
  const void* inputs[] = {x};
  void* outputs[] = {y};
  FILE* file = fopen(input, "rb");
  if (!file || fread(x, 4, 1 << 16, file) == 0) exit(3);
  fclose(file);
  infuse_program_counts(program, counts, 16);
  if (infuse_program_shapes(program, symbols, sizes)) exit(4);
  infuse_options options = {.abi = INFUSE_ABI, .threads = 2};
  options.arena_bytes = infuse_program_needed_bytes(program, symbols);
  options.arena = aligned_alloc(64, (size_t)(options.arena_bytes + 127) / 64 * 64);
  void* context;
  if (infuse_program_create(program, &options, &context)) exit(5);
  if (infuse_run(context, symbols, inputs, outputs)) exit((puts(infuse_error(context)), 6));
  infuse_close(context);
  if (options.arena_bytes > 64) {
    options.arena_bytes -= 64;
    if (infuse_program_create(program, &options, &context)) exit(7);
    if (infuse_run(context, symbols, inputs, outputs) != INFUSE_OUT_OF_MEMORY) exit(8);
    infuse_close(context);
  }
  const int64_t wrong[] = {-1};
  if (symbol && infuse_program_needed_bytes(program, wrong) != -1) exit(9);
  for (int i = 0; i < counts[3]; i++) total *= sizes[i];
  for (int64_t i = 0; i < total; i++) printf("%.9g ", (double)y[i]);
  printf("\n%s\n", infuse_program_metadata(program));
}

int main(int count, char** names) {  // file input symbol, any number of these
  void* programs[4];
  char why[256];
  for (int i = 1; i + 2 < count; i += 3) {
    int64_t bytes;
    const char* content = whole(names[i], &bytes);
    programs[i / 3] = infuse_program_read(content, bytes, why, sizeof why);
    if (!programs[i / 3]) return puts(why), 2;
  }
  for (int i = 1; i + 2 < count; i += 3) tell(programs[i / 3], names[i + 1], atoll(names[i + 2]));
  for (int i = 1; i + 2 < count; i += 3) infuse_program_close(programs[i / 3]);
  return 0;
}
"""


def graphs() -> dict[str, Graph]:
    return {name: infuse.optimize(make()) for name, make in MAKERS.items()}


MAKERS = {"layer": layer, "network": network}


def small() -> Target:
    return Target.resolve().smaller()


def made(folder: Path, whole: Mapping[str, Graph]) -> Path:
    target = small()
    return publish_library(folder, collected(target, (), whole.values()), target)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("library") / "kernels", graphs())


@pytest.fixture(scope="module")
def models(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written where there is no compiler."""
    output = tmp_path_factory.mktemp("models") / "made"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(output.parent))
        patch.setattr("infuse.build.toolchain.ziglang", lambda: None)
        return bundle(graphs(), CompileOptions(threads=2), output, library=library)


@pytest.fixture(scope="module")
def host(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.c").write_text(HOST)
    flags = ("-Wall", "-Wextra", "-Werror", "-O1", f"-I{library}")
    linked = (f"-L{library}", "-linfuse", f"-Wl,-rpath,{library}")
    command = [COMPILER, *flags, "host.c", *linked, "-o", "host"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "host"


def ran(host: Path, *arguments: object) -> tuple[int, list[str]]:
    command = [str(host), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.splitlines()


def test_a_program_in_c_runs_two_models(host: Path, models: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        "layer": rng.normal(size=(3, 5)).astype(np.float32),
        "network": rng.normal(size=(1, 3, 61, 59)).astype(np.float32),
    }
    feeds["layer"][1, :3] = np.inf, 1e-42, -0.0
    arguments: list[object] = []
    for name, x in feeds.items():
        x.tofile(tmp_path / name)
        symbol = 3 if name == "layer" else 0
        arguments += [models / name / MODEL_FILE, tmp_path / name, symbol]
    status, lines = ran(host, *arguments)
    assert status == 0, lines
    for number, (name, x) in enumerate(feeds.items()):
        with np.errstate(invalid="ignore"):
            (expected,) = evaluate(graphs()[name], {"x": x}).values()
        answer = np.array(lines[2 * number].split(), np.float32).reshape(expected.shape)
        most = np.nanmax(np.abs(expected))
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5 * most)
        description = json.loads(lines[2 * number + 1])
        assert description["inputs"][0]["name"] == "x"
        assert description["abi"] == 3


def test_the_example_of_a_model_runs(library: Path, models: Path, tmp_path: Path) -> None:
    text = (models / "layer" / "example.c").read_text()
    command = next(line for line in text.splitlines() if "Compile: cc " in line)
    words = command.split("Compile: ")[1]
    done = subprocess.run(
        words, shell=True, cwd=models / "layer", capture_output=True, text=True, check=False
    )
    assert done.stdout == "outputs[0]: 8 4\n", done.stderr


def changed(file: Path, tmp_path: Path, at: int, value: bytes) -> Path:
    content = bytearray(file.read_bytes())
    content[at : at + len(value)] = value
    (tmp_path / "changed").write_bytes(content)
    return tmp_path / "changed"


def test_files_that_are_none_of_this_library_are_refused(
    host: Path, models: Path, library: Path, tmp_path: Path
) -> None:
    file = models / "layer" / MODEL_FILE
    content = file.read_bytes()
    head = HEAD.unpack(content[: HEAD.size])
    assert head[0] == MAGIC
    weights_at = head[8]
    (tmp_path / "x").write_bytes(bytes(60))

    def why(path: Path) -> str:
        status, lines = ran(host, path, tmp_path / "x", 3)
        assert status == 2
        return lines[0]

    for length in (0, 40, HEAD.size, weights_at - 8, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:length])
        assert why(tmp_path / "cut") in ("it ends too early", "its length is not what it says")
    assert why(tmp_path / "x") == "it ends too early"
    (tmp_path / "zeros").write_bytes(bytes(len(content)))
    assert why(tmp_path / "zeros") == "it is no file of a model"
    other_abi = changed(file, tmp_path, 8, struct.pack("<q", 99))
    assert why(other_abi) == "it has the interface 99, and this library 3"
    for at in (HEAD.size + 9, weights_at - 100):
        assert why(changed(file, tmp_path, at, b"\x7f\x7f")) == "it was changed, or is damaged"
    other_weights = changed(file, tmp_path, weights_at, bytes(reversed(content[weights_at:])))
    assert why(other_weights) == "its weights are those of another model"


def test_every_word_of_the_head_is_within_its_limits(
    host: Path, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(bytes(60))
    for word in range(HEAD.size // 8):
        for value in (-1, 0, 1, 1 << 40, (1 << 63) - 1):
            path = changed(
                models / "layer" / MODEL_FILE, tmp_path, 8 * word, struct.pack("<q", value)
            )
            assert ran(host, path, tmp_path / "x", 3)[0] == 2, (word, value)


def test_another_library_names_what_differs(models: Path, tmp_path: Path) -> None:
    """One of other kernels, and one for another target."""
    own = read_library(made(tmp_path / "kernels", {"layer": infuse.optimize(layer())}))
    (tmp_path / "model").mkdir()
    for name in (PROGRAM, WEIGHTS):
        (tmp_path / "model" / name).write_bytes(bytes(64))
    facts = own.library.facts
    (tmp_path / "x").write_bytes(bytes(60))
    (tmp_path / "host.c").write_text(HOST)
    linked = ("-L", str(own.path), "-linfuse", f"-Wl,-rpath,{own.path}", f"-I{own.path}")
    subprocess.run([COMPILER, "host.c", *linked, "-o", "host"], cwd=tmp_path, check=True)
    for other, expected in (
        (
            Facts("x86-64-v9", facts.features, facts.stamp),
            f"it is for the target x86-64-v9, and this library for {facts.target}",
        ),
        (
            Facts(facts.target, facts.features, "0"),
            "it was written for other kernels than this library has",
        ),
    ):
        write_model_file(tmp_path / "model", other, {}, tmp_path / MODEL_FILE)
        status, lines = ran(tmp_path / "host", tmp_path / MODEL_FILE, tmp_path / "x", 3)
        assert (status, lines) == (2, [expected])


def test_a_folder_has_what_programs_need(library: Path) -> None:
    names = {path.name for path in library.iterdir()}
    packed = {"infuse-config.cmake", "CMakeLists.txt", "infuse.pc", "LICENSE", "SHA256SUMS"}
    assert names == {LIBRARY, ARCHIVE, BUNDLED, METADATA, *packed}
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=library, check=True)
    assert "model" not in (library / "infuse.pc").read_text().split("Description")[0]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize("kind", ["infuse::infuse", "infuse::infuse_static"])
def test_cmake_finds_it(kind: str, library: Path, models: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.13)
project(app C)
find_package(infuse REQUIRED PATHS {library} NO_DEFAULT_PATH)
add_executable(app {models}/layer/example.c)
target_link_libraries(app {kind})
"""
    )
    for command in (["cmake", "-B", "build"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    command = [str(tmp_path / "build" / "app")]
    done = subprocess.run(command, cwd=models / "layer", capture_output=True, text=True, check=True)
    assert done.stdout == "outputs[0]: 8 4\n"


def test_what_a_library_cannot_run_is_refused(library: Path, tmp_path: Path) -> None:
    b = Builder("other")
    b.output(b("Det", b.input(3, 3, name="x")))
    options = CompileOptions(threads=1)
    with pytest.raises(UnsupportedOperatorError, match="infuse prebuilt --library"):
        bundle({"other": b.graph}, options, tmp_path / "made", library=library)
    other = "aarch64" if read_library(library).target.architecture == "x86_64" else "x86-64-v3"
    for named, words in (
        (CompileOptions(other), "the library is for"),
        (CompileOptions(size=True), "its size is what it is"),
    ):
        with pytest.raises(OptionError, match=words):
            bundle(graphs(), named, tmp_path / "made", library=library)
    assert not (tmp_path / "made").exists()
    with pytest.raises(CompiledModelError, match="has no library that runs programs"):
        bundle(graphs(), options, tmp_path / "made", library=tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("stamp", "0", "another release"), ("cpu_features", ["mmx"], "another machine")],
)
def test_a_library_of_others_is_refused(
    key: str, value: object, words: str, library: Path, tmp_path: Path
) -> None:
    (tmp_path / "kernels").mkdir()
    content = json.loads((library / METADATA).read_text())
    (tmp_path / "kernels" / METADATA).write_text(json.dumps({**content, key: value}))
    with pytest.raises(CompiledModelError, match=words):
        bundle(graphs(), CompileOptions(), tmp_path / "made", library=tmp_path / "kernels")


def test_the_commands_make_library_and_models(tmp_path: Path) -> None:
    infuse.save(layer(), tmp_path / "layer.infuse")
    runner = CliRunner()
    kernels, output = str(tmp_path / "kernels"), str(tmp_path / "made")
    model = str(tmp_path / "layer.infuse")
    made = runner.invoke(app, ["prebuilt", model, "--only-models", "--library", "-o", kernels])
    assert made.exit_code == 0, made.output
    assert LIBRARY in made.output
    for _ in range(2):
        done = runner.invoke(app, ["bundle", model, "--library", kernels, "-o", output, "--json"])
        assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["library"] == f"{kernels}/{LIBRARY}"
    assert MODEL_FILE in facts["models"]["layer"]
    refused = runner.invoke(app, ["prebuilt", "--library", "--target", "wasm32", "-o", output])
    assert "there are no libraries that run programs" in str(refused.exception)
