"""Kernels of products of operands rounded to bfloat16, compiled for every width of vectors."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.native.kernel_tools import build, targets
from tests.support.emulation import NARROW_DOTS, NEWEST, resolve

DRIVER = Path(__file__).with_name("bf16_driver.cpp")


@pytest.fixture(scope="module", params=targets((NARROW_DOTS, NEWEST)))
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def library(target: str) -> ctypes.CDLL:
    return build(DRIVER, target)


@pytest.fixture(scope="module")
def tiled(target: str) -> bool:
    """Whether weights are packed in tiles."""
    return resolve(target).machine.has_bf16_tiles
