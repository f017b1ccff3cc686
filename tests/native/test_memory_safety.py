"""Compiled models touch no memory outside of their tensors, whatever sizes and elements they are
run with.

Every dimension of every input is a symbol of its own, every intermediate lies in memory of its own,
and AddressSanitizer and UBSan watch (`tests.support.sanitizing`).
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.build.staged import lower_graph
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType, UnknownRank, tensor
from infuse.ops.core.base import Op
from infuse.targets import Target
from infuse.testing.samples import rows
from tests.native.concat_models import MODELS
from tests.native.kernel_tools import targets
from tests.native.recurrent_models import recurrent
from tests.support.generators.networks import random_network
from tests.support.hostile import Case, Feeds, cases, feeds
from tests.support.sanitizing import Job, Outcome, build_sanitized, run_sanitized

OPS = [op for _, op in sorted(ops.REGISTRY.items()) if op.samples]
OFTEN = (
    *(
        "ScatterElements",
        "GatherElements",
        "Gather",
        "NonMaxSuppression",
        "ReverseSequence",
        "ArgMax",
        "OneHot",
        "TopK",
    ),
    *(
        "Col2Im",
        "NegativeLogLikelihoodLoss",
        "RotaryEmbedding",
        "GridSample",
        "RoiAlign",
        "ReduceLogSumExp",
        "MatMulNBits",
    ),
    *("GroupQueryAttention", "TensorScatter"),
)
"""Operators of the short form: those that once left their tensors."""
SafeTogether = Callable[[Sequence[type[Op]], str, type[Op]], None]
NETWORKS = 5_000
PART = 25

needs_sanitizer = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("g++") is None,
    reason="AddressSanitizer is used with GCC",
)
pytestmark = [needs_sanitizer, pytest.mark.row("R1")]


def name(op: type[Op]) -> str:
    return f"{op.domain}::{op.name}" if op.domain else op.name


def faults(case: Case | None, job: Job) -> Iterator[str]:
    """What went wrong in the runs of a job."""
    for given, outcome in zip(job.feeds, job.outcomes):
        what = {
            key: (x.dtype.name, x.shape, x.reshape(-1)[:8].tolist()) for key, x in given.items()
        }
        if outcome.report:
            yield f"{case}: {what}\n{_summary(outcome)}"
        elif (
            case is not None
            and any(x.size for x in outcome.outputs or ())
            and _refuses(case, given)
        ):
            yield f"{case}: answers what its meaning refuses: {what}"


def _refuses(case: Case, given: Feeds) -> bool:
    """Whether the operator has no answer for these finite inputs."""
    floats = [x for x in given.values() if x.dtype.kind == "f"]
    if case.row.op.name == "RoiAlign" and any((abs(x) > 1e5).any() for x in floats):
        # kernels skip what lies outside of an image, and the interpreter visits it only up to a
        # limit
        return False
    return all(np.isfinite(x).all() for x in floats) and case.meaning(given) is None


def _summary(outcome: Outcome) -> str:
    lines = [
        line
        for line in outcome.report.splitlines()
        if re.search(r"ERROR|runtime error|#[0-3] |ended", line)
    ]
    return "\n".join(lines[:12]) or outcome.report[:500]


def chosen(op: type[Op], target: str, most_rows: int) -> list[Case]:
    every = rows(op, np.random.default_rng(1))
    some = every[:: max(1, -(-len(every) // most_rows))]
    return [case for row in some for case in cases(row, target)]


def watched(cases: Sequence[Case], target: str, most_feeds: int, folder: Path) -> list[Job]:
    """The runs of these cases, all of them one library."""
    graphs = [lower_graph(case.graph, Target.resolve(target), 2) for case in cases]
    jobs = [
        Job(model, feeds(case, np.random.default_rng(7), most_feeds))
        for case, model in zip(cases, build_sanitized(graphs, folder, target))
    ]
    run_sanitized(jobs)
    return jobs


def require_safe(cases: Sequence[Case], jobs: Sequence[Job]) -> None:
    """Fails where a compiled row left its tensors, ended its process or answered what has no
    answer.
    """
    for case, job in zip(cases, jobs):
        assert job.outcomes[0].outputs is not None, (
            f"{case} refuses its own sample: {job.outcomes[0].error}"
        )
    found = [message for case, job in zip(cases, jobs) for message in faults(case, job)]
    assert not found, f"{len(found)} runs:\n" + "\n".join(found[:6])


SOME = [op for op in OPS if op.name in OFTEN]
WIDE = [ops.REGISTRY["", name] for name in ("Gather", "Softmax", "MatMul")]


@pytest.fixture(scope="module")
def safe_together(
    tmp_path_factory: pytest.TempPathFactory,
) -> SafeTogether:
    """`safe_together(operators, target, op)`: one of several operators, which are compiled as one
    library and run once, is safe.
    """

    @cache
    def runs(together: tuple[type[Op], ...], target: str) -> dict[type[Op], Any]:
        every = [(op, case) for op in together for case in chosen(op, target, 1)]
        jobs = watched([case for _, case in every], target, 40, tmp_path_factory.mktemp("some"))
        pairs = [(op, case, job) for (op, case), job in zip(every, jobs)]
        return {op: [(case, job) for own, case, job in pairs if own is op] for op in together}

    def check(together: Sequence[type[Op]], target: str, op: type[Op]) -> None:
        mine = runs(tuple(together), target)[op]
        require_safe([case for case, _ in mine], [job for _, job in mine])

    return check


@pytest.mark.parametrize("op", SOME, ids=name)
def test_operators_stay_inside_their_tensors(op: type[Op], safe_together: SafeTogether) -> None:
    safe_together(SOME, "native", op)


@pytest.mark.parametrize("target", [name for name in targets() if name == "x86-64-v4"])
@pytest.mark.parametrize("op", WIDE, ids=name)
def test_wide_vectors_stay_inside_their_tensors(
    op: type[Op], target: str, safe_together: SafeTogether
) -> None:
    safe_together(WIDE, target, op)


@pytest.mark.full
@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("op", OPS, ids=name)
def test_every_operator_stays_inside_its_tensors(op: type[Op], target: str, tmp_path: Path) -> None:
    mine = chosen(op, target, 8)
    require_safe(mine, watched(mine, target, 150, tmp_path))


def check_networks(seeds: Sequence[int], folder: Path) -> None:
    """Fails where a random network leaves its tensors at its own sizes, or at others."""
    programs, inputs, rng = [], [], np.random.default_rng(seeds[0])
    for seed in seeds:
        network = random_network(seed)
        try:
            programs.append(lower_graph(network.graph, Target.resolve("native"), 2))
        except (UnsupportedOperatorError, UnknownRank):
            continue  # a part runs in the interpreter
        own = [dict(one) for one in network.feeds]
        inputs.append([*own, *(disturbed(one, rng) for one in own for _ in range(4))])
    assert programs
    jobs = [Job(model, runs) for model, runs in zip(build_sanitized(programs, folder), inputs)]
    run_sanitized(jobs)
    found = [message for job in jobs for message in faults(None, job)]
    assert not found, f"{len(found)} runs:\n" + "\n".join(found[:6])


def disturbed(inputs: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of which some have another size, or elements of another range."""
    result = dict(inputs)
    for key, x in inputs.items():
        if rng.random() < 0.4 and x.ndim:
            shape = list(x.shape)
            shape[rng.integers(x.ndim)] = int(rng.choice([0, 1, 2, 5, 17]))
            result[key] = np.resize(x, shape) if x.size else np.zeros(shape, x.dtype)
        elif rng.random() < 0.4 and x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            result[key] = rng.choice([limits.min, limits.max, 0, 1, 7], x.shape).astype(x.dtype)
    return result


