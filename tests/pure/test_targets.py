"""Processors by name, and what they offer kernels."""

from dataclasses import replace
from pathlib import Path

import pytest

from infuse.errors import CompiledModelError, OptionError
from infuse.runtime import cpus, folder as folders
from infuse.runtime.levels import X86_LEVELS
from infuse.targets import Caches, DotType, DotUnit, Machine, Target, base
from infuse.targets.cpu.costs.cost_model import predict
from infuse.targets.cpu.families.work import work
from infuse.targets.machine import USUAL
from infuse.targets.platforms import ALIASES, PLATFORMS

pytestmark = [pytest.mark.row("R6"), pytest.mark.usefixtures("this_processor")]
DOCS = Path(__file__).parents[2] / "docs"
AVX2 = frozenset(("avx", "avx2", "fma"))
AVX512 = AVX2 | {"avx512f"}


def folder(root: Path, **files: str) -> None:
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(f"{text}\n")


def test_caches_are_asked_of_the_machine(tmp_path: Path) -> None:
    caches = tmp_path / "sys/devices/system/cpu/cpu0/cache"
    folder(caches / "index0", level="1", type="Data", size="48K")
    folder(caches / "index1", level="1", type="Instruction", size="64K")
    folder(caches / "index2", level="2", type="Unified", size="2M")
    folder(caches / "index3", level="3", type="Unified", size="105M")
    assert Caches.of_host(tmp_path) == Caches(48 << 10, 2 << 20, 105 << 20)


def test_what_a_machine_does_not_tell_of_its_caches_is_usual(tmp_path: Path) -> None:
    assert Caches.of_host(tmp_path) == USUAL
    caches = tmp_path / "sys/devices/system/cpu/cpu0/cache"
    folder(caches / "index0", level="1", type="Data", size="")
    folder(caches / "index1", level="2", type="Unified", size="0K")
    folder(caches / "index2", level="4", type="Unified", size="128M")
    folder(caches / "index3", type="Unified", size="8M")
    assert Caches.of_host(tmp_path) == USUAL


@pytest.mark.parametrize(("architecture", "features", "lanes", "registers", "rows", "int8"), [
    ("x86_64", frozenset(), 4, 16, 4, 2),
    ("x86_64", AVX2, 8, 16, 6, 2),
    ("x86_64", AVX512, 16, 32, 12, 2),
    ("x86_64", AVX512 | {"avx512_vnni"}, 16, 32, 12, 4),
    ("aarch64", frozenset(), 4, 32, 8, 2),
    ("aarch64", frozenset(("asimddp",)), 4, 32, 8, 4),
])  # fmt: skip
def test_a_machine_has_the_tile_that_fills_its_registers(
    architecture: str, features: frozenset[str], lanes: int, registers: int, rows: int, int8: int
) -> None:
    machine = Machine.of(architecture, features, USUAL)
    assert (machine.lanes, machine.registers, machine.tile_rows) == (lanes, registers, rows)
    assert machine.tile_columns == 2 * lanes
    unit = machine.dot(DotType.U8S8)
    assert unit is not None
    assert unit.products == int8
    assert machine.dot(DotType.BF16) is None


def test_units_for_bfloat16_need_their_instructions() -> None:
    machine = Machine.of("x86_64", AVX512 | {"avx512_bf16"}, USUAL)
    assert machine.dot(DotType.BF16) == DotUnit(frozenset(("avx512_bf16",)), 2)


