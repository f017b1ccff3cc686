"""Calls that the text of ONNX does not allow, and those that say no more than others: files have
them, and ONNX Runtime computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from infuse import dtypes
from infuse.frontends.onnx.forms import Form


def settle(form: Form) -> None:
    """Bring a call in its newest form to one that the operator takes."""
    function = _SETTLED.get(form.kind)
    if function is not None:
        function(form)


def _gemm(form: Form) -> None:
    """C is not read where its factor is zero, whatever it holds."""
    if form.attributes.get("beta") == 0:
        del form.inputs[2:], form.attributes["beta"]


def _stft(form: Form) -> None:
    """A signal [batch, length] has real elements."""
    if form.rank(0) == 2:
        form.inputs[0] = form.emit("Unsqueeze", form.inputs[0], form.constant([-1], "axes"))


def _logarithm(form: Form) -> None:
    """Of integers it is cut off."""
    dtype = form.dtype(0)
    if dtype is not None and dtype.is_integer:
        wide = form.emit("Cast", form.inputs[0], to=dtypes.float64)
        result = form.emit(form.kind, wide, *form.inputs[1:], **form.attributes)
        form.become("Cast", result, to=dtype)


def _range(form: Form) -> None:
    """Floats of 16 bits are counted in those of 32 (stash_type 1), and then rounded."""
    wide = form.attributes.pop("stash_type", 1) == dtypes.float32.onnx
    dtype = form.dtype(0)
    if wide and dtype in (dtypes.float16, dtypes.bfloat16):
        operands = [form.emit("Cast", v, to=dtypes.float32) for v in form.inputs]
        form.become("Cast", form.emit("Range", *operands), to=dtype)


_SETTLED: Final[dict[str, Callable[[Form], None]]] = {
    "Gemm": _gemm,
    "STFT": _stft,
    "ReduceLogSum": _logarithm,
    "ReduceLogSumExp": _logarithm,
    "Range": _range,
}
