"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.items import Complex
from infuse.tracing.semantics import spectral


def _lengths(call: FlowCall, axes: int) -> list[Value]:
    listed = call.list_of(1)
    return [call.g("Gather", listed, call.g.constant(np.array(i))) for i in range(axes)]


def _whole(axes: int, inverse: int) -> Callable[[FlowCall], Complex]:
    return lambda call: Complex(
        spectral.complex_transform(call.g, call.parts(0), axes, inverse=inverse)
    )


def _real(axes: int) -> Callable[[FlowCall], Complex]:
    return lambda call: Complex(spectral.real_transform(call.g, call.raw(0), _lengths(call, axes)))


def _back(axes: int) -> Callable[[FlowCall], Value]:
    return lambda call: spectral.real_inverse(call.g, call.parts(0), _lengths(call, axes))


for _suffix, _axes in {"": 1, "2D": 2, "3D": 3}.items():
    operator(f"FFT{_suffix}")(_whole(_axes, 0))
    operator(f"IFFT{_suffix}")(_whole(_axes, 1))
    operator(f"RFFT{_suffix}")(_real(_axes))
    operator(f"IRFFT{_suffix}")(_back(_axes))
