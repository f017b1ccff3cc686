"""Wheels bring libraries of prebuilt kernels, by which models run where there is no compiler."""

import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build.collecting import collected
from infuse.build.prebuilt import make_prebuilt, stamp
from infuse.build.toolchain import Toolchain
from infuse.catalog import ship
from infuse.errors import ToolchainError
from infuse.ops.core.base import OPERATORS
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.cpus import architecture
from infuse.targets import Target
from tests.native.installations import dependencies, install, link, run_installed
from tests.native.test_program_files import network

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "aarch64" if architecture() == "aarch64" else "x86-64"
INPUT = np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 4, 8)
LEAST = {"numpy", "ml_dtypes", "platformdirs"}
"""What loading and running compiled folders needs."""
pytestmark = pytest.mark.row("X1")


def build_wheel(
    output: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> subprocess.CompletedProcess[str]:
    monkeypatch.setenv("INFUSE_WHEEL_LIBRARIES", str(libraries))
    ship(notes := output / "notes")
    monkeypatch.setenv("INFUSE_WHEEL_NOTES", str(notes))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(output)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def shared_monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with what `network` calls, for any system."""
    path = tmp_path_factory.mktemp("libraries") / f"infuse-{BASELINE}.so"
    target = Target.resolve(BASELINE)
    make_prebuilt(collected(target, [network()]), target, path, toolchain=Toolchain.portable())
    return path


@pytest.fixture(scope="module")
def wheel(
    library: Path, tmp_path_factory: pytest.TempPathFactory, shared_monkeypatch: pytest.MonkeyPatch
) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    done = build_wheel(folder, library.parent, shared_monkeypatch)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_a_wheel_with_libraries_says_for_which_systems_it_is(wheel: Path, library: Path) -> None:
    tag = f"py3-none-manylinux_2_28_{architecture()}"
    assert wheel.name == f"infuse-{infuse.__version__}-{tag}.whl"
    with zipfile.ZipFile(wheel) as archive:
        (described,) = [name for name in archive.namelist() if name.endswith("/WHEEL")]
        lines = archive.read(described).decode().splitlines()
        assert {"Root-Is-Purelib: false", f"Tag: {tag}"} <= set(lines)
        assert archive.read(f"infuse/prebuilt/{library.name}") == library.read_bytes()
        assert stamp().encode() in library.read_bytes()


def test_a_wheel_says_which_files_register_operators(wheel: Path) -> None:
    path, notes = OPERATORS.shipped()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(str(path)).decode() == notes


def test_a_portable_library_needs_nothing_but_an_old_glibc(library: Path) -> None:
    content = library.read_bytes()
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)
    assert versions
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 28)
    needed = set(re.findall(rb"\0(lib[\w+]+\.so[.\d]*)", content))
    assert needed <= {b"libc.so.6", b"libm.so.6", b"libpthread.so.0"}
    assert b".debug_" not in content


def test_a_portable_library_is_the_same_to_the_byte(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", str(tmp_path / "zig"))
    target = Target.resolve(BASELINE)
    again = tmp_path / "elsewhere" / library.name
    make_prebuilt(collected(target, [network()]), target, again, toolchain=Toolchain.portable())
    assert again.read_bytes() == library.read_bytes()


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder with the packages of the wheel, a model and its inputs."""
    install(wheel, tmp_path / "installed")
    infuse.save(network(), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", x=INPUT)
    return tmp_path


def agrees(results: Path) -> None:
    with np.load(results) as arrays:
        expected = evaluate(network(), {"x": INPUT})["d"]
        np.testing.assert_allclose(arrays["d"], expected, rtol=2e-6, strict=True)


def test_an_installed_wheel_runs_models_without_a_compiler(installed: Path) -> None:
    link([d for d in dependencies("infuse") if d.name != "infuse"], installed / "needed")
    paths = [installed / "installed", installed / "needed"]
    command = ["-m", "infuse", "run", "model.onnx", "--inputs", "inputs.npz", "-o", "out.npz"]
    done = run_installed([*command, "--compile", "never"], paths, installed)
    assert done.returncode == 0, done.stderr + done.stdout
    agrees(installed / "out.npz")
    refused = run_installed(command, paths, installed)
    assert refused.returncode
    assert "no C++ compiler was found" in refused.stderr
    assert 'compile="never"' in refused.stderr


def test_compiled_folders_need_little(
    installed: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_PREBUILT", str(library.parent))
    options = infuse.CompileOptions(compile="never", target=BASELINE, threads=1)
    infuse.compile(network(), options, output=installed / "model").close()
    link([d for d in dependencies("infuse") if d.name in LEAST], installed / "needed")
    script = """
        import numpy, infuse
        with infuse.load_compiled("model") as model:
            numpy.savez("out.npz", **model.run(dict(numpy.load("inputs.npz"))))
    """
    paths = [installed / "installed", installed / "needed"]
    done = run_installed(["-c", textwrap.dedent(script)], paths, installed)
    assert done.returncode == 0, done.stderr
    agrees(installed / "out.npz")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"text", "is no library for"),
        (b"\x7fELF" + bytes(14) + b"\x3e\0\0GLIBC_2.34\0", "needs glibc 2.34"),
        (b"\x7fELF" + bytes(14) + b"\x3e\0\0libstdc++.so.6\0", "needs more than glibc"),
        (None, "has libraries for 0 architectures"),
    ],
    ids=["no library", "newer glibc", "another library", "none"],
)
def test_a_library_for_other_systems_is_not_packed(
    content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libraries").mkdir()
    if content is not None:
        (tmp_path / "libraries" / "infuse-x86-64.so").write_bytes(content)
    done = build_wheel(tmp_path / "dist", tmp_path / "libraries", monkeypatch)
    assert done.returncode
    assert reason in done.stderr
    assert not list(tmp_path.glob("dist/*.whl"))


def test_portable_code_needs_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuse.build.toolchain.ziglang", lambda: None)
    with pytest.raises(ToolchainError, match="ziglang") as caught:
        Toolchain.portable()
    assert "pip install ziglang" in str(caught.value.hint)
