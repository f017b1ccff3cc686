"""The sizes of kernel calls have the fields that the structs of the kernels have, in their
order.
"""

import re
from pathlib import Path

import pytest

import infuse
from infuse.ir import dims
from infuse.targets import TILE_SIDE, DotType
from infuse.targets.cpu.emit.sizes import struct_text
from infuse.targets.cpu.families.base import FILES, HEADERS
from infuse.targets.cpu.families.depthwise import ChainSizes, DepthwiseSizes
from infuse.targets.cpu.families.pooling import PoolSizes
from infuse.targets.cpu.families.work import FEW_ROWS
from infuse.targets.text.sizes import size_text

pytestmark = pytest.mark.row("R1")
KERNELS = Path(infuse.__file__).parent / "kernels"
FILES.import_all()


def fields(name: str, header: str) -> list[tuple[str, bool]]:
    """The fields of a struct, and whether they have a default."""
    text = (KERNELS / header).read_text("utf-8")
    body = re.search(rf"struct {name} \{{\n(.*?)\n\}};", text, re.DOTALL)
    assert body is not None, f"{header} has no struct {name}"
    listed = []
    for line in re.sub(r"//.*", "", body[1]).split(";"):
        names = line.split(maxsplit=1)
        listed += (
            [(one.partition("=")[0].strip(), "=" in one) for one in names[1].split(",")]
            if names
            else []
        )
    return listed


def test_tiles_have_the_numbers_of_their_header() -> None:
    text = (KERNELS / "tiles.hpp").read_text("utf-8")
    numbers = {
        "TILE_SIDE": TILE_SIDE,
        "FEW_ROWS": FEW_ROWS[DotType.U8S8],
        "FEW_PAIR_ROWS": FEW_ROWS[DotType.BF16],
    }
    for name, number in numbers.items():
        assert re.search(rf"constexpr isize (\w+ = \d+, )?{name} = {number}[,;]", text), name


@pytest.mark.parametrize("kind", HEADERS, ids=lambda kind: kind.__name__)
def test_a_struct_and_its_twin_have_the_same_fields(kind: type) -> None:
    declared = fields(kind.__name__, HEADERS[kind])
    assert tuple(name for name, has_default in declared if not has_default) == kind._fields  # type: ignore[attr-defined]


def test_every_field_is_named() -> None:
    seq = dims.symbol("seq")
    mid = DepthwiseSizes._make([1, seq, *[2] * 12])
    text = struct_text(ChainSizes(mid, 0, seq + 1, 4), size_text)
    assert text.startswith(
        "ChainSizes{.mid = DepthwiseSizes{.batch = 1L, .height = d->s_seq, .width = 2L, "
    )
    assert text.endswith(
        ".pad_left = 2L}, .in_channels = 0L, .pitch = (d->s_seq + 1L), .out_channels = 4L}"
    )
    assert struct_text(PoolSizes._make([*[1] * 16, True, 1]), size_text).endswith(
        ", .count_padding = true, .pitch = 1L}"
    )
