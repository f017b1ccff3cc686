"""Memory of causal attention, of windows and of caches grows with the length, not with its
square.
"""

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate
from tests.spellings.attention import CACHES, CAUSAL, TRIANGLES, WINDOWS
from tests.spellings.form import Form

pytestmark = pytest.mark.row("G33")
SHORT, LONG = 64, 512


def feeds(form: Form, length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of a form for sequences of this length."""
    return {
        name: rng.standard_normal((2, 4, 16 if name.startswith("p") else length, 8), np.float32)
        for name in form.feeds()
    }


@pytest.mark.parametrize(
    "form", [CAUSAL[0], CAUSAL[2], CAUSAL[5], WINDOWS[0], WINDOWS[2], *CACHES[:2]], ids=str
)
def test_memory_grows_with_the_length(form: Form, rng: np.random.Generator) -> None:
    original = infuse.load(form.model().SerializeToString())
    with (
        infuse.compile(form.optimized(), infuse.CompileOptions(threads=1)) as model,
        model.session() as session,
    ):
        arena = []
        for length in (SHORT, LONG):
            inputs = feeds(form, length, rng)
            (result,) = session.run(inputs).values()
            expected = evaluate(original, inputs)["y"]
            np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)
            arena.append(session.arena_bytes)
    assert arena[1] <= arena[0] * (LONG // SHORT) * 1.25


@pytest.mark.parametrize("form", TRIANGLES, ids=str)
def test_a_triangle_ends_where_it_did(form: Form, rng: np.random.Generator) -> None:
    """A mask of 64 rows serves 64 keys: as many compute the same, more are an error as before."""
    original = infuse.load(form.model().SerializeToString())
    optimized = form.optimized()
    past = sum(name == "pk" for name in form.feeds()) * 16
    inputs, longer = (feeds(form, length - past, rng) for length in (64, 65))
    expected = evaluate(original, inputs)["y"]
    with infuse.compile(optimized, infuse.CompileOptions(threads=1)) as model:
        for result in (evaluate(optimized, inputs)["y"], model.run(inputs)["y"]):
            np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)
        for run in (
            lambda: evaluate(original, longer),
            lambda: evaluate(optimized, longer),
            lambda: model.run(longer),
        ):
            with pytest.raises(InfuseError):
                run()
