"""Libraries on processors that lack their instructions: a host in C gets a code and a text, and
does not end with an illegal instruction.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

import infuse
from infuse.build.bundle import bundle
from infuse.build.toolchain import ziglang
from infuse.options import CompileOptions
from infuse.runtime.cpus import architecture
from infuse.runtime.folder import STATIC
from tests.native.builder import Builder

HOST = r"""
#include <stdio.h>
#include <string.h>
#include "model.h"

static float weights[1 << 12] __attribute__((aligned(64)));

int main(void) {
  infuse_options options;
  void* context = &options;
  void* opened;
  memset(&options, 0, sizeof options);
  options.abi = INFUSE_ABI;
  options.weights = weights;
  const int code = infuse_create(&options, &context);
  opened = infuse_open(weights, 2);
  printf("%d %d %d\n%s\n%s\n", code, !context, !opened, infuse_error(NULL), infuse_status(code));
  if (opened) infuse_close(opened);
  if (context) infuse_close(context);
  return 0;
}
"""
READER = r"""
#include <stdio.h>
#include <stdlib.h>
#include "infuse.h"

static char content[1 << 16] __attribute__((aligned(64)));

int main(int count, char** names) {
  char why[256] = "";
  FILE* file = fopen(names[count - 1], "rb");
  if (!file) return 2;
  const int64_t bytes = (int64_t)fread(content, 1, sizeof content, file);
  void* program = infuse_program_read(content, bytes, why, sizeof why);
  printf("%d\n%s\n%s\n", !program, why, infuse_error(NULL));
  return 0;
}
"""
X86 = [
    ("linux-x86_64-v3-musl", "qemu-x86_64", "Nehalem", "avx"),
    ("linux-x86_64-v3-musl", "qemu-x86_64", "SandyBridge", "f16c"),
    ("linux-x86_64-v4-musl", "qemu-x86_64", "Haswell", "avx512f"),
]
CASES = [
    *X86,
    ("linux-arm64-musl+asimddp", "qemu-aarch64", "cortex-a53", "asimddp"),
    ("linux-arm64-musl+asimddp+i8mm", "qemu-aarch64", "cortex-a76", "i8mm"),
]
RUNS = [
    ("linux-x86_64-v3-musl", "qemu-x86_64", "Haswell"),
    ("linux-arm64-musl+asimddp", "qemu-aarch64", "cortex-a76"),
]
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(ziglang() is None, reason="needs ziglang (pip install ziglang)"),
]


def emulator(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name} (apt install qemu-user)")
    return path


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Programs that have been made, by target."""
    return {}


def host(programs: dict[str, Path], target: str, root: pytest.TempPathFactory) -> Path:
    """A program in C for every processor of the family, linked with a model for a target."""
    if target in programs:
        return programs[target]
    b = Builder("layer")
    b.output(b("Softmax", b("MatMul", b.input("n", 5, name="x"), b.weight(5, 4))))
    folder = root.mktemp("host")
    model = folder / "model"
    infuse.compile(b.graph, CompileOptions(target=target), output=model)
    (folder / "host.c").write_text(HOST)
    family = "x86_64" if "x86_64" in target else "aarch64"
    triple = ("-target", f"{family}-linux-musl", "-std=c11", "-Wall", "-Werror", "-O2")
    command = [str(ziglang()), "cc", *triple, f"-I{model}", "host.c", str(model / STATIC)]
    subprocess.run([*command, "-o", "host"], cwd=folder, check=True)
    programs[target] = folder / "host"
    return programs[target]


def lines(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize(("target", "program", "processor", "lacks"), CASES)
def test_a_processor_without_the_instructions_is_told(
    target: str,
    program: str,
    processor: str,
    lacks: str,
    programs: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    words = [emulator(program), "-cpu", processor]
    codes, text, status = lines([*words, str(host(programs, target, tmp_path_factory))])
    assert codes == "5 1 1"  # INFUSE_REFUSED
    assert text.startswith(f"this processor has no {lacks}, ")
    assert "lacks instructions" in status


@pytest.mark.parametrize(("target", "program", "processor"), RUNS)
def test_a_processor_that_has_them_opens_it(
    target: str,
    program: str,
    processor: str,
    programs: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    words = [emulator(program), "-cpu", processor]
    codes, text, status = lines([*words, str(host(programs, target, tmp_path_factory))])
    assert (codes, text, status) == ("0 0 0", "", "all is well")


@pytest.mark.skipif(architecture() != "x86_64", reason="compiles for x86-64 by its own compiler")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler called cc")
def test_a_library_of_programs_tells(tmp_path: Path) -> None:
    words = [emulator("qemu-x86_64"), "-cpu", "Nehalem"]
    b = Builder("layer")
    b.output(b("Relu", b.input(5, name="x")))
    made = bundle({"layer": b.graph}, CompileOptions(target="x86-64-v3"), tmp_path / "made")
    (tmp_path / "host.c").write_text(READER)
    linked = (f"-I{made}", f"-L{made}", "-linfuse", f"-Wl,-rpath,{made}")
    subprocess.run(["cc", "host.c", *linked, "-o", "host"], cwd=tmp_path, check=True)
    refused, why, text = lines([*words, str(tmp_path / "host"), str(tmp_path / "host.c")])
    assert refused == "1"
    assert why == text
    assert why.startswith("this processor has no avx, ")
