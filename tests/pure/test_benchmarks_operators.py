"""The benchmark of single operators: its models are what they say, and turns are taken in pairs."""

import numpy as np
import pytest

import infuse
from benchmarks.operator_cases import GROUPS, Case
from benchmarks.operators import Figure, measure, turns


@pytest.mark.parametrize("family", GROUPS)
def test_every_family_has_several_shapes(family: str) -> None:
    cases = list(GROUPS[family]())
    assert len({case.label for case in cases if case.operator == cases[0].operator}) >= 3
    for case in cases:
        graph = infuse.load(case.model)
        assert {v.name: (v.dtype.numpy, v.shape) for v in graph.inputs} == {
            name: (x.dtype, x.shape) for name, x in case.feeds.items()
        }
        assert [node.kind for node in graph.nodes] == [case.operator]


def test_turns_alternate_and_the_fastest_counts() -> None:
    calls: list[str] = []
    found = turns([lambda: calls.append("a"), lambda: [calls.append("b") for _ in range(3)]], 0.02)
    assert 0 < found[0] < found[1] < 0.01
    assert "ab" in "".join(calls)
    assert "ba" in "".join(calls)


def test_wrong_results_have_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, peer = ({"y": np.float32([1, x])} for x in (2, 3))
    monkeypatch.setattr(
        "benchmarks.operators.engines", lambda case, compiled: (lambda: ours, lambda: peer, 0)
    )
    case: Case = next(GROUPS["CumSum"]())
    with pytest.raises(AssertionError, match="apart"):
        measure("CumSum", case, 0.01)


def test_a_speedup_above_one_is_ours() -> None:
    assert Figure("f", "Op", "shape", 2.0, 5.0, 0.0, 0).speedup == 2.5
