"""Generated code of small models for several processors, as text: what a change of code generation
changes is seen.
"""

from collections.abc import Callable

import pytest

from infuse import optimize
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.lowering.metadata import metadata
from infuse.ops.core.sizes import numbering
from infuse.targets import Target
from infuse.targets.cpu.emit.source import print_sources
from tests.native import golden_models as models
from tests.native.builder import Builder

CASES: list[tuple[Callable[[], Graph], str, str, str]] = [
    (models.images, "x86-64-v3", "fp32", ""),
    (models.images, "x86-64-v4", "fp32", "images-x86-64-v3-fp32"),
    (models.images, "x86-64-v3", "fp16", "images-x86-64-v3-fp32"),
    (models.attention, "aarch64", "fp32", ""),
    (models.attention, "x86-64-v4+avx512_bf16", "bf16", "attention-aarch64-fp32"),
    (models.quantized, "x86-64-v3", "fp32", ""),
    (models.quantized, "x86-64-v4+avx512_vnni", "fp32", "quantized-x86-64-v3-fp32"),
    *(
        (one, "x86-64-v3", "fp32", "")
        for one in (models.recurrent, models.dependent, models.control, models.elementwise)
    ),
]
"""Models, targets, precisions, and the case that the text of another is written beside."""

pytestmark = pytest.mark.row("R1")


@pytest.mark.parametrize(
    ("model", "target", "precision", "base"),
    CASES,
    ids=["-".join((one.__name__, *names)) for one, *names, _ in CASES],
)
def test_generated_code(
    golden: Callable[..., None], model: Callable[[], Graph], target: str, precision: str, base: str
) -> None:
    with numbering(()):  # whatever was inferred before in this process
        graph = optimize(model(), "all")
    program, memory = generate(graph, Target.resolve(target), 2, precision)
    text = print_sources(program, memory, metadata(program, "0"))["model.cpp"]
    steps, _ = text.split("static inline void read_sizes")
    name = f"{model.__name__}-{target.replace('+', '-')}-{precision}.cpp"
    golden(name, steps, base and f"{base}.cpp")


def test_many_calls_are_functions_of_some() -> None:
    """What compilers need for one function grows with the square of its calls."""
    g = Builder()
    x = g.input(4)
    for number in range(1200):
        g.graph.add_output(g("Add", x, float(number)), f"y{number}")
    program, memory = generate(g.graph, Target.resolve("x86-64-v3"), 1)
    text = print_sources(program, memory, metadata(program, "0"))["model.cpp"]
    functions = text.split("\n}\n")
    assert len(program.steps) == sum(f.count("(*c, d, ") for f in functions) == 1200
    assert max(f.count("(*c, d, ") for f in functions) == 500
