"""Functions of JAX on special values: a part of `python -m benchmarks.jax_values`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
from benchmarks.jax_values import cases, difference

PART = {name: (function, args) for name, function, args in list(cases())[::4]}


@pytest.mark.parametrize("name", list(PART))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(name: str) -> None:
    function: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    function, args = PART[name]
    assert not difference(function, args)
