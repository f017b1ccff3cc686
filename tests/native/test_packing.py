"""Folders for programs that link a model: static library, CMake, pkg-config, weights inside."""

import shutil
import subprocess
from pathlib import Path

import pytest

import infuse
from infuse.build.toolchain import ziglang
from infuse.errors import OptionError
from infuse.options import CompileOptions
from infuse.runtime.folder import STATIC, WEIGHTS
from tests.native.builder import Builder
from tests.native.test_c_interface import fixed, two_symbols

COMPILER = shutil.which("cc") or ""
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(not COMPILER, reason="needs a C compiler called cc"),
]
needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
needs_pkg_config = pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
needs_zig = pytest.mark.skipif(ziglang() is None, reason="needs ziglang (pip install ziglang)")
LISTS = """cmake_minimum_required(VERSION 3.13)
project(app C)
{finding}
add_executable(shared {folder}/example.c)
target_link_libraries(shared infuse::{name})
add_executable(static {folder}/example.c)
target_link_libraries(static infuse::{name}_static)
"""


def done(*command: object, folder: Path) -> str:
    result = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def packed(folder: Path, **options: object) -> Path:
    infuse.compile(two_symbols(), CompileOptions(**options), output=folder).close()  # type: ignore[arg-type]
    return folder


@needs_cmake
@pytest.mark.parametrize("prefix", ["infuse", "ears"])
@pytest.mark.parametrize("finding", ["find_package", "add_subdirectory"])
def test_a_project_of_cmake_links_either_library(prefix: str, finding: str, tmp_path: Path) -> None:
    folder = packed(tmp_path / "made", prefix=prefix)
    name = "model" if prefix == "infuse" else prefix
    text = (
        f"find_package({name} REQUIRED PATHS {folder} NO_DEFAULT_PATH)"
        if finding == "find_package"
        else f"add_subdirectory({folder} {name})"
    )
    app = tmp_path / "app"
    app.mkdir()
    (app / "CMakeLists.txt").write_text(LISTS.format(finding=text, folder=folder, name=name))
    done("cmake", "-S", app, "-B", app / "build", folder=app)
    done("cmake", "--build", app / "build", folder=app)
    answers = [done(app / "build" / kind, "3", "5", folder=folder) for kind in ("shared", "static")]
    assert answers[0] == answers[1]
    assert answers[0].startswith("outputs[0]: 3 5 5\n")


@needs_pkg_config
def test_pkg_config_tells_how_to_link(tmp_path: Path) -> None:
    folder = packed(tmp_path / "moved" / "made", prefix="ears")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "ears"],
        env={"PKG_CONFIG_PATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = tmp_path / "program"
    done(
        COMPILER, folder / "example.c", *flags, f"-Wl,-rpath,{folder}", "-o", program, folder=folder
    )
    assert done(program, folder=folder).startswith("outputs[0]: 8 8 5\n")


def test_checksums_and_licence_are_there(tmp_path: Path) -> None:
    folder = packed(tmp_path / "made")
    assert "metadata.json" not in (folder / "SHA256SUMS").read_text()
    assert "FAILED" not in done("sha256sum", "-c", "SHA256SUMS", folder=folder)
    assert "Apache License" in (folder / "LICENSE").read_text()
    with infuse.load_compiled(folder) as model:
        assert model.folder == folder


def test_weights_are_a_part_of_the_library(tmp_path: Path) -> None:
    """Two models in one program, each with its own."""
    folders = [packed(tmp_path / name, embed=True, prefix=name) for name in ("ears", "eyes")]
    for folder in folders:
        (folder / WEIGHTS).unlink()
        program = folder / "example"
        libraries = ["-l:model.so", f"-Wl,-rpath,{folder}", "-L."]
        for linked in (libraries, [STATIC, "-pthread", "-lm"]):
            done(COMPILER, "example.c", *linked, "-o", program, folder=folder)
            assert done(program, folder=tmp_path).startswith("outputs[0]: 8 8 5\n")
    main = tmp_path / "main.c"
    texts = [
        f"extern void* {name}_open(const void*, int); extern void {name}_close(void*);"
        for name in ("ears", "eyes")
    ]
    calls = [f"{name}_close({name}_open(0, 1));" for name in ("ears", "eyes")]
    main.write_text(f"{' '.join(texts)}\nint main(void) {{ {' '.join(calls)} return 0; }}\n")
    archives = [folder / STATIC for folder in folders]
    done(COMPILER, main, *archives, "-pthread", "-lm", "-o", tmp_path / "main", folder=tmp_path)
    done(tmp_path / "main", folder=tmp_path)


def test_a_model_without_a_c_interface_has_no_weights_inside(tmp_path: Path) -> None:
    make = Builder()
    make.output(make("RandomNormal", shape=(3,), dtype=infuse.dtypes.float32))
    with pytest.raises(OptionError, match="no C interface, whose library could have the weights"):
        infuse.compile(make.graph, CompileOptions(embed=True), output=tmp_path / "made")


@needs_zig
@pytest.mark.full
def test_a_static_program_needs_nothing(tmp_path: Path) -> None:
    """With the weights inside, in an empty folder; it names no interpreter and no library."""
    folder = tmp_path / "made"
    options = CompileOptions("linux-x86_64-musl", embed=True)
    infuse.compile(fixed(), options, output=folder).close()
    command = [ziglang(), "cc", "-target", "x86_64-linux-musl", "-static", "-s", "example.c"]
    (tmp_path / "empty").mkdir()
    program = tmp_path / "empty" / "program"
    done(*command, STATIC, "-o", program, folder=folder)
    assert done(program, folder=tmp_path / "empty").startswith("outputs[0]: 3 5\n")
    assert b"/ld-musl" not in program.read_bytes()
