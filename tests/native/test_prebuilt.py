"""Programs that a library of prebuilt kernels runs: the same answers as compiled code, and nothing
that belongs to one model alone.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from infuse.build.compile import Compilation, compile_graph
from infuse.build.prebuilt import make_prebuilt
from infuse.ir.graph import Graph
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.options import CompileOptions
from infuse.runtime.program import FOLDER_VARIABLE
from infuse.targets import Target
from tests.native.op_cases import GROUPS, Case, check, members, native_cases
from tests.native.random_models import together
from tests.native.test_random_graphs import differences

NEVER = CompileOptions(compile="never", threads=2)
SAMPLED = 3
"""Of the rows of the short form, one in so many."""
pytestmark = [
    pytest.mark.row("X1"),
    # NumPy warns of means of nothing and of casts of what is not a number: both have a result.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def functions_of(graphs: Iterable[Graph]) -> ClosedFunctions:
    """The closed functions of all native stages of these graphs."""
    functions = emitter_of(Target.resolve().machine).closed()
    for graph in graphs:
        for part in Compilation(graph, CompileOptions(threads=2)).stages().parts:
            if isinstance(part, tuple):
                functions.add(*part)
    return functions


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a library of the functions of graphs, which models are then run by."""

    def make(graphs: Iterable[Graph]) -> None:
        # The loader takes a library of a known name for the one that it has.
        folder = tmp_path / uuid4().hex
        make_prebuilt(functions_of(graphs), Target.resolve(), folder / f"{folder.name}.so")
        monkeypatch.setenv(FOLDER_VARIABLE, str(folder))

    return make


def rows_of(group: str, full: bool) -> list[Case]:
    rows = native_cases(members(group), full)
    return rows if full else rows[::SAMPLED]


def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    with compile_graph(graph, NEVER) as model:
        return model.run(feeds)


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning(group: str, library: Any) -> None:
    def made(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        library([graph])
        return run(graph, feeds)

    check(rows_of(group, full=False), run=made)


def test_random_networks_of_any_sizes(library: Any) -> None:
    graph, runs = together(range(30), 10)
    library([graph])
    with compile_graph(graph, NEVER) as model:
        for feeds in runs:
            assert not differences(model.run(feeds), graph, feeds)