def test_targets_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuse.targets.base.architecture", lambda: "x86_64")
    plain, further = (
        Target.resolve(name) for name in ("x86-64-v4", "x86-64-v4+avx512_vnni+avx512_bf16")
    )
    assert further.features - plain.features == {"avx512_vnni", "avx512_bf16"}
    assert further.flags == ("-mavx512bf16", "-mavx512vnni")
    assert further.fingerprint != plain.fingerprint
    arm = Target.resolve("aarch64+i8mm+bf16")
    assert (arm.march, arm.machine.tile_rows) == ("armv8.2-a+bf16+i8mm", 8)
    assert arm.machine.dot(DotType.BF16) == DotUnit(frozenset(("bf16",)), 2)
    v4 = ("x86-64-v4+", "x86-64-v4+sse9", "x86-64-v3+avx512_vnni", "native+avx512_vnni")
    for name in ("pentium", *v4, "aarch64+avx512_vnni", "aarch64+sve"):
        with pytest.raises(OptionError, match="target"):
            Target.resolve(name)
    assert not plain.is_foreign
    monkeypatch.setattr("infuse.targets.base.architecture", lambda: "riscv64")
    assert Target.resolve("x86-64-v3").is_foreign


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_platform_is_a_target(name: str) -> None:
    target, row = Target.resolve(name), PLATFORMS[name]
    assert (target.architecture, target.system) == (row.architecture, row.system)
    assert target.features >= row.features
    for further in row.further:
        assert further in Target.resolve(f"{name}+{further}").features


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_every_alias_is_a_platform_and_what_its_processor_has(alias: str, name: str) -> None:
    one, other = Target.resolve(alias), Target.resolve(name)
    assert one.machine == other.machine
    assert (one.triple, one.cpu, one.features) == (other.triple, other.cpu, other.features)


