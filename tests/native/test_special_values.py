"""Every operator of the table on NaN, zeros of both signs, infinities, subnormal and largest
numbers, limits of integers, empty axes and axes of one element: native code gives what the
interpreter does.

`python -m benchmarks.special_values` does so with more values and in all floating types.
"""

import pytest

from tests.native.op_cases import GROUPS
from tests.native.special_cases import sweep

pytestmark = pytest.mark.row("C1")


@pytest.mark.parametrize("group", GROUPS)
def test_native_code_is_as_the_interpreter(group: str) -> None:
    messages = sweep(group)
    assert not messages, f"{len(messages)} differ:\n" + "\n".join(messages[:20])
