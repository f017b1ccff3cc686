from __future__ import annotations

import pickle

import pytest

from infuse import errors
from infuse.errors import InfuseError, ShapeError, did_you_mean

LEAVES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, InfuseError)
]


def test_every_kind_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in LEAVES]
    assert len(set(codes)) == len(codes)
    assert all(kind.__doc__ and kind.code.startswith("INF-") for kind in LEAVES)


def test_message_is_one_paragraph_with_place_fault_and_advice() -> None:
    error = ShapeError("the kernel has 3 axes", where="node 'conv1'", hint="use 4 axes")
    assert str(error) == "[INF-202] node 'conv1': the kernel has 3 axes. Hint: use 4 axes."
    assert str(ShapeError("is this one?")) == "[INF-202] is this one?"


def test_outer_places_are_added_in_front() -> None:
    error = ShapeError("the kernel has 3 axes")
    error.within("node 'conv1'")
    error.within("net.onnx")
    assert str(error) == "[INF-202] net.onnx: node 'conv1': the kernel has 3 axes."


def test_a_message_has_one_code() -> None:
    inner = ShapeError("the kernel has 3 axes", where="node 'conv1'")
    outer = errors.RuleError(f"it failed: {inner}", where="pass Mine")
    assert str(outer) == "[INF-301] pass Mine: it failed: node 'conv1': the kernel has 3 axes."


@pytest.mark.parametrize("kind", LEAVES)
def test_errors_cross_process_borders(kind: type[InfuseError]) -> None:
    error = kind("what", where="where", hint="hint")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sofmax", "did you mean 'Softmax'?"),
        ("SOFTMAX", "did you mean 'Softmax'?"),
        ("xyz", "no such operator"),
        ("s" * 300, "no such operator"),
    ],
)
def test_a_hint_names_what_is_most_alike(name: str, hint: str) -> None:
    assert did_you_mean(name, ["Relu", "Softmax", ""], otherwise="no such operator") == hint


def test_a_hint_may_ask_for_more_likeness() -> None:
    assert did_you_mean("sofmax", ["Softmax"], likeness=0.95) == ""
