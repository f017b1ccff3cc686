"""Kernels that compute the same: every one of them is right, and the cost model chooses among
them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from infuse.build.compile import Compilation
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.lowering import choice as choices
from infuse.lowering.choice import Chooser, Key
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime import CompiledModel
from infuse.targets import Machine, Target
from infuse.targets.cpu.costs import cost_model as costs
from infuse.targets.cpu.families import work
from infuse.targets.cpu.families.winograd import AS_MANY_POINTS
from infuse.targets.machine import USUAL
from tests.models.tuning_tools import Arrays, agree, answers, chosen_in, feeds_of
from tests.native.builder import Builder
from tests.native.choice_graphs import GRAPHS, REPEATS, conv, repeat
from tests.native.kernel_tools import has_target, seldom, targets
from tests.support.emulation import NARROW_DOTS, NEWEST, resolve

__all__ = ["answers"]
NATIVE = Target.resolve("native")
ROUNDED = has_target(NEWEST)
PRECISIONS = ["fp32", *(["bf16", "bf16x2"] if ROUNDED else [])]


def in_turn() -> Callable[[Key], str]:
    """Forces choices of one key to one candidate after the other."""
    seen: Counter[str] = Counter()

    def pick(key: Key) -> str:
        seen[str(key)] += 1
        return key.names[(seen[str(key)] - 1) % len(key.names)]

    return pick


def settings() -> list[Any]:
    """Targets, precisions and threads under which kernels differ."""
    found: list[Any] = [(name, "fp32", threads) for name, threads in zip(targets(), (2, 1, 1, 1))]
    found[2:] = [pytest.param(*last, marks=pytest.mark.full) for last in found[2:]]
    return [
        *found,
        *(
            pytest.param(*name.values, precision, 2, marks=name.marks)
            for name in seldom(NEWEST)
            for precision in ("bf16", "bf16x2")
        ),
        *(pytest.param(*name.values, "bf16", 2, marks=name.marks) for name in seldom(NARROW_DOTS)),
    ]


# -- every candidate is right ----------------------------------------------------------------------


@pytest.mark.row("R1", "R2")
@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("target", "precision", "threads"), settings())
def test_every_candidate_computes_what_onnxruntime_does(
    make: Callable[[], Graph],
    target: str,
    precision: str,
    threads: int,
    answers: Callable[[Graph], Arrays],
) -> None:
    graph, resolved = make(), resolve(target)
    chooser = Chooser(resolved.machine, threads, forced=in_turn())
    generated = generate(graph, resolved, threads, precision, chooser)
    made = chosen_in(generated[0])
    times = Counter(str(choice.key) for choice in made)
    layers = [choice for choice in made if times[str(choice.key)] >= REPEATS]
    tried = {(str(choice.key), choice.chosen) for choice in layers}
    assert tried == {(str(choice.key), name) for choice in layers for name in choice.key.names}
    assert layers or precision == "fp32" or not resolved.machine.tiled
    options = CompileOptions(target, threads, precision)
    with CompiledModel.load(Compilation(graph, options).build(generated), threads) as model:
        agree(model.run(feeds_of(graph)), answers(graph), precision)


def test_each_limit_of_bytes_leads_to_what_onnxruntime_computes(
    answers: Callable[[Graph], Arrays],
) -> None:
    b = Builder("limited")
    x = b("Transpose", b.input(1, 20, 24, 64), perm=(0, 3, 1, 2))
    b.output(b("Conv", x, b.weight(48, 64, 3, 3), pads=(1, 1, 1, 1)))
    plain = Chooser(NATIVE.machine, 1)
    (choice,) = chosen_in(generate(b.graph, NATIVE, 1, "fp32", plain)[0])
    assert choice.packed is not None
    stored, taken = choice.packed.bytes, set()
    assert len(set(stored.values())) == 3
    for limit in stored.values():
        chooser = plain.limited({choice.packed.source: limit})
        generated = generate(b.graph, NATIVE, 1, "fp32", chooser)
        assert generated[0].weights.bytes <= limit
        taken.add(chosen_in(generated[0])[0].chosen)
        folder = Compilation(b.graph, CompileOptions(threads=1)).build(generated)
        with CompiledModel.load(folder, 1) as model:
            agree(model.run(feeds_of(b.graph)), answers(b.graph), "fp32")
    assert min(stored, key=stored.__getitem__) in taken
    assert len(taken) > 1


def test_no_candidate_loses_a_nan_and_few_spread_it() -> None:
    """What is NaN beside NaN and infinities in the interpreter is so for each candidate; Winograd
    gives NaN at most 6 pixels further, and groups that are merged in channels beside.
    """
    b = Builder("spread")
    x = b("Transpose", b.input(1, 12, 12, 16), perm=(0, 3, 1, 2))
    for group in (1, 4):
        repeat(b, partial(conv, b, x, 16, (3, 3), group=group))
    chooser = Chooser(NATIVE.machine, 1, forced=in_turn())
    generated = generate(b.graph, NATIVE, 1, "fp32", chooser)
    forms = [choice.chosen for choice in chosen_in(generated[0])]
    image = np.random.default_rng(0).standard_normal((1, 12, 12, 16), np.float32)
    image[0, 2, 3, 5], image[0, 2, 3, 9] = np.nan, np.inf
    feeds = {b.graph.inputs[0].name: image}
    folder = Compilation(b.graph, CompileOptions(threads=1)).build(generated)
    with CompiledModel.load(folder, 1) as model:
        found = list(model.run(feeds).values())
    assert len(forms) == len(found) == 2 * REPEATS
    assert {form[:5] for form in forms} >= {"taps", "winog", "merge"}
    for form, y, right in zip(forms, found, evaluate(b.graph, feeds).values()):
        lost, more = np.isnan(right) & ~np.isnan(y), np.isnan(y) & ~np.isnan(right)
        assert not lost.any(), form
        assert not more.any() or form.startswith(("winograd", "merged")), form
        assert not more[..., 9:, :].any(), form
        assert not more[..., 10:].any(), form


def test_the_graphs_offer_every_candidate_that_the_cost_model_knows() -> None:
    settings = [(resolve(NEWEST) if ROUNDED else NATIVE, precision) for precision in PRECISIONS]
    if ROUNDED:
        settings.append((resolve(NARROW_DOTS), "bf16"))
    found = set()
    for make, (target, precision) in itertools.product(GRAPHS, settings):
        program, _ = generate(make(), target, 1, precision)
        found |= {(c.key.family, name) for c in chosen_in(program) for name in c.key.names}
    chosen = [family for family in work.families() if family not in ("planes", "turned")]
    known = {(family, name) for family in chosen for name in work.candidates(family)}
    if not ROUNDED:
        known = {
            (family, name)
            for family, name in known
            if family not in ("gemm", "matmul") and "bf16" not in name
        }
    assert found == known


# -- choosing --------------------------------------------------------------------------------------

MACHINES = [
    *(
        Machine.of("x86_64", frozenset(features), USUAL)
        for features in ((), ("avx",), ("avx", "avx512f"))
    ),
    Machine.of("aarch64", frozenset(), USUAL),
]
WIDE = MACHINES[2]
SQUARE = (1, 28, 28, 128, 28, 28, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 128)
EVEN = (*SQUARE[:7], 2, 2, *SQUARE[9:])
"""A window of two numbers, which have tiles of their own."""
FORMS = ("taps", "winograd2", "winograd4")


def test_the_cost_model_chooses_what_costs_least_and_is_the_same_everywhere() -> None:
    choice = Chooser(WIDE, 2).choose("conv", SQUARE, FORMS)
    assert choice.by == "model"
    assert choice.chosen == min(choice.costs, key=choice.costs.__getitem__)
    assert choice.costs == Chooser(WIDE, 2).choose("conv", SQUARE, FORMS).costs
    assert choice.close(math.inf) == list(FORMS)
    assert choice.close(1.0) == [choice.chosen]


def test_every_candidate_has_weights_for_every_width() -> None:
    sizes = {
        "conv": SQUARE,
        "depthwise": SQUARE[:6] + SQUARE[7:15],
        "gemm": (8, 64, 64),
        "matmul": (2, 8, 64, 64),
        "attention": (1, 2, 8, 8, 32, 32),
        "sparse": (8, 64, 64, 40),
        "sparse_integer": (8, 64, 16, 10),
        "planes": SQUARE,
        "turned": (5000,),
    }
    assert set(sizes) == set(work.families())
    for family, known in sizes.items():
        for name in work.candidates(family):
            for machine in MACHINES:
                for threads in (1, 2, 64):
                    own = EVEN if name in AS_MANY_POINTS else known
                    seconds = costs.predict(family, name, own, machine, threads)
                    assert 0 < seconds < 1, (family, name, machine)


@pytest.mark.parametrize(("times", "chosen", "by"), [
    ({"taps": 3.0, "winograd2": 1.0, "winograd4": 2.0}, "winograd2", "measured"),
    ({"taps": 1.0, "winograd2": 3.0}, "taps", "measured"),
    ({"winograd2": 1.0}, None, "model"),
    ({}, None, "model"),
])  # fmt: skip
def test_measured_times_decide(times: dict[str, float], chosen: str | None, by: str) -> None:
    plain = Chooser(WIDE, 1).choose("conv", SQUARE, FORMS)
    choice = Chooser(WIDE, 1, {str(plain.key): times}).choose("conv", SQUARE, FORMS)
    assert (choice.chosen, choice.by) == (chosen or plain.chosen, by)
    other = Chooser(WIDE, 1, {str(plain.key): times}).choose("conv", SQUARE, FORMS[:2])
    assert other.by == "model", "it has other candidates"


def test_of_nearly_equal_times_the_models_choice_stays() -> None:
    plain = Chooser(WIDE, 1).choose("conv", SQUARE, FORMS)
    others = [name for name in FORMS if name != plain.chosen]
    near = {plain.chosen: 1.0, others[0]: 0.99, others[1]: 2.0}
    assert (
        Chooser(WIDE, 1, {str(plain.key): near}).choose("conv", SQUARE, FORMS).chosen
        == plain.chosen
    )
    clear = near | {others[0]: choices.CLEAR - 0.01}
    assert (
        Chooser(WIDE, 1, {str(plain.key): clear}).choose("conv", SQUARE, FORMS).chosen == others[0]
    )
