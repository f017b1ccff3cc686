"""What a processor offers a kernel, as numbers: vectors, the tile of its products, caches, units
for dot products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import log2
from pathlib import Path
from typing import ClassVar, Final

_KIB: Final = 1024
_LEAST_BLOCK: Final = 1 << 20
_SMALL_ROWS: Final = 4
_UNITS: Final = {"K": _KIB, "M": _KIB**2, "G": _KIB**3}


@dataclass(frozen=True)
class Caches:
    """Bytes of a core's first (data) and second level cache, and of the third that cores share."""

    l1: int = 32 * _KIB
    l2: int = _KIB**2
    l3: int = 32 * _KIB**2

    @classmethod
    def of_host(cls, root: Path = Path("/")) -> Caches:
        """Those of this machine, as Linux tells them; the usual size of one that it does not
        tell.
        """
        sizes = {}
        for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
            level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
            if kind in ("Data", "Unified") and size[:-1].isdecimal() and size[-1] in _UNITS:
                sizes[f"l{level}"] = int(size[:-1]) * _UNITS[size[-1]]
        return cls(
            **{name: size for name, size in sizes.items() if name in cls.__annotations__ and size}
        )


USUAL: Final = Caches()
"""Those of a processor that is known by the name of its level only."""


class DotType(Enum):
    """The types of both sides of a dot product of narrow numbers."""

    BF16 = "bf16·bf16"
    U8S8 = "u8·s8"


TILE_SIDE: Final = 16
"""Rows of a tile register, and words of 32 bits in each of them."""


@dataclass(frozen=True)
class DotUnit:
    """Instructions that add up products of narrow numbers: the features that have them together,
    and how many products each adds to a sum of 32 bits. Without `features` every machine has them.

    `tiled`: they multiply whole registers of `TILE_SIDE` rows.
    """

    features: frozenset[str]
    products: int
    tiled: bool = False


@dataclass(frozen=True)
class Machine:
    """A processor as kernels see it.

    `registers` hold vectors of `vector_bits`; `tile_rows` × `tile_columns` sums of float32 are the
    tile of a product. `dots` are the units for dot products by the types of both sides.
    """

    room: ClassVar[str] = "cpu"
    """The folder of `targets` that writes code for it."""
    language: ClassVar[str] = "c++"
    """What that is written in, as compilers call it."""
    has_vectors: ClassVar[bool] = True
    """Whether code is made of vectors, whose elements lie side by side."""
    architecture: str
    vector_bits: int
    registers: int
    tile_rows: int
    caches: Caches
    dots: tuple[tuple[DotType, DotUnit], ...] = ()

    @property
    def lanes(self) -> int:
        """Floats of a vector."""
        return self.vector_bits // 32

    @property
    def tile_columns(self) -> int:
        """Columns of the tile: two vectors."""
        return 2 * self.lanes

    @property
    def block_bytes(self) -> int:
        """Bytes among which kernels divide a block of a product: the second level cache, or 1 MiB
        where that is less.

        With the 512 KiB of a Zen 3, weights are read again more often, and resnet18 took 1.05 times
        as long.
        """
        return max(self.caches.l2, _LEAST_BLOCK)

    @classmethod
    def of(cls, architecture: str, features: frozenset[str], caches: Caches) -> Machine:
        """The machine with these instruction sets, by their names in Linux."""
        if "zvl256b" in features:
            bits, registers, rows = 256, 32, 12
        elif "sve256" in features:
            bits, registers, rows = 256, 32, 8
        elif architecture == "aarch64":  # four numbers of each row lie in a register
            bits, registers, rows = 128, 32, 8
        elif "rvv" in features:
            bits, registers, rows = 128, 32, 12
        elif "avx512f" in features:
            bits, registers, rows = 512, 32, 12
        elif "avx" in features:
            bits, registers, rows = 256, 16, 6
        else:
            bits, registers, rows = 128, 16, 4
        best = ((kind, _first(units, features)) for kind, units in _DOTS.items())
        dots = tuple((kind, unit) for kind, unit in best if unit is not None)
        return cls(architecture, bits, registers, rows, caches, dots)

    def smaller(self) -> Machine:
        """The machine as kernels of few bytes see it: tiles of few rows, as there is code for every
        number of rows.
        """
        return replace(self, tile_rows=min(self.tile_rows, _SMALL_ROWS))

    def dot(self, kind: DotType) -> DotUnit | None:
        """The best unit for dot products of this kind, None without any."""
        return dict(self.dots).get(kind)

    @property
    def tiled(self) -> frozenset[DotType]:
        """The kinds of dot products that are of whole tiles."""
        return frozenset(kind for kind, unit in self.dots if unit.tiled)

    @property
    def has_bf16_tiles(self) -> bool:
        """Whether it multiplies pairs of bfloat16 in tile registers."""
        return DotType.BF16 in self.tiled

    def computes_as(self, other: Machine, *, integers: bool) -> bool:
        """Whether kernels of float32 are the same there; with `integers`, those of 8 bits, too."""
        own, others = ((m.vector_bits, m.registers, m.tile_rows) for m in (self, other))
        dots = self.dot(DotType.U8S8) == other.dot(DotType.U8S8)
        return own == others and (dots or not integers)

    def distance(self, other: Machine) -> tuple[float, bool, float]:
        """How different the times of kernels are there: the less, the more alike are two
        machines.
        """
        widths, rows = self.vector_bits / other.vector_bits, self.tile_rows / other.tile_rows
        blocks = self.block_bytes / other.block_bytes
        return (
            abs(log2(widths)),
            self.architecture != other.architecture,
            abs(log2(rows)) + abs(log2(blocks)),
        )

    def defines(self) -> list[str]:
        """What kernels are told when they are compiled, as definitions of the preprocessor."""
        numbers = {
            "LANES": self.lanes,
            "REGISTERS": self.registers,
            "TILE_ROWS": self.tile_rows,
            "L1_BYTES": self.caches.l1,
            "BLOCK_BYTES": self.block_bytes,
        }
        numbers |= {f"{kind.name}_TILES": 1 for kind, unit in self.dots if unit.tiled}
        return [f"-DINFUSE_{name}={value}" for name, value in numbers.items()]


class PlainMachine(Machine):
    """Any machine with a compiler of C: one element at a time, in one thread."""

    room, language, has_vectors = "c", "c", False

    @classmethod
    def on(cls, architecture: str) -> PlainMachine:
        """The machine of this architecture."""
        return cls(architecture, 32, 16, 1, USUAL)

    def defines(self) -> list[str]:
        """Nothing: the code is the same everywhere."""
        return []


def _unit(features: str, products: int, tiled: bool = False) -> DotUnit:
    return DotUnit(frozenset(features.split()), products, tiled)


_DOTS: Final = {
    DotType.BF16: (
        _unit("avx512f amx_tile amx_bf16", 2, tiled=True),
        _unit("avx512_bf16", 2),
        _unit("bf16", 2),
    ),
    DotType.U8S8: (
        _unit("avx512f amx_tile amx_int8", 4, tiled=True),
        _unit("avx512_vnni", 4),
        _unit("avx_vnni", 4),
        _unit("sve256", 4),
        _unit("i8mm", 4),
        _unit("asimddp", 4),
        _unit("", 2),
    ),
}
"""Units by the types of both sides, the best first. What tiles leave over, vectors of AVX-512
take.
"""


def _first(units: tuple[DotUnit, ...], features: frozenset[str]) -> DotUnit | None:
    return next((unit for unit in units if unit.features <= features), None)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except OSError:  # it is not told
        return ""
