"""Expressions of TorchScript against torch, one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.models.torchscript_cases import EXPRESSIONS, LETTERS
from tests.models.torchscript_tools import difference, module_from

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
ALLOWED = 2e-5


def module_of(expression: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """A module that computes an expression, and its inputs."""
    plain = re.sub(r"'[^']*'", "", expression)
    used = [n for n in LETTERS if re.search(rf"(?<![\w.]){n}(?!\w)", plain)]
    return module_from(f"return {expression}", used), {name: LETTERS[name] for name in used}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_what_torch_computes(expression: str) -> None:
    module, inputs = module_of(expression)
    assert difference(module, inputs) < ALLOWED