@pytest.mark.parametrize("page", ["platforms.md", "zh/platforms.md"])
def test_the_page_of_platforms_has_every_name(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    every = (*PLATFORMS, *ALIASES, *(name for row in PLATFORMS.values() for name in row.further))
    assert [name for name in every if f"`{name}`" not in text] == []


def test_libraries_of_c_are_of_linux() -> None:
    assert Target.resolve("linux-arm64-glibc2.17+i8mm").libc == "glibc2.17"
    assert Target.resolve("linux-x86_64-v3-musl").is_foreign
    for name, match in {
        "linux-arm64-glibc2.16": "glibc2.17 is the oldest",
        "windows-x86_64-musl": "one of Linux",
        "linux-arm64-glibc": "no target",
        "linux-arm46": "linux-arm64",
    }.items():
        with pytest.raises(OptionError, match=match):
            Target.resolve(name)


def test_instruction_sets_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """`$INFUSE_CPU`: in the target "native", and from folders that are opened."""
    has = X86_LEVELS["x86-64-v4"] | {
        "sse2",
        "ssse3",
        "gfni",
        "avx512_vnni",
        "amx_tile",
        "amx_bf16",
        "amx_int8",
    }
    monkeypatch.setattr(cpus, "_processor_features", lambda: has)
    monkeypatch.setattr(cpus, "withheld_features", frozenset[str])
    monkeypatch.setattr(base, "architecture", lambda: "x86_64")
    monkeypatch.setattr(folders, "architecture", lambda: "x86_64")
    for cached in (cpus.cpu_features, cpus.cpu_description):
        for module in (cpus, base, folders):
            monkeypatch.setattr(module, cached.__name__, cached.__wrapped__, raising=False)
    whole = Target.resolve("native")
    assert whole.features == has
    assert whole.march == "native"
    monkeypatch.setenv("INFUSE_CPU", "x86-64-v4+avx512_vnni")
    wide = Target.resolve("native")
    assert wide.features == X86_LEVELS["x86-64-v4"] | {"avx512_vnni"}
    assert (wide.name, wide.march, wide.flags) == ("native", "x86-64-v4", ("-mavx512vnni",))
    monkeypatch.setenv("INFUSE_CPU", "x86-64-v3")
    narrow = Target.resolve("native")
    assert narrow.machine.lanes == 8
    assert narrow.caches == whole.caches
    assert len({target.fingerprint for target in (whole, wide, narrow)}) == 3
    assert cpus.cpu_features() == X86_LEVELS["x86-64-v3"] | {"sse2", "ssse3"}
    assert not Target.resolve("x86-64-v4").is_runnable
    with pytest.raises(CompiledModelError, match="INFUSE_CPU hides avx512f"):
        folders.check_cpu({"cpu_features": ["avx2", "avx512f"]}, Path("model"))
    for name, what in {
        "x86-64-v4+avx512_bf16": "this processor has no avx512_bf16",
        "aarch64": "this processor has no aarch64",
        "native": "INFUSE_CPU: there is no target 'native'",
    }.items():
        monkeypatch.setenv("INFUSE_CPU", name)
        with pytest.raises(OptionError, match=what):
            Target.resolve("native")


def test_another_cache_is_another_native_target(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Target.resolve("native")
    monkeypatch.setattr(Caches, "of_host", lambda: replace(small.caches, l2=64 << 20))
    large = Target.resolve("native")
    assert small.fingerprint != large.fingerprint
    assert f"-DINFUSE_BLOCK_BYTES={64 << 20}" in large.machine.defines()
    assert f"-DINFUSE_L1_BYTES={small.caches.l1}" in large.machine.defines()
    monkeypatch.setattr(Caches, "of_host", lambda: replace(small.caches, l2=256 << 10))
    assert f"-DINFUSE_BLOCK_BYTES={1 << 20}" in Target.resolve("native").machine.defines()


def test_costs_count_the_tiles_that_the_machine_has() -> None:
    arm, old = (Machine.of(name, frozenset(), USUAL) for name in ("aarch64", "x86_64"))
    tiles = [work("gemm", "fp32", (24, 8, 64), machine, 1)[1] for machine in (arm, old)]
    assert tiles == [3, 6]


def test_costs_depend_on_the_second_level_cache() -> None:
    sizes = (1, 56, 56, 512, 56, 56, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 512)
    small, large = (
        Machine.of("x86_64", AVX2, replace(USUAL, l2=size << 10)) for size in (1024, 4096)
    )
    assert sum(work("conv", "taps", sizes, small, 1)) > sum(work("conv", "taps", sizes, large, 1))


def test_tile_registers_make_products_of_bfloat16_cheaper() -> None:
    """But not those of one row, which vectors multiply."""
    vectors = Machine.of("x86_64", AVX512 | {"avx512_bf16"}, USUAL)
    tiles = Machine.of("x86_64", AVX512 | {"avx512_bf16", "amx_tile", "amx_bf16"}, USUAL)
    image = (1, 14, 14, 256, 14, 14, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 256)
    for family, name, sizes in (
        ("gemm", "bf16", (64, 512, 512)),
        ("conv", "taps_bf16", image),
        ("conv", "winograd2_bf16", image),
    ):
        times = [predict(family, name, sizes, machine, 1) for machine in (tiles, vectors)]
        assert times[0] < 0.8 * times[1]
    few = [predict("gemm", "bf16", (1, 512, 512), machine, 1) for machine in (tiles, vectors)]
    assert few[0] == few[1]
    plain = [predict("gemm", "fp32", (64, 512, 512), machine, 1) for machine in (tiles, vectors)]
    assert plain[0] == plain[1]


def test_machines_that_are_alike_are_near() -> None:
    avx2, avx512 = (Machine.of("x86_64", features, USUAL) for features in (AVX2, AVX512))
    arm, old = (Machine.of(name, frozenset(), USUAL) for name in ("aarch64", "x86_64"))
    other = replace(avx2, caches=replace(USUAL, l2=2 << 20))
    for machine, nearest, further in (
        (other, avx2, avx512),
        (arm, old, avx2),
        (avx512, avx512, avx2),
    ):
        assert machine.distance(nearest) < machine.distance(further)
    assert not any(avx2.distance(avx2))
    assert any(avx2.distance(other))


def test_this_machine_runs_what_is_made_for_it() -> None:
    native = Target.resolve("native")
    assert native.architecture == cpus.architecture()
    assert native.is_runnable
    assert not native.is_foreign
