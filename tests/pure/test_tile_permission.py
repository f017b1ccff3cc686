"""Tile registers count among what a processor has only where the system lets a process use them,
and vectors of a stated length where those of the process have it.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from infuse.errors import CompiledModelError, OptionError
from infuse.runtime import cpus
from infuse.runtime.folder import check_cpu
from infuse.targets import DotType, Target

pytestmark = [pytest.mark.row("R6"), pytest.mark.usefixtures("this_processor")]
VECTORS = frozenset(("avx", "avx2", "fma", "avx512f", "avx512_bf16"))
TILES = frozenset(("amx_tile", "amx_bf16", "amx_int8"))
CACHED = (cpus.cpu_features, cpus.withheld_features, cpus._processor_features)


@pytest.fixture
def sapphire(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A processor with tile registers."""
    text = f"processor : 0\nflags\t\t: fpu {' '.join(sorted(VECTORS | TILES))}\n"
    monkeypatch.setattr(cpus, "_read", lambda path: text if path.name == "cpuinfo" else "")
    monkeypatch.setattr("infuse.targets.base.architecture", lambda: "x86_64")
    forget()
    yield monkeypatch
    forget()


def forget() -> None:
    for function in CACHED:
        function.cache_clear()


def answer(monkeypatch: pytest.MonkeyPatch, granted: bool) -> list[bool]:
    """What the system answers; how often it was asked."""
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(granted)
        return granted

    monkeypatch.setattr(cpus, "_tiles_granted", ask)
    return asked


def test_tiles_that_are_granted_count(sapphire: pytest.MonkeyPatch) -> None:
    asked = answer(sapphire, True)
    assert cpus.cpu_features() == VECTORS | TILES
    assert cpus.withheld_features() == frozenset()
    machine = Target.resolve("native").machine
    assert machine.tiled == {DotType.BF16, DotType.U8S8}
    check_cpu({"cpu_features": sorted(TILES)}, Path("model"))
    assert len(asked) == 1


def test_tiles_that_are_refused_do_not(sapphire: pytest.MonkeyPatch) -> None:
    """As where a thread has an alternate stack for signals that is too small."""
    asked = answer(sapphire, False)
    assert cpus.cpu_features() == VECTORS
    assert cpus.withheld_features() == TILES
    native = Target.resolve("native")
    assert not native.machine.tiled
    assert not native.required & TILES
    assert len(asked) == 1


def test_a_folder_that_needs_tiles_is_refused_with_the_reason(
    sapphire: pytest.MonkeyPatch,
) -> None:
    answer(sapphire, False)
    needs = {"target": "x86-64-v4+amx_tile", "cpu_features": ["amx_tile", "avx2"]}
    with pytest.raises(CompiledModelError, match="does not let this process use amx_tile") as told:
        check_cpu(needs, Path("folder/model"))
    assert told.value.where == "folder/model"
    assert "signals" in str(told.value.hint)
    with pytest.raises(CompiledModelError, match="has no avx9000"):
        check_cpu({"cpu_features": ["avx9000"]}, Path("model"))


def test_a_processor_without_tiles_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_read", lambda path: "flags : avx2 fma\n")
    asked = answer(monkeypatch, True)
    forget()
    assert cpus.cpu_features() == {"avx2", "fma"}
    assert not asked
    forget()


@pytest.mark.skipif(cpus.architecture() != "x86_64", reason="tile registers are of x86-64")
def test_the_system_answers() -> None:
    """Whatever it says here, it says it again, and refuses where the processor has none."""
    granted = cpus._tiles_granted()
    assert cpus._tiles_granted() == granted
    assert "amx_tile" in cpus._processor_features() or not granted


def test_units_of_tiles_come_first_and_need_all_their_features() -> None:
    names = "x86-64-v4+amx_tile+amx_bf16+avx512_vnni+avx512_bf16"
    machine = Target.resolve(names).machine if cpus.architecture() == "x86_64" else None
    if machine is None:
        pytest.skip("tile registers are of x86-64")
    assert machine.tiled == {DotType.BF16}
    assert "-DINFUSE_BF16_TILES=1" in machine.defines()
    assert not any("U8S8" in text for text in machine.defines())
    (remark,) = Target.resolve(names).remarks
    assert "tile registers (AMX)" in remark
    assert "bf16·bf16" in remark
    without = Target.resolve("x86-64-v4+amx_bf16+amx_int8+avx512_vnni").machine
    assert not without.tiled
    assert Target.resolve(names).flags[:2] == ("-mamx-bf16", "-mamx-tile")


@pytest.mark.parametrize(("answer", "name"), [
    (16, "sve128"), (32, "sve256"), (32 | 1 << 17, "sve256"), (64, ""), (-1, ""),
])  # fmt: skip
def test_vectors_count_by_the_length_that_a_process_has(
    answer: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "processor : 0\nFeatures\t: fp asimd asimddp sve\n"
    monkeypatch.setattr(cpus, "_read", lambda path: text if path.name == "cpuinfo" else "")
    system = SimpleNamespace(prctl=lambda *request: answer)
    monkeypatch.setattr(cpus.ctypes, "CDLL", lambda _: system)
    monkeypatch.setattr("infuse.runtime.folder.architecture", lambda: "aarch64")
    monkeypatch.setattr("infuse.targets.base.architecture", lambda: "aarch64")
    forget()
    try:
        assert cpus.cpu_features() == {"fp", "asimd", "asimddp", "sve"} | ({name} - {""})
        assert Target.resolve("native").machine.vector_bits == 128
        needs = {"machine": "aarch64", "cpu_features": ["sve256"], "vector_bits": 256}
        if name == "sve256":
            check_cpu(needs, Path("model"))
        else:
            with pytest.raises(CompiledModelError, match="of 256 bits, and those of this process"):
                check_cpu(needs, Path("model"))
    finally:
        forget()


def test_a_target_states_one_length_of_vectors() -> None:
    with pytest.raises(OptionError, match="two lengths of vectors: sve128 and sve256"):
        Target.resolve("linux-arm64+sve128+sve256")
    with pytest.raises(OptionError, match="no kernel has a use"):
        Target.resolve("macos-arm64+sve256")
    target = Target.resolve("linux-arm64+sve2+sve256")
    assert (target.machine.lanes, target.vector_bits) == (8, 256)
    assert target.flags == ("-msve-vector-bits=256",)
    assert target.cpu == "generic+sve+sve2"


def test_vectors_of_risc_v_have_a_least_length() -> None:
    plain, wide = map(Target.resolve, ("linux-riscv64-v", "linux-riscv64-v+zvl256b"))
    assert (plain.machine.lanes, plain.vector_bits) == (4, 0)
    assert (wide.machine.lanes, wide.vector_bits, wide.flags) == (8, 256, ())
    assert wide.cpu == "baseline_rv64+v+zvl128b+zvl256b"
