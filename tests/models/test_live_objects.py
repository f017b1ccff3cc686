"""What a newcomer hands to `infuse.load` and `infuse.from_torch`: it works, or the error names the
call that does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

import infuse
from infuse.errors import InputError, OptionError

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Pair(torch.nn.Module):
    """Two arguments, two results, and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(
        self, words: torch.Tensor, mask: torch.Tensor, scale: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        return self.linear(words) * mask, words * scale


class Own(BaseEstimator):
    """An estimator of a user's class."""


class Layer:
    """What Keras' classes look like from outside."""


Layer.__module__, Layer.__qualname__ = "keras.src.models.functional", "Functional"


@pytest.mark.parametrize("verb", [infuse.load, infuse.compile, infuse.optimize])
@pytest.mark.parametrize(
    ("source", "call"),
    [
        (torch.nn.Linear(4, 3), r"infuse\.from_torch\(module, \(input,\)\)"),
        (Pair(), r"infuse\.from_torch\(module, \(words, mask\)\)"),
        (Pair, r"make one: Pair\(…\)"),
        (jax.jit(lambda x: x * 2), r"infuse\.from_jax\(function, \(x,\)\)"),
        (lambda a, b: a + b, r"infuse\.from_jax\(function, \(a, b\)\).*infuse\.trace\("),
        (Layer(), r"model\.save\('model\.keras'\)"),
        (Own(), "scikit-learn"),
        (LinearRegression, "make one"),
        (np.zeros(3), r"model\.run\(\{'x': array\}\)"),
        (torch.zeros(3), r"model\.run\(\{'x': array\}\)"),
        (jax.numpy.zeros(3), r"model\.run\(\{'x': array\}\)"),
        (3, "save it to a file"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else "",
)
def test_an_object_that_is_not_read_names_the_call(
    verb: Callable[..., Any], source: Any, call: str
) -> None:
    with pytest.raises(InputError, match=call):
        verb(source)


def test_a_program_of_torchscript_is_saved_first() -> None:
    program = torch.jit.script(torch.nn.Linear(4, 3).eval())
    for read in (infuse.load, lambda p: infuse.from_torch(p, torch.zeros(2, 4))):
        with pytest.raises(InputError, match=r"torch\.jit\.save.*infuse\.from_torchscript"):
            read(program)


def test_a_graph_is_its_own() -> None:
    graph = infuse.trace(lambda x: x + 1, {"x": infuse.Spec("float32", (2,))})
    assert infuse.load(graph) is graph
    with (
        infuse.compile(graph) as model,
        pytest.raises(InputError, match=r"run it: model\.run"),
    ):
        infuse.load(model)


def test_a_tensor_stands_for_a_tuple() -> None:
    module, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
    with infuse.compile(infuse.from_torch(module, x)) as model:
        np.testing.assert_allclose(model(x.numpy()), module(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"there are none.*from_torch\(module, \(words, mask\)\)"),
        ((torch.zeros(2, 4),), r"missing a required argument: 'mask'.*\(words, mask\)"),
        ((np.zeros((2, 4)), torch.ones(1)), r"numpy\.ndarray, not a tensor.*torch\.from_numpy"),
        ({"words": torch.zeros(2, 4)}, r"dict, not a tuple.*kwargs="),
        ("words", "str, not a tuple"),
    ],
)
def test_arguments_that_do_not_fit_name_the_call(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.compile(message, re.DOTALL)):
        infuse.from_torch(Pair().eval(), arguments)


def test_functions_of_jax_say_which_arguments_they_need() -> None:
    with pytest.raises(InputError, match=r"missing a required argument: 'b'.*\(a, b\)"):
        infuse.from_jax(lambda a, b: a + b, (np.zeros(3),))


def test_inputs_and_outputs_are_called_as_the_caller_says() -> None:
    module = Pair().eval()
    words, mask = torch.randn(2, 4), torch.ones(2, 1)
    graph = infuse.from_torch(
        module, (words, mask), input_names=["tokens"], output_names=["logits", "copy"]
    )
    assert {value.name for value in graph.inputs} == {"calls", "tokens", "mask"}
    assert graph.output_names == ["calls.out", "logits", "copy"]
    with infuse.compile(infuse.optimize(graph, fix_defaults=False)) as model:
        results = model.run({"tokens": words.numpy(), "mask": mask.numpy()})
    expected = module(words, mask)[0].detach()
    np.testing.assert_allclose(results["logits"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results["copy"], words)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"output_names": ["a", "b", "c"]}, "output_names has 3 names, and the module 2"),
        ({"input_names": ["a", "b", "c"]}, "input_names has 3 names, and the module 2"),
        ({"output_names": "logits"}, "output_names is a text"),
        ({"output_names": ["a", "a"]}, "called 'a'"),
        ({"output_names": ["words"]}, "called 'words'"),
    ],
)
def test_names_that_do_not_fit_are_refused(names: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        infuse.from_torch(Pair().eval(), (torch.zeros(2, 4), torch.ones(1)), **names)
