"""Every kernel header compiles with both compilers; a model built by clang answers as one built by
GCC.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.runtime.cpus import architecture
from infuse.targets import Target
from tests.native.kernel_tools import targets
from tests.support.emulation import NARROW_BYTES, NARROW_DOTS, NEWEST, resolve

KERNELS = Path(infuse.__file__).parent / "kernels"
DIGITS = Path(__file__).parents[1] / "models" / "data" / "digits.onnx"
CLANG = [sys.executable, "-m", "ziglang", "c++"]
FLAGS = ["-std=c++17", "-c", "-fno-exceptions", "-fno-rtti", f"-I{KERNELS}"]


def compile_headers(
    tmp_path: Path, command: list[str], target: Target
) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "headers.cpp"
    names = sorted(header.name for header in KERNELS.glob("*.hpp"))
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    return compile_source(source, tmp_path, command, target)


def compile_source(
    source: Path, tmp_path: Path, command: list[str], target: Target
) -> subprocess.CompletedProcess[str]:
    arguments = [
        *command,
        *FLAGS,
        *target.machine.defines(),
        str(source),
        "-o",
        str(tmp_path / "headers.o"),
    ]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


@pytest.mark.row("R1")
@pytest.mark.parametrize(
    ("level", "flags"),
    [
        ("x86-64-v4", ["-mcpu=x86_64_v4"]),
        ("x86-64-v3", ["-mcpu=x86_64_v3"]),
        ("x86-64", ["-mcpu=x86_64"]),
        ("aarch64", ["-target", "aarch64-linux-gnu"]),
    ],
)
def test_headers_compile_with_clang(tmp_path: Path, level: str, flags: list[str]) -> None:
    done = compile_headers(tmp_path, [*CLANG, *flags], Target.resolve(level))
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.row("R1")
@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3", "x86-64"])
def test_headers_compile_with_gcc(tmp_path: Path, level: str) -> None:
    done = compile_headers(tmp_path, ["g++", f"-march={level}"], Target.resolve(level))
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.row("R1")
@pytest.mark.parametrize("name", targets(("x86-64-v4", NEWEST)))
def test_headers_compile_for_targets_that_are_emulated(tmp_path: Path, name: str) -> None:
    target = resolve(name)
    done = compile_headers(tmp_path, ["g++", f"-march={target.march}", *target.flags], target)
    assert done.returncode == 0, done.stderr[:2000]


TDPBF16PS = bytes.fromhex("c4e24a5cc4")  # of registers 0, 4 and 6
CLANG_ON_ARM = [*CLANG, "-target", "aarch64-linux-gnu", "-mcpu=cortex_a710"]


@pytest.mark.row("R1", "R3")
@pytest.mark.usefixtures("this_processor")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        (NEWEST, ["g++", "-march=x86-64-v4"]),
        (NEWEST, [*CLANG, "-mcpu=x86_64_v4"]),
        (NARROW_DOTS, ["g++", "-march=x86-64-v4"]),
        ("aarch64+bf16", CLANG_ON_ARM),
    ],
    ids=["tiles with gcc", "tiles with clang", "vectors with gcc", "arm with clang"],
)
def test_instructions_are_assembled_where_the_target_has_them(
    tmp_path: Path, name: str, command: list[str]
) -> None:
    """Emulation replaces their text, so that no other test on this machine may see it."""
    if architecture() != "x86_64" and not name.startswith("aarch64"):
        pytest.skip("this machine compiles for no x86-64")
    target, driver = Target.resolve(name), Path(__file__).with_name("bf16_driver.cpp")
    done = compile_source(driver, tmp_path, [*command, *target.flags, "-O1", "-fPIC"], target)
    assert done.returncode == 0, done.stderr[:2000]
    content = (tmp_path / "headers.o").read_bytes()
    assert (TDPBF16PS in content) == (name == NEWEST)


VPDPBUSD = rb"\xc4[\x42\x62\xc2\xe2].\x50"  # in the encoding without AVX-512


@pytest.mark.row("R1", "R3")
@pytest.mark.usefixtures("this_processor")
@pytest.mark.skipif(architecture() != "x86_64", reason="this machine compiles for no x86-64")
@pytest.mark.parametrize("command", [["g++", "-march=x86-64-v3"], [*CLANG, "-mcpu=x86_64_v3"]])
def test_bytes_are_multiplied_by_vectors_of_avx2(tmp_path: Path, command: list[str]) -> None:
    driver = Path(__file__).with_name("integer_driver.cpp")
    for name in ("x86-64-v3", NARROW_BYTES):
        target = Target.resolve(name)
        done = compile_source(driver, tmp_path, [*command, *target.flags, "-O1", "-fPIC"], target)
        assert done.returncode == 0, done.stderr[:2000]
        content = (tmp_path / "headers.o").read_bytes()
        assert bool(re.search(VPDPBUSD, content, re.DOTALL)) == (name == NARROW_BYTES)


@pytest.mark.row("R1")
@pytest.mark.usefixtures("product_compiler")
def test_clang_and_gcc_models_agree(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    graph = infuse.load(DIGITS)
    shape = [8 if not isinstance(d, int) else d for d in graph.inputs[0].shape]
    feeds = {graph.inputs[0].name: rng.standard_normal(shape).astype(np.float32)}
    answers = []
    for compiler in ("g++", " ".join(CLANG)):
        monkeypatch.setenv("CXX", compiler)
        with infuse.compile(graph, infuse.CompileOptions(threads=2)) as model:
            answers.append(next(iter(model.run(feeds).values())))
    scale = np.abs(answers[0]).max()
    # The same kernels with other instruction schedules and contractions: a few units in the last
    # place.
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=2e-6 * scale)