def test_random_networks_stay_inside_their_tensors(tmp_path: Path) -> None:
    check_networks(range(8), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("first", range(10, 10 + NETWORKS, PART))
def test_many_random_networks_stay_inside_their_tensors(first: int, tmp_path: Path) -> None:
    check_networks(range(first, first + PART), tmp_path)


def overrun() -> Graph:
    """A gather whose result is twice as long as its program says."""
    graph = Graph("overrun")
    x = graph.add_input("x", tensor(dtypes.float32, dims.symbol("n")))
    node = graph.add_node(
        Node(ops.REGISTRY["", "Neg"](), [x], [Value(TensorType(dtypes.float32, None))])
    )
    node.op.infer_node(node)
    last = graph.add_node(
        Node(ops.REGISTRY["", "Exp"](), [node.output], [Value(TensorType(dtypes.float32, None))])
    )
    last.op.infer_node(last)
    graph.add_output(last.output, "y")
    return graph


def test_the_sanitizer_sees_a_kernel_that_leaves_its_tensor(tmp_path: Path) -> None:
    program = lower_graph(overrun(), Target.resolve("native"), 2)
    program.outputs[0] = (*program.outputs[0][:2], (dims.symbol("n") - 1,))
    job = Job(*build_sanitized([program], tmp_path), [{"x": np.ones(17, np.float32)}])
    run_sanitized([job])
    assert "heap-buffer-overflow" in job.outcomes[0].report


def test_a_process_that_ends_is_told_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import sanitizing

    programs = [lower_graph(overrun(), Target.resolve("native"), 2) for _ in range(2)]
    inputs = [
        {"x": np.ones(3, np.float32)},
        {"y": np.ones(3, np.float32)},
        {"x": np.ones(5, np.float32)},
    ]
    jobs = [Job(model, inputs) for model in build_sanitized(programs, tmp_path)]
    run_sanitized(jobs)
    for job in jobs:
        assert [outcome.outputs is not None for outcome in job.outcomes] == [True, False, True]
        assert "KeyError" in job.outcomes[1].report
    monkeypatch.setattr(sanitizing.shutil, "which", lambda _: None)
    with pytest.raises(InfuseError):
        sanitizing.compiler()


@pytest.mark.parametrize(
    "target", ["native", *(pytest.param(n, marks=pytest.mark.full) for n in targets(())[1:])]
)
def test_joined_parts_and_stored_weights_stay_inside_their_tensors(
    target: str, tmp_path: Path
) -> None:
    """Kernels that read images whose pixels lie apart, and recurrent layers of 8 bits."""
    rng = np.random.default_rng(3)
    made = [MODELS[name].make("n", "side") for name in ("odd_chain", "skip", "halves", "rows")]
    layers = [recurrent(kind, steps="n", batch="side", hidden=21) for kind in ("LSTM", "GRU")]
    builders = [*made, *layers]
    programs = [lower_graph(b.graph, Target.resolve(target), 2) for b in builders]
    jobs = []
    for b, model in zip(builders, build_sanitized(programs, tmp_path, target)):
        own = [b.feeds({"n": n, "side": side}) for n, side in ((1, 10), (3, 6), (2, 13))]
        jobs.append(Job(model, [*own, *(disturbed(one, rng) for one in own for _ in range(3))]))
    run_sanitized(jobs)
    found = [message for job in jobs for message in faults(None, job)]
    assert not found, f"{len(found)} runs:\n" + "\n".join(found[:6])
    assert all(job.outcomes[0].outputs is not None for job in jobs)
