"""Strings: cases, patterns, parts, joined and split ones, numbers as texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator

_UNITS = {"BYTE": "byte", "UTF8_CHAR": "character"}


def _made(call: FlowCall, kind: str, x: Value, options: dict[str, Any]) -> Value:
    return call.g.apply(make_operator("infuse", kind, options), [x])[0]


def _one_text(call: FlowCall, index: int) -> str:
    """A constant operand of one text."""
    const = call.const(index)
    if const is None or const.size != 1:
        raise call.unsupported(f"operand {index}, {call.label(index)!r}, which is computed,")
    return str(const.reshape(-1)[0])


def _cased(case: str) -> Any:
    def make(call: FlowCall) -> Value:
        wide = call.text("encoding", "", "utf-8") == "utf-8"
        return _made(call, "ChangeText", call.raw(0), {"change": case if wide else f"ascii_{case}"})

    return make


operator("StringLower")(_cased("lower"))
operator("StringUpper")(_cased("upper"))
operator("StringStrip")(lambda call: _made(call, "ChangeText", call.raw(0), {"change": "strip"}))


@operator("StaticRegexReplace", "RegexReplace")
def replace(call: FlowCall) -> Value:
    """What a pattern matches, replaced."""
    is_static = call.count == 1
    pattern = str(call.option("pattern", "")) if is_static else _one_text(call, 1)
    rewrite = str(call.option("rewrite", "")) if is_static else _one_text(call, 2)
    once = int(not call.option("replace_global", True))
    options = {"pattern": pattern, "replacement": rewrite, "once": once}
    return _made(call, "ReplaceText", call.raw(0), options)


@operator("StaticRegexFullMatch", "RegexFullMatch")
def match(call: FlowCall) -> Value:
    """Whether a pattern matches the whole."""
    pattern = str(call.option("pattern", "")) if call.count == 1 else _one_text(call, 1)
    return call.g("RegexFullMatch", call.raw(0), pattern=pattern)


@operator("StringJoin")
def join(call: FlowCall) -> Value:
    """Elements of several tensors, with a separator between."""
    separator = str(call.option("separator", "") or "")
    between = call.g.constant(np.array(separator, object), dtype=dtypes.string)
    result = call.raw(0)
    for index in range(1, call.count):
        result = call.g("StringConcat", result, between) if separator else result
        result = call.g("StringConcat", result, call.raw(index))
    return result


@operator("ReduceJoin")
def reduce_join(call: FlowCall) -> Value:
    """Strings joined along axes, the last of them first."""
    x, separator = call.raw(0), str(call.option("separator", "") or "")
    axes = call.ints(1)
    axes = [axis % x.rank for axis in axes] if axes else list(range(x.rank - 1, -1, -1))
    if len(axes) > 1 and axes != sorted(axes, reverse=True):
        raise call.unsupported(f"axes in the order {axes}")
    for axis in axes:
        x = _made(call, "JoinText", x, {"axis": axis, "separator": separator})
    if call.option("keep_dims", False):
        x = call.g("Unsqueeze", x, call.g.ints(*sorted(axes)))
    return x


@operator("StringLength")
def length(call: FlowCall) -> Value:
    """The number of bytes or characters."""
    unit = _UNITS[call.text("unit", *_UNITS)]
    return _made(call, "TextLength", call.raw(0), {"unit": unit})


@operator("Substr")
def part(call: FlowCall) -> Value:
    """Bytes or characters from a place on."""
    unit = _UNITS[call.text("unit", *_UNITS)]
    options = {"start": call.one(1), "length": call.one(2), "unit": unit}
    return _made(call, "SubText", call.raw(0), options)


@operator("AsString")
def as_text(call: FlowCall) -> Value:
    """Numbers as texts."""
    x, precision, width = call.raw(0), int(call.option("precision", -1)), call.option("width", -1)
    fill = str(call.option("fill", "") or "")
    size = f"{fill}{width}" if int(width) >= 0 else ""
    if x.dtype == dtypes.bool_ or x.dtype.is_integer:
        return _made(call, "FormatNumber", x, {"format": f"%{size}d"})
    kinds = {"scientific": "e", "shortest": "g"}
    kind = next((k for name, k in kinds.items() if call.option(name, False)), "f")
    digits = f".{precision}" if precision >= 0 else ""
    return _made(call, "FormatNumber", x, {"format": f"%{size}{digits}{kind}"})


@operator("StringToNumber")
def as_number(call: FlowCall) -> Value:
    """Texts as numbers."""
    return call.g.cast(call.raw(0), call.type("out_type", 1))


@operator("StringToHashBucketFast", "StringToHashBucketStrong")
def bucket(call: FlowCall) -> Value:
    """A number below that of the buckets, by a hash."""
    options: dict[str, Any] = {"buckets": int(call.option("num_buckets"))}
    if call.node.op.endswith("Strong"):
        # The numbers of a key are unsigned, and attributes are signed.
        key = np.array([int(k) & (1 << 64) - 1 for k in call.option("key", [])], np.uint64)
        options["key"] = tuple(key.view(np.int64).tolist())
    return _made(call, "TextBucket", call.raw(0), options)


@operator("StringSplitV2")
def split(call: FlowCall) -> list[Value]:
    """Parts as a sparse matrix: the row and place of each, the parts, the shape."""
    g, delimiter = call.g, _one_text(call, 1)
    by = "delimiter" if delimiter else "blanks"
    options = {"by": by, "delimiter": delimiter, "most": int(call.option("maxsplit", -1))}
    made = g.apply(make_operator("infuse", "SplitText", options), [call.raw(0)], 4)
    rows, places, parts, counts = made
    indices = g("Concat", *(g("Unsqueeze", v, g.ints(1)) for v in (rows, places)), axis=1)
    padded = g("Concat", counts, g.ints(0), axis=0)
    most = g("ReduceMax", padded, g.ints(0), keepdims=1)
    return [indices, parts, g("Concat", g("Shape", counts), most, axis=0)]


@operator("StringNGrams")
def runs(call: FlowCall) -> list[Value]:
    """Runs of strings next to each other in rows that are between splits."""
    g, kind = call.g, call.type("Tsplits", 9)
    options = {
        "widths": tuple(int(n) for n in call.option("ngram_widths", [])),
        "separator": str(call.option("separator", "") or ""),
        "left": str(call.option("left_pad", "") or ""),
        "right": str(call.option("right_pad", "") or ""),
        "pad_width": int(call.option("pad_width", 0)),
        "keep_short": int(bool(call.option("preserve_short_sequences", False))),
    }
    if not options["widths"]:
        raise ModelFileError("it has no widths of runs")
    made = g.apply(make_operator("infuse", "JoinRuns", options), [call.raw(0), call.int64(1)], 2)
    return [made[0], g.cast(made[1], kind)]
