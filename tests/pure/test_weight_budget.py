"""Which calls store transformed weights, where all together have a budget."""

from collections.abc import Sequence

import numpy as np
import pytest

from infuse.build.collecting import collected
from infuse.build.compile import Compilation
from infuse.build.staged import Stages, lower_graph
from infuse.ir.graph import Graph
from infuse.lowering.choice import Choice, Chooser, Key, PackedWeights
from infuse.lowering.emitter import emitter_of
from infuse.lowering.metadata import limited_kernels
from infuse.lowering.weight_budget import (
    FREE,
    PART,
    budgeted,
    choices_in,
    limits_within,
    most_bytes,
)
from infuse.lowering.weights import constant_bytes
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder

NAMES = ("taps", "winograd2", "winograd4")
BYTES = (9, 16, 36)


def call(
    source: bytes,
    seconds: Sequence[float],
    size: int = 100,
    times: dict[str, float] | None = None,
    names: Sequence[str] = NAMES,
) -> Choice:
    """A call with constant weights that takes so long, by form."""
    costs = dict(zip(names, seconds, strict=True))
    stored = {name: BYTES[NAMES.index(name)] * size for name in names}
    known = times or {}
    chosen = min(known or costs, key=(known or costs).__getitem__)
    by = "measured" if known else "model"
    packed = PackedWeights(source, stored)
    return Choice(Key("conv", (), tuple(names)), costs, chosen, by, known, packed)


def taken(calls: Sequence[Choice], most: int) -> tuple[list[str], int]:
    """What a limited chooser would take for each call, and the bytes of all."""
    total = bytes_of(calls, [choice.chosen for choice in calls])
    limits = limits_within(calls, total, most)
    names = []
    for choice in calls:
        assert choice.packed is not None
        names.append(choice.within(limits.get(choice.packed.source, 1 << 40)).chosen)
    return names, bytes_of(calls, names)


def bytes_of(calls: Sequence[Choice], names: Sequence[str]) -> int:
    stored = {
        (choice.packed.source, choice.packed.bytes[name])
        for choice, name in zip(calls, names, strict=True)
        if choice.packed is not None
    }
    return sum(size for _, size in stored)


# -- which steps -----------------------------------------------------------------------------------


def test_the_steps_that_lose_least_for_a_byte_come_first() -> None:
    dear, cheap = call(b"a", (9.0, 5.0, 1.0)), call(b"b", (3.0, 2.0, 1.0))
    assert taken([dear, cheap], 7200) == (["winograd4", "winograd4"], 7200)
    assert taken([dear, cheap], 7199) == (["winograd4", "winograd2"], 5200)
    assert taken([dear, cheap], 5199) == (["winograd4", "taps"], 4500)
    assert taken([dear, cheap], 4499) == (["winograd2", "winograd2"], 3200)
    assert taken([dear, cheap], 3199) == (["winograd2", "taps"], 2500)
    assert taken([dear, cheap], 1800) == (["taps", "taps"], 1800)
    assert taken([dear, cheap], 0) == (["taps", "taps"], 1800)


def test_a_form_is_passed_over_that_loses_more_than_a_smaller_one() -> None:
    assert taken([call(b"a", (1.2, 2.0, 1.0))], 3599) == (["taps"], 900)


def test_a_step_that_a_later_one_makes_needless_is_taken_back() -> None:
    small, large = call(b"a", (1.1, 1.05, 1.0), size=1), call(b"b", (90.0, 30.0, 1.0))
    assert taken([small, large], 3616) == (["winograd2", "winograd4"], 3616)
    assert taken([small, large], 1640) == (["winograd4", "winograd2"], 1636)
    assert taken([small, large], 1620) == (["winograd2", "winograd2"], 1616)


def test_equal_weights_are_counted_once() -> None:
    twice = [call(b"a", (2.0, 1.5, 1.0)), call(b"a", (9.0, 1.5, 2.0))]
    assert [choice.chosen for choice in twice] == ["winograd4", "winograd2"]
    assert taken(twice, 5200) == (["winograd4", "winograd2"], 5200)
    assert taken(twice, 5199) == (["winograd2", "winograd2"], 1600)


def test_measured_times_scale_the_costs_of_what_was_not_measured() -> None:
    times = {"winograd2": 4.0, "winograd4": 2.0}
    choice = call(b"a", (4.0, 1.0, 1.0), times=times)
    assert [choice.seconds(name) for name in NAMES] == [8.0, 4.0, 2.0]


def test_equal_calls_are_limited_in_their_order_and_always_alike() -> None:
    calls = [call(bytes([n]), (2.0, 1.5, 1.0)) for n in range(8)]
    names, total = taken(calls, 20000)
    assert total <= 20000
    assert names == sorted(names)
    assert (names, total) == taken(calls, 20000)


@pytest.mark.parametrize("seed", range(20))
def test_random_calls_keep_every_budget_that_can_be_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = [
        call(bytes([int(rng.integers(12))]), rng.uniform(1, 9, 3).tolist(), 1 + n % 7)
        for n in range(16)
    ]
    least = taken(calls, 0)[1]
    for most in rng.integers(least, 4 * least, 10).tolist():
        assert taken(calls, most)[1] <= most


# -- of a graph ------------------------------------------------------------------------------------


