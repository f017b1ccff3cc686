"""Code that is small before it is fast: its bytes, and the same answers as any other."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.compile import compile_graph
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import LIBRARY
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.op_cases import GROUPS, check, members, native_cases

QUICK = ("products",)
"""Groups of operators that are tried in `make test`."""
LEVELS = [
    level for level in ("x86-64", "x86-64-v3", "x86-64-v4") if Target.resolve(level).is_runnable
]
pytestmark = [
    pytest.mark.row("R5"),
    # NumPy warns of means of nothing and of casts of what is not a number: both have a result.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def network() -> Graph:
    """Convolutions of several kinds, whose rows and columns leave a rest beside whole tiles."""
    b = Builder("network")
    x = b.input(1, 3, 61, 59, name="x")
    x = b("Relu", b("Conv", x, b.weight(37, 3, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2)))
    x = b("Relu", b("Conv", x, b.weight(37, 1, 3, 3), pads=(1, 1, 1, 1), group=37))
    x = b("Conv", x, b.weight(71, 37, 1, 1))
    x = b("Conv", x, b.weight(29, 71, 5, 5), pads=(2, 2, 2, 2))
    b.output(b("MatMul", x, b.weight(30, 43)))
    return b.graph


@pytest.mark.parametrize("level", LEVELS or ["native"])
def test_a_network_is_right_and_its_library_smaller(level: str, tmp_path: Path) -> None:
    graph = infuse.optimize(network())
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 3, 61, 59)).astype(np.float32)}
    expected = evaluate(graph, feeds)
    sizes = []
    for small in (False, True):
        folder = tmp_path / f"{small}"
        options = CompileOptions(target=level, size=small)
        with compile_graph(graph, options, output=folder) as model:
            for name, value in model.run(feeds).items():
                most = np.abs(expected[name]).max()
                np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5 * most)
        sizes.append((folder / LIBRARY).stat().st_size)
    assert sizes[1] < 0.85 * sizes[0]


@pytest.mark.parametrize(
    "group",
    [group if group in QUICK else pytest.param(group, marks=pytest.mark.full) for group in GROUPS],
)
@pytest.mark.parametrize("level", LEVELS or ["native"])
def test_operators_agree_with_their_meaning(group: str, level: str) -> None:
    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with compile_graph(graph, CompileOptions(target=level, size=True, threads=2)) as model:
            return model.run(feeds)

    check(native_cases(members(group), False), run=run)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs binutils")
def test_libraries_have_no_symbols_but_those_of_the_interface(tmp_path: Path) -> None:
    for debug in (False, True):
        folder = tmp_path / f"{debug}"
        compile_graph(network(), CompileOptions(debug=debug), output=folder).close()
        command = ["readelf", "-S", "-W", str(folder / LIBRARY)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert (" .symtab " in shown) == debug


def test_prebuilt_kernels_are_of_one_size() -> None:
    with pytest.raises(OptionError, match="size is for code that is compiled"):
        CompileOptions(compile="never", size=True)
