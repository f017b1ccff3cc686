"""The benchmark that looks for kernels that fall off: its cases, and which of them count."""

import pytest

import infuse
from benchmarks.chain_cases import CHAINS
from benchmarks.cliff_cases import GROUPS
from benchmarks.cliffs import FLOOR, cases, counts
from benchmarks.operators import Figure


@pytest.mark.parametrize("group", GROUPS)
def test_cases_of_a_group_are_models_of_one_operator(group: str) -> None:
    cases = list(GROUPS[group]())
    labels = [(case.operator, case.label) for case in cases]
    assert len(set(labels)) == len(labels) >= 9
    for case in cases[:: max(1, len(cases) // 8)]:
        graph = infuse.load(case.model)
        assert [node.kind for node in graph.nodes] == [case.operator]
        assert {v.name: v.shape for v in graph.inputs} == {
            name: x.shape for name, x in case.feeds.items()
        }


def test_there_are_enough_of_them() -> None:
    assert sum(len(list(group())) for group in GROUPS.values()) >= 600


def test_chains_double_them() -> None:
    singles = sum(len(list(group())) for group in GROUPS.values())
    assert singles + sum(len(list(group())) for group in CHAINS.values()) >= 2400


def test_a_sample_is_the_beginning_of_one_order() -> None:
    labels = [[c.label for _, c in cases(["gather"], 0, count)] for count in (3, 9)]
    assert labels[0] == labels[1][:3]
    assert labels[1] != [c.label for _, c in cases(["gather"], 1, 9)]


def test_calls_that_only_show_what_python_costs_do_not_count() -> None:
    def figure(ours: float, its: float) -> Figure:
        return Figure("pools", "MaxPool", "", ours, its, 0.0, 0)

    assert not counts(figure(FLOOR / 2, FLOOR / 3))
    assert counts(figure(FLOOR / 2, FLOOR * 2))
    assert counts(figure(FLOOR * 2, FLOOR / 2))
