"""docs/tutorial.md: its blocks, one after the other, make a compiler of at most 300 lines whose
models agree with NumPy, also where nothing can be fused.
"""

import re
import shutil
import sys
from typing import Any

import numpy as np
import pytest

from tests.pages.blocks import ROOT, blocks, source

PAGE = source("docs/tutorial.md")
BLOCKS = [block.text for block in blocks("docs/tutorial.md", "python")]
MOST_LINES = 300


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page defines."""
    defined: dict[str, Any] = {"__name__": "tutorial"}
    # dataclasses look up the module of a class
    sys.modules["tutorial"] = type(sys)("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        if shutil.which("cc") is None:
            patch.setenv("CC", f"{sys.executable} -m ziglang cc")
        for block in BLOCKS:
            exec(block, defined)
        yield defined
    del sys.modules["tutorial"]


def test_it_is_short() -> None:
    assert sum(len(block.splitlines()) for block in BLOCKS) <= MOST_LINES


def test_the_rule_fires_and_the_network_agrees(names: dict[str, Any]) -> None:
    assert names["before"] == 8
    assert names["records"] == ["FuseSilu: mul → silu"] * 2
    np.testing.assert_allclose(names["found"], names["expected"], rtol=1e-4, atol=1e-5)


def test_bias_and_activation_are_in_the_kernel(names: dict[str, Any]) -> None:
    source = names["model"].source
    assert source.count("static void") == 2
    assert source.count("expf") == 2


def test_another_network_agrees(names: dict[str, Any]) -> None:
    """Values with two readers, elementwise work alone, and an arena that is used again."""
    apply, constant = names["apply"], names["constant"]
    rng = np.random.default_rng(1)
    x, z = names["Value"]((3, 5)), names["Value"]((3, 1))
    hidden = apply("matmul", x, constant(rng.standard_normal((5, 7))))
    gate = apply("sigmoid", hidden)
    joined = apply("add", apply("mul", hidden, gate), z)
    for _ in range(3):
        joined = apply("matmul", joined, constant(rng.standard_normal((7, 7)) / 3))
    joined = apply("mul", joined, gate)
    feeds = {v: rng.standard_normal(v.shape).astype(np.float32) for v in (x, z)}
    expected = names["evaluate"](joined, feeds)
    better = names["optimize"](joined, [])
    found = names["Model"](better, [x, z]).run(feeds[x], feeds[z])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_places_that_it_names_exist() -> None:
    table = PAGE.split("## Where the real ones are")[1]
    places = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", table.replace("`src/infuse/`", ""))
    assert len(places) > 10
    assert not [place for place in places if not (ROOT / "src" / "infuse" / place).exists()]