def network(channels: int = 256, layers: int = 3, pixels: int = 28) -> Graph:
    rng = np.random.default_rng(0)
    build = Builder()
    x = build.input(1, channels, pixels, pixels)
    for _ in range(layers):
        filters = rng.standard_normal((channels, channels, 3, 3)).astype(np.float32)
        x = build("Relu", build("Conv", x, filters / 24, pads=(1, 1, 1, 1)))
    build.output(x)
    return build.graph


def staged(graph: Graph, target: str, weights: str, precision: str = "fp32") -> Stages:
    options = CompileOptions(target, 1, precision, weights=weights)
    return Compilation(graph, options).stages()


TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_balanced_weights_keep_the_budget(target: str, precision: str) -> None:
    graph = network()
    fast, balanced, small = (
        staged(graph, target, name, precision) for name in ("fast", "balanced", "small")
    )
    halves = precision == "fp16"
    most = most_bytes(graph, halves=halves)
    assert most == int(PART * constant_bytes(graph)) // (2 if halves else 1)
    assert small.weights_bytes < balanced.weights_bytes <= most < fast.weights_bytes


def test_what_calls_store_is_what_the_program_stores() -> None:
    for target, precision in (("x86-64-v3", "fp32"), ("x86-64-v3", "fp16"), ("aarch64", "fp32")):
        stages = staged(network(), target, "fast", precision)
        stored = [
            c.packed.bytes[c.chosen] for c in choices_in(stages.programs) if c.packed is not None
        ]
        assert sum(stored) == stages.weights_bytes


@pytest.mark.parametrize(
    ("target", "precision"),
    [
        ("x86-64-v4+avx512_bf16", "bf16"),
        ("x86-64-v4+avx512_bf16+amx_tile+amx_bf16", "bf16"),
        ("x86-64-v4+avx512_bf16+amx_tile+amx_bf16", "bf16x2"),
    ],
)
def test_each_form_stores_what_it_says(target: str, precision: str) -> None:
    graph, resolved = network(layers=1, channels=48), Target.resolve(target)
    options = CompileOptions(target, 1, precision, weights="fast")
    chosen = choices_in(Compilation(graph, options).stages().programs)
    (choice,) = (c for c in chosen if c.packed is not None)
    assert choice.packed is not None
    for name in choice.key.names:
        chooser = Chooser(resolved.machine, forced=lambda _, name=name: name)
        assert lowered_bytes(graph, resolved, precision, chooser) == choice.packed.bytes[name], name


def lowered_bytes(graph: Graph, target: Target, precision: str, chooser: Chooser) -> int:
    return lower_graph(graph, target, 1, precision, chooser).weights.bytes


def test_small_models_have_room_that_is_worth_no_time() -> None:
    graph = network(channels=32, layers=1)
    assert most_bytes(graph) == constant_bytes(graph) + FREE
    fast, balanced = (staged(graph, "x86-64-v3", name) for name in ("fast", "balanced"))
    assert balanced.weights_bytes == fast.weights_bytes > PART * constant_bytes(graph)


def test_halves_count_as_the_floats_that_kernels_read() -> None:
    build = Builder()
    x = build.input(1, 512)
    build.output(build("MatMul", x, build("Cast", np.ones((512, 4096), np.float16), to=1)))
    assert most_bytes(build.graph) >= int(PART * 4 * 512 * 4096)


def test_what_was_left_out_is_listed() -> None:
    graph = network()
    stages = staged(graph, "aarch64", "balanced")
    limited = [choice for choice in choices_in(stages.programs) if choice.by == "budget"]
    assert limited
    listed = {
        name: own for program in stages.programs for name, own in limited_kernels(program).items()
    }
    assert len(listed) == len(limited)
    for choice, own in zip(limited, listed.values(), strict=True):
        assert own == {"chosen": choice.chosen, "fastest": choice.fastest}
        told = choice.to_dict()
        assert (told["by"], told["fastest"]) == ("budget", choice.fastest)
        sizes = {name: each["weights_bytes"] for name, each in told["candidates"].items()}
        assert sizes[choice.chosen] < sizes[str(choice.fastest)]
    again, fast = (choices_in(staged(graph, "aarch64", w).programs) for w in ("balanced", "fast"))
    assert [c.chosen for c in again] == [c.chosen for c in choices_in(stages.programs)]
    assert not any(choice.by == "budget" for choice in fast)


def test_where_nothing_can_be_stored_smaller_nothing_is_lowered_again() -> None:
    build, target = Builder(), Target.resolve("x86-64-v3")
    build.output(build("MatMul", build.input(1, 512), build.weight(512, 512)))
    chooser = Chooser(target.machine)
    program = lower_graph(build.graph, target, chooser=chooser)
    assert budgeted(chooser, [program], 1) is chooser


def test_libraries_have_the_kernels_of_fast_and_of_balanced_weights() -> None:
    graph, target = network(), Target.resolve("x86-64-v3")
    names = set(collected(target, (), [graph]).names)
    for weights in ("fast", "balanced"):
        options = CompileOptions(target.name, 1, weights=weights)
        (part,) = Compilation(graph, options, closed=True).stages().parts
        assert isinstance(part, tuple)
        own = emitter_of(target.machine).closed()
        own.add(*part, usual=True)
        assert set(own.names) <= names, weights
