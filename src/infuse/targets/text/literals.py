"""Numbers of formulas as text."""

from __future__ import annotations

import math

import numpy as np

from infuse.dtypes import DType


def literal(value: float | int | bool, dtype: DType) -> str:
    """A number as a literal of this type; halves are floats while they are computed."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        number = int(value)
        text = (
            f"{number}{'u' if dtype.kind == 'u' else ''}LL"
            if number != -(2**63)
            else f"(-{2**63 - 1}LL - 1)"
        )
        return f"({dtype.c_name}){text}"
    if dtype.bits == 64:
        return _float_literal(float(value), "")
    return _float_literal(float(np.float32(value)), "f")


def _float_literal(number: float, suffix: str) -> str:
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    plain = abs(number) < 2**53 and number == round(number, 6)
    return f"{number!r}{suffix}" if plain else f"{number.hex()}{suffix}"
