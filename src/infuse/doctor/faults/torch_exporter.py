"""What PyTorch's exporter (torch.onnx.export, dynamo=True) writes otherwise than PyTorch computes.
The recorded calls show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from infuse import dtypes
from infuse.doctor.facts import FileFacts, FileNode
from infuse.doctor.faults.operators import is_float, is_symbolic
from infuse.doctor.table import Either, Fault, calls, nodes, register

BY: Final = "torch.onnx"
_SEEN: Final = ("2.13.0",)
_DIVISOR: Final = 6
"""The place of divisor_override among the arguments of average pooling."""
_SIZES: Final = 3
"""The operand of Resize that states sizes."""
_TEST: Final = "tests/models/test_doctor_torch.py"
_SUM: Final = re.compile(r"(add|sub|rsub)(_\d+)?")
"""Names of sums and differences in exported programs."""
_REPAIR: Final = "infuse doctor --repair writes the call as PyTorch computes it"


def _argument(node: FileNode, name: str, default: Any = None) -> Any:
    return default if node.call is None else node.call.argument(name, default)


def _by_quotient(node: FileNode, kinds: list[str]) -> bool:
    dtype = node.dtype(0)
    return {"Div", "Floor"} <= {*kinds} and "Mod" not in kinds and bool(dtype and dtype.is_float)


def _floored(node: FileNode, kinds: list[str]) -> bool:
    return _argument(node, "rounding_mode") == "floor" and _by_quotient(node, kinds)


def _by_another_factor(node: FileNode, kinds: list[str]) -> bool:
    """Whether the sizes of a Resize say another factor than the call does."""
    call = node.call
    if call is None or node.kind != "Resize" or not node.has(_SIZES):
        return False
    *_, factors = [call.positional[3:], *filter(None, [call.named.get("scale_factors")])]
    flat = [f for each in factors for f in (each if isinstance(each, list) else [each])]
    before, after = node.sizes(0), call.positional[1] if len(call.positional) > 1 else None
    if not flat or all(factor is None for factor in flat):
        return False
    if before is None or not isinstance(after, list):
        return True
    return any(f is not None and new != old * f for f, old, new in zip(flat, before[2:], after))


def _may_mask_all(node: FileNode, kinds: list[str]) -> bool:
    return _argument(node, "attn_mask") is not None and "Softmax" in kinds


def _may_be_empty(node: FileNode, kinds: list[str]) -> bool:
    reduction = node.producer() if node.kind == "Cast" else node
    if reduction is None or reduction.kind != "ReduceMax":
        return False
    return reduction.dtype(0) in (dtypes.int32, dtypes.int64) and is_symbolic(reduction)


def _ignores_divisor(node: FileNode, kinds: list[str]) -> bool:
    call = node.call
    if call is None or {"Mul", "Div"} & {*kinds}:
        return False
    is_stated = len(call.positional) > _DIVISOR or "divisor_override" in call.named
    return is_stated and call.argument("divisor_override") is not None


def _adds_powers(node: FileNode, kinds: list[str]) -> bool:
    return kinds.count("Exp") == 2 or kinds.count("Pow") == 2


def _lost_additions(facts: FileFacts) -> Iterator[FileNode]:
    """Nodes that read another value than the sum which their call reads, and which is nowhere."""
    for scope in facts.scopes:
        names = {*scope.arrays, *(n for node in scope.nodes for n in (*node.inputs, *node.outputs))}
        for node in scope.nodes:
            call = node.call
            if call is None or len(call.references) != sum(map(node.has, range(len(node.inputs)))):
                continue
            if any(_SUM.fullmatch(each) and each not in names for each in call.references):
                yield node


def _is_log_of_sigmoid(node: FileNode) -> bool:
    producer = node.producer()
    return producer is not None and producer.kind == "Sigmoid"


register(
    Fault(
        "torch-exporter-drops-label-smoothing",
        BY,
        _SEEN,
        "cross_entropy with label_smoothing spreads a part of each target over all classes",
        "the plain loss: SoftmaxCrossEntropyLoss has no smoothing",
        "always",
        _REPAIR,
        _TEST,
        calls(
            "aten.cross_entropy_loss",
            where=lambda node, kinds: (
                bool(_argument(node, "label_smoothing")) and node.kind == "SoftmaxCrossEntropyLoss"
            ),
        ),
    ),
    Fault(
        "torch-exporter-scatter-mean-overwrites",
        BY,
        _SEEN,
        "scatter_reduce('mean') is the mean of what meets at an index",
        "the last value wins: ScatterElements without a reduction",
        "where several values have one index, or include_self holds",
        _REPAIR,
        _TEST,
        calls(
            "aten.scatter_reduce",
            where=lambda node, kinds: (
                _argument(node, "reduce") == "mean"
                and node.kind == "ScatterElements"
                and node.attribute("reduction", "none") == "none"
            ),
        ),
    ),
    Fault(
        "torch-exporter-ignores-pooling-divisor",
        BY,
        _SEEN,
        "average pooling with divisor_override divides sums by that number",
        "sums are divided by the size of the window",
        "always, unless the two are equal",
        _REPAIR,
        _TEST,
        calls(
            "aten.avg_pool2d",
            "aten.avg_pool3d",
            where=_ignores_divisor,
        ),
    ),
    Fault(
        "torch-exporter-averages-masked-out-queries",
        BY,
        _SEEN,
        "a query that may look at no key gets 0 by scaled_dot_product_attention",
        "the sum of all values (boolean masks), or NaN (masks of numbers), below opset 23",
        "for queries that see no key, as in padded rows",
        "export with opset_version=23 or newer, or " + _REPAIR,
        _TEST,
        calls("aten.scaled_dot_product_attention", where=_may_mask_all),
        note=True,
    ),
    Fault(
        "torch-exporter-antialias-by-factor-shifts",
        BY,
        _SEEN,
        "antialiased resampling by a factor samples at steps of that factor",
        "steps are the ratio of sizes, which are rounded",
        "where size times factor is no whole number",
        "pass sizes in place of a factor, or " + _REPAIR,
        _TEST,
        calls(
            "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa", where=_by_another_factor
        ),
    ),
    Fault(
        "torch-exporter-floor-division-by-rounded-quotient",
        BY,
        _SEEN,
        "a // b, a % b and div(rounding_mode='floor') of floats are exact: 1 // 0.1 is 9",
        "the quotient is rounded before its floor is taken: 10; 3 % inf is NaN",
        "where the quotient is near a whole number, and for infinities",
        _REPAIR,
        _TEST,
        Either(
            (
                calls("aten.floor_divide", "aten.remainder", where=_by_quotient),
                calls("aten.div", where=_floored),
            )
        ),
    ),
    Fault(
        "torch-exporter-logsigmoid-underflows",
        BY,
        _SEEN,
        "logsigmoid(x), and binary_cross_entropy_with_logits, are x for large negative x",
        "Log(Sigmoid(x)): -inf below -104, and below -18 in ONNX Runtime",
        "for logits below -16 or so",
        _REPAIR,
        _TEST,
        Either(
            (
                calls("aten.log_sigmoid", where=lambda node, kinds: "Sigmoid" in kinds),
                nodes("Log", where=_is_log_of_sigmoid),
            )
        ),
    ),
    Fault(
        "torch-exporter-drops-small-additions",
        BY,
        _SEEN,
        "log(x + 1e-8), x / (|x| + 1e-8) and the like are finite at 0",
        "the addition is left out, as onnxscript's optimizer does with numbers of at most 1e-8",
        "for numbers near 0",
        "add 1e-7 or more, or a tensor of one element in place of a number; then export again",
        "findings/onnxscript-optimizer-drops-small-additions.sh",
        _lost_additions,
    ),
    Fault(
        "torch-exporter-logaddexp-overflows",
        BY,
        _SEEN,
        "logaddexp(100, 100) is 100.7, and logaddexp2 the like",
        "Log(Exp(x) + Exp(y)): infinite above 88 (logaddexp2: 128), -inf below -103",
        "for numbers beyond 88",
        _REPAIR,
        _TEST,
        calls("aten.logaddexp", "aten.logaddexp2", where=_adds_powers),
    ),
    Fault(
        "torch-exporter-heaviside-of-nan-is-one",
        BY,
        _SEEN,
        "heaviside(NaN) is 0",
        "1",
        "for NaN",
        _REPAIR,
        _TEST,
        calls("aten.heaviside", where=lambda node, kinds: kinds.count("Where") == 2),
        note=True,
    ),
    Fault(
        "torch-exporter-signbit-of-negative-zero-is-false",
        BY,
        _SEEN,
        "signbit(-0.0) is True",
        "Less(x, 0), which is False",
        "for -0.0, and for NaN with a sign",
        _REPAIR,
        _TEST,
        calls("aten.signbit", where=lambda node, kinds: kinds == ["Less"] and is_float(node)),
        note=True,
    ),
    Fault(
        "torch-exporter-atan2-flips-at-half-turn",
        BY,
        _SEEN,
        "atan2(0, -1) is π",
        "-π",
        "for points on the negative half of the x axis",
        _REPAIR,
        _TEST,
        calls("aten.atan2", where=lambda node, kinds: "Atan" in kinds and "Greater" in kinds),
        note=True,
    ),
    Fault(
        "torch-exporter-any-of-nothing-is-true",
        BY,
        _SEEN,
        "any of no elements is False",
        "ReduceMax of no elements is the least integer, which is cast to True",
        "for empty axes",
        _REPAIR,
        _TEST,
        calls("aten.any", where=_may_be_empty),
        note=True,
    ),
)
