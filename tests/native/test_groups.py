"""Which nodes become one kernel."""

from typing import Any

import pytest

from infuse import dtypes
from infuse.ir.graph import Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import tensor
from infuse.lowering import groups
from infuse.targets.cpu.table import KERNELS, lowers

pytestmark = pytest.mark.row("C8")
MINE = "com.example.groups"


def node(domain: str) -> Node:
    made = Node(
        make_operator(domain, "Softmax", {}), [Value(tensor(dtypes.float32, 3))], [], name="n"
    )
    made.outputs.append(Value(tensor(dtypes.float32, 3)))
    return made


@pytest.fixture(autouse=True)
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KERNELS, "families", dict(KERNELS.families))


def lower(low: Any, node: Node, group: groups.Group) -> None:
    raise AssertionError


def test_a_kernel_of_another_domain_is_another_kernel() -> None:
    assert KERNELS.has_epilogue(node(""))
    assert not KERNELS.has_epilogue(node(MINE))
    lowers("Softmax", domain=MINE)(lower)
    assert KERNELS.has_epilogue(node(""))
    assert not KERNELS.has_epilogue(node(MINE))
    lowers("Softmax", domain=MINE, has_epilogue=True)(lower)
    assert KERNELS.has_epilogue(node(MINE))


def test_what_is_registered_last_counts() -> None:
    lowers("Softmax", runtime_inputs=(0,))(lower)
    assert not KERNELS.has_epilogue(node(""))
    assert KERNELS.of(node("")).runtime_inputs == (0,)
    lowers("Softmax", has_epilogue=True)(lower)
    assert KERNELS.has_epilogue(node(""))
    assert KERNELS.of(node("")).runtime_inputs is None
