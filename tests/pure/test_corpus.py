"""The graphs of which the functions of a library of prebuilt kernels come."""

import itertools
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import infuse
from benchmarks.prebuilt_functions import lacking
from infuse.build.collecting import collected
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.ops.text import compiled_pattern
from infuse.targets import Target
from infuse.targets.cpu.closed.program import closed_program, usual_functions
from infuse.testing import corpus
from infuse.testing.blocks import block_graphs
from infuse.testing.corpus import operator_graphs
from infuse.testing.ends import end_graphs
from infuse.testing.usual import network_graphs
from tests.support.generators.networks import random_network

DIGITS = Path(__file__).resolve().parents[1] / "models" / "data" / "digits.onnx"
TARGET = Target.resolve("x86-64-v3")
pytestmark = pytest.mark.row("X1")


def files(operators: Iterable[Graph], blocks: Iterable[Graph] = ()) -> dict[str, str]:
    return collected(TARGET, operators, blocks).sources("")


@cache
def some_operators() -> tuple[list[Graph], list[Graph]]:
    """A sixtieth of the graphs of operators, and those with branches, a loop and a scan."""
    graphs = list(operator_graphs())
    return graphs[::60], graphs[-3:]


def test_a_part_of_all_graphs_is_data() -> None:
    texts = files(some_operators()[0], [*block_graphs()][::150])
    whole = "\n".join(texts.values())
    for kernel in ("gemm(c", "copy_nd<4>(c", "map_interpreted(c", "reduce<", "winograd"):
        assert kernel in whole


def test_branches_and_loops_are_among_them() -> None:
    texts = files(some_operators()[1])["hosted.cpp"]
    for function in ("append(", "keep(", "obtain(", "memcpy("):
        assert function in texts


@pytest.mark.full
def test_all_graphs_are_data() -> None:
    assert len(files(operator_graphs(), block_graphs())) > 80


def test_whole_networks_are_lowered_and_have_code_of_their_own() -> None:
    graphs = {graph.name: graph for graph in network_graphs()}
    assert len(graphs) > 15
    for name in ("mobilenet_v3_small", "minilm_16", "windowed"):
        program, _ = generate(graphs[name], TARGET, 2)
        labels = {step.label for step in program.steps}
        assert len(program.steps) < len(graphs[name])
        assert usual_functions(program)
        assert labels & {"Mul + Conv + Add", "MatMul + Add + Gelu"}


def test_operators_at_the_ends_of_graphs_are_native() -> None:
    graphs = list(itertools.islice(end_graphs(), 0, None, 23))
    assert len({graph.name for graph in graphs}) == len(graphs) > 20
    assert all(generate(graph, TARGET, 2)[0].steps for graph in graphs)


@pytest.mark.full
def test_random_networks_call_nothing_else() -> None:
    names = collected(TARGET, operator_graphs(), block_graphs()).names
    for seed in range(2000, 2100):
        graph = random_network(seed).graph
        for threads in (1, 8):
            assert not lacking(graph, TARGET.name, threads, names), seed


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["x86-64", "aarch64"])
def test_a_small_network_calls_nothing_else(name: str) -> None:
    """Its layers of small images have other tiles than those of the usual sizes."""
    target = Target.resolve(name)
    table = collected(target, operator_graphs(), block_graphs()).sources("")["table.cpp"]
    network = infuse.optimize(infuse.load(DIGITS))
    for threads in (1, 2):
        called = closed_program(*generate(network, target, threads))
        assert {*called.functions, *called.elements} <= set(re.findall(r"\w+", table))


@pytest.mark.parametrize(("kind", "package"), [("RegexFullMatch", "re2"), ("ImageDecoder", "PIL")])
def test_packages_of_texts_and_images_are_not_needed(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = {key: op for key, op in corpus.REGISTRY.items() if key[1] == kind}
    monkeypatch.setitem(sys.modules, package, None)
    compiled_pattern.cache_clear()
    monkeypatch.setattr(corpus, "REGISTRY", operators)
    assert operators
    assert next(operator_graphs()).name != kind
