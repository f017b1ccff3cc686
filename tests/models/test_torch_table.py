"""Operators of torch's own table on special values, beside torch: a part of
`python -m benchmarks.torch_operators --special`.
"""

import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

OPERATORS = (
    *("add", "div", "floor_divide", "remainder", "fmod", "atan2", "hypot", "copysign", "maximum"),
    *("sign", "trunc", "frac", "round", "sgn", "nan_to_num", "amax", "sum", "prod", "std", "all"),
)
UNLIKE = {
    "aten.fmod.Tensor": "torch's vectors lose divisors that are subnormal",
    "aten.remainder.Tensor": "torch's vectors lose divisors that are subnormal",
    "aten.std.correction": "torch adds squares of float32 in float64",
    "aten.std.dim": "torch adds squares of float32 in float64",
}
"""What differs for float32, and why."""


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_take_special_values(name: str) -> None:
    pytest.importorskip("expecttest", reason="torch's own tests need it")
    from torch.testing._internal.common_methods_invocations import op_db

    from benchmarks.torch_calls import checked
    from benchmarks.torch_special import special_calls

    operators = [op for op in op_db if op.name == name]
    types = [torch.float32, torch.float64, torch.int8, torch.int64]
    count = 0
    for call in special_calls(operators, types):
        narrow = any(isinstance(x, torch.Tensor) and x.dtype == torch.float32 for x in call.args)
        why = checked(call)
        count += not why
        assert not why or (narrow and call.overload in UNLIKE), f"{call.signature}: {why}"
    assert count
