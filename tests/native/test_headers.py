"""Kernels mean the same wherever a source includes them."""

import subprocess
from pathlib import Path

import pytest

from infuse.build.toolchain import Toolchain
from infuse.targets import KERNELS, Target
from infuse.targets.cpu.emit.shared_files import APART

_OF_C = ("plain", "bare", "portable.h")
HEADERS = sorted(p.name for p in KERNELS.glob("*.h*") if not p.name.startswith(_OF_C))
"""Those of C++; the others are C alone."""

pytestmark = pytest.mark.row("R1")


def check(headers: list[str], folder: Path, first: str = "") -> None:
    source = folder / "all.cpp"
    includes = "".join(f'#include "{name}"\n' for name in headers)
    source.write_text(f"{first}\n{includes}", "utf-8")
    target = Target.resolve("native")
    flags = [
        "-std=c++17",
        "-fsyntax-only",
        f"-march={target.march}",
        *target.flags,
        *target.machine.defines(),
        f"-I{KERNELS}",
    ]
    command = [*Toolchain.find(target).command, *flags, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{headers}: {done.stderr[:2000]}"


@pytest.mark.parametrize("turned", [False, True], ids=["forwards", "backwards"])
def test_headers_are_included_in_any_order(turned: bool, tmp_path: Path) -> None:
    check(HEADERS[:: -1 if turned else 1], tmp_path)


@pytest.mark.parametrize("first", ["", APART], ids=["whole", "apart from the pool"])
def test_each_header_includes_what_it_needs(first: str, tmp_path: Path) -> None:
    for name in HEADERS:
        check([name], tmp_path, first)


@pytest.mark.parametrize("kind", ["default", "zig"])
def test_two_sources_with_all_headers_link(kind: str, tmp_path: Path) -> None:
    """What a header defines is inline: each source of a library may include it."""
    target = Target.resolve("native")
    if kind == "zig":
        package = Path(pytest.importorskip("ziglang").__file__).parent
        toolchain = Toolchain.from_command((str(package / "zig"), "c++"))
    else:
        toolchain = Toolchain.find(target)
    includes = "".join(f'#include "{name}"\n' for name in HEADERS)
    sources = [tmp_path / "one.cpp", tmp_path / "two.cpp"]
    for source in sources:
        source.write_text(includes, "utf-8")
    flags = (*toolchain.compiling(target, [KERNELS]), "-O0")
    _, linking = toolchain.linking(target, tmp_path / "a.so")
    toolchain.run([(*flags, *map(str, sources), *linking)], tmp_path)
    toolchain.check_made(tmp_path / "a.so")
