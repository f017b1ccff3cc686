"""How a node is written in a chosen opset: the newest form of its operator, changed step by step to
the older one.

`@before(opset, *kinds)` marks a function that changes calls of these operators for opsets before
`opset`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from onnx import defs

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant, known_ints
from infuse.ir.types import UNKNOWN, MapType, OptionalType, SequenceType, TensorType, Type
from infuse.ops.core.base import Op
from infuse.ops.core.opaque import Opaque
from infuse.ops.domains.ml import MlOp

NEWEST: Final = defs.onnx_opset_version()
RECURRENT: Final = ("GRU", "LSTM", "RNN")
OWN_OF_RUNTIME: Final = ("SimplifiedLayerNormalization",)
"""What ONNX Runtime keeps in ONNX's own domain."""
REDUCTIONS: Final = (
    *(
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
    ),
    "ReduceSumSquare",
)


class NotExpressible(Exception):
    """A node has no form in the chosen opset; `needs` is the next opset that may have one."""

    def __init__(self, reason: str, needs: int | None = None) -> None:
        super().__init__(reason)
        self.needs = needs


@dataclass
class Spelling:
    """A node as it will be written."""

    kind: str
    domain: str
    inputs: list[Value | None]
    attributes: dict[str, Any]
    bodies: dict[str, Graph]
    outputs: list[Value] = field(default_factory=list)

    def input(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The elements of an integer input, None where they are not known."""
        value = self.input(index)
        elements = None if value is None else known_ints(value)
        return (
            tuple(map(int, elements))
            if elements is not None and all(isinstance(k, int) for k in elements)
            else None
        )

    def need_ints(self, index: int, name: str) -> tuple[int, ...]:
        elements = self.ints(index)
        if elements is None:
            raise NotExpressible(f"its {name} are computed at run time")
        return elements

    def shape(self, index: int) -> tuple[Dim, ...] | None:
        value = self.input(index)
        return (
            value.type.shape if value is not None and isinstance(value.type, TensorType) else None
        )

    def set_input(self, index: int, elements: Sequence[int], name: str) -> None:
        """Put a list of integers at an input."""
        self.inputs += [None] * (index + 1 - len(self.inputs))
        self.inputs[index] = constant(np.array(elements, np.int64), name)

    def drop(self, name: str, *harmless: Any) -> None:
        """Leave out an attribute that an older opset does not have, where it has one of these
        values.
        """
        if name in self.attributes and self.attributes.pop(name) not in harmless:
            raise NotExpressible(f"it has no {name}")


_DEFAULTS: Final[dict[type, Mapping[str, Any]]] = {}
Step = Callable[[Spelling], None]
STEPS: Final[dict[str, list[tuple[int, Step]]]] = {}


def before(opset: int, *kinds: str) -> Callable[[Step], Step]:
    """Register a change for opsets before `opset`."""

    def register(function: Step) -> Step:
        for kind in kinds:
            STEPS.setdefault(kind, []).append((opset, function))
            STEPS[kind].sort(key=lambda entry: -entry[0])
        return function

    return register


def spell(node: Node, opset: int) -> Spelling:
    """`node` in `opset`; NotExpressible when it has no form there."""
    spelling = newest(node)
    if spelling.domain:
        return spelling
    if isinstance(node.op, Opaque):
        return _opaque(spelling, node.op, opset)
    if spelling.kind in RECURRENT:
        _state_hidden_size(spelling)
    schema = schema_of(spelling.kind, opset)
    if schema is None and spelling.kind in OWN_OF_RUNTIME:
        return spelling
    if schema is None:
        raise NotExpressible("it does not exist there", _next_version(spelling.kind, opset))
    try:
        for threshold, step in STEPS.get(spelling.kind, ()):
            if opset < threshold:
                step(spelling)
        _check(spelling, schema)
    except NotExpressible as reason:
        reason.needs = reason.needs or _next_version(node.kind, opset)
        raise
    return spelling


def _state_hidden_size(spelling: Spelling) -> None:
    """Write how many units there are, which the weights tell, too: ONNX Runtime asks for it."""
    recurrence = spelling.shape(2)
    if (
        recurrence is not None
        and not spelling.attributes.get("hidden_size")
        and isinstance(recurrence[-1], int)
    ):
        spelling.attributes["hidden_size"] = recurrence[-1]


def newest(node: Node) -> Spelling:
    """`node` in the newest form, with the attributes that differ from their defaults."""
    op = node.op
    attributes = dict(op.attributes())
    if isinstance(op, Op):
        schema = schema_of(op.name, NEWEST) if not op.domain else None
        required = schema.required if schema is not None else frozenset()
        if isinstance(op, MlOp):
            required = _without_default(op.name, op.since, op.domain) & {
                k for k, v in attributes.items() if not isinstance(v, tuple) or v
            }
        defaults = _defaults(op)
        attributes = {
            k: v for k, v in attributes.items() if k in required or not _same(v, defaults[k])
        }
    attributes = {
        k: v.onnx if isinstance(v, dtypes.DType) else v
        for k, v in attributes.items()
        if v is not None
    }
    return Spelling(
        op.name, op.domain, list(node.inputs), attributes, dict(node.subgraphs), list(node.outputs)
    )


@cache
def _without_default(kind: str, opset: int, domain: str) -> frozenset[str]:
    """The attributes for which ONNX has no default, though we may."""
    schema = schema_of(kind, opset, domain)
    attributes = schema.attributes if schema is not None else {}
    return frozenset(name for name, a in attributes.items() if not a.default_value.type)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b)


def _opaque(spelling: Spelling, op: Opaque, opset: int) -> Spelling:
    """An unknown operator of ONNX itself keeps its form, so its opset must define it alike."""
    own, there = schema_of(op.name, op.version or opset), schema_of(op.name, opset)
    if own is not None and (there is None or own.since_version != there.since_version):
        raise NotExpressible(
            f"it is kept as it was in opset {op.version}",
            op.version if op.version > opset else None,
        )
    return spelling


# -- what ONNX says --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Definition:
    """What ONNX says of an operator, read once: the library's own objects are copied whenever they
    are asked.
    """

    since_version: int
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    required: frozenset[str]


@cache
def schema_of(kind: str, opset: int, domain: str = "") -> Definition | None:
    """ONNX's definition of an operator as of an opset; None when there is none, or it is no longer
    to be used.
    """
    try:
        schema = defs.get_schema(kind, opset, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes = dict(schema.attributes)
    required = frozenset(name for name, attribute in attributes.items() if attribute.required)
    counts = (
        schema.since_version,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
    )
    return Definition(*counts, tuple(schema.inputs), tuple(schema.outputs), attributes, required)


def _defaults(op: Op) -> Mapping[str, Any]:
    """The attributes of an operator as they are where nothing is given."""
    defaults = _DEFAULTS.get(type(op))
    if defaults is None:
        defaults = _DEFAULTS[type(op)] = {f.name: f.default for f in dataclasses.fields(op)}  # type: ignore[arg-type]
    return defaults


def _next_version(kind: str, opset: int) -> int | None:
    """The first opset after `opset` that defines `kind` anew."""
    now = schema_of(kind, opset)
    for later in range(opset + 1, NEWEST + 1):
        schema = schema_of(kind, later)
        if schema is not None and (now is None or schema.since_version != now.since_version):
            return later
    return None


@cache
def _types(kind: str, opset: int) -> tuple[frozenset[str], ...]:
    """The types that each input takes."""
    schema = schema_of(kind, opset)
    return tuple(frozenset(i.types) for i in schema.inputs) if schema is not None else ()


def _check(spelling: Spelling, schema: Definition) -> None:
    """NotExpressible unless attributes, inputs and their types are those of `schema`."""
    for name, value in list(spelling.attributes.items()):
        if name not in schema.attributes:
            raise NotExpressible(f"it has no {name} (here {value!r})")
    optional = defs.OpSchema.FormalParameterOption.Optional
    while (
        len(spelling.inputs) < schema.min_input
        and schema.inputs[len(spelling.inputs)].option == optional
    ):
        spelling.inputs.append(None)
    if not schema.min_input <= len(spelling.inputs) <= schema.max_input:
        raise NotExpressible(
            f"it takes {schema.min_input} to {schema.max_input} inputs, not {len(spelling.inputs)}"
        )
    if len(spelling.outputs) > schema.max_output:
        raise NotExpressible(f"it gives {schema.max_output} outputs, not {len(spelling.outputs)}")
    accepted = _types(spelling.kind, schema.since_version)
    for index, value in enumerate(spelling.inputs):
        if (
            value is not None
            and type_text(value.type) not in accepted[min(index, len(accepted) - 1)]
        ):
            raise NotExpressible(f"its input {index} cannot be {type_text(value.type)}")
    target = spelling.attributes.get("to", spelling.attributes.get("output_dtype"))
    if (
        target
        and schema.outputs
        and f"tensor({_element(dtypes.by_onnx(target))})" not in schema.outputs[0].types
    ):
        raise NotExpressible(f"it cannot give {dtypes.by_onnx(target)}")


def type_text(type: Type) -> str:
    """A type as ONNX's definitions name it, without its shape."""
    if isinstance(type, SequenceType):
        return f"seq({type_text(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_text(type.element)})"
    if isinstance(type, MapType):
        return f"map({_element(type.key)},{type_text(type.element)})"
    return f"tensor({_element(type.dtype)})"


def _element(dtype: dtypes.DType) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)


# -- the newest form -------------------------------------------------------------------------------


@before(NEWEST + 1, "ConstantOfShape")
def value_is_a_tensor(spelling: Spelling) -> None:
    """Value and type are one tensor of one element."""
    value = spelling.attributes.pop("value", 0.0)
    dtype = dtypes.by_onnx(spelling.attributes.pop("dtype", dtypes.float32.onnx))
    spelling.attributes["value"] = np.array([value]).astype(dtype.numpy)


# -- older forms -----------------------------------------------------------------------------------


@before(18, *REDUCTIONS)
def axes_are_an_attribute(spelling: Spelling) -> None:
    """Axes must be known; none mean all."""
    axes = spelling.need_ints(1, "axes") if spelling.input(1) is not None else ()
    if spelling.attributes.pop("noop_with_empty_axes", 0) and not axes:
        raise NotExpressible("no axes mean all axes there")
    del spelling.inputs[1:]
    if axes:
        spelling.attributes["axes"] = axes


@before(18, "Split")
def outputs_are_not_counted(spelling: Spelling) -> None:
    """Without sizes, there are as many equal parts as outputs."""
    count, shape = spelling.attributes.pop("num_outputs", None), spelling.shape(0)
    if count is None:
        return
    spelling.outputs += [Value(UNKNOWN) for _ in range(count - len(spelling.outputs))]
    if shape is None:
        return
    size = shape[spelling.attributes.get("axis", 0)]
    if isinstance(size, int) and size % count:
        part = -(-size // count)
        spelling.set_input(1, [part] * (count - 1) + [size - part * (count - 1)], "split")


@before(18, "Pad")
def pads_of_all_axes(spelling: Spelling) -> None:
    """The padding of every axis must be listed."""
    if spelling.input(3) is not None:
        pads, axes = spelling.need_ints(1, "pads"), spelling.need_ints(3, "axes")
        rank = len(_need_shape(spelling))
        full = [0] * (2 * rank)
        for place, axis in enumerate(axes):
            full[axis % rank], full[axis % rank + rank] = pads[place], pads[place + len(axes)]
        spelling.set_input(1, full, "pads")
    del spelling.inputs[3:]


@before(19, "Pad")
def no_wrapping(spelling: Spelling) -> None:
    """Padding cannot wrap around."""
    if spelling.attributes.get("mode") == "wrap":
        raise NotExpressible("it cannot wrap around")


@before(19, "Resize")
def no_symmetric_coordinates(spelling: Spelling) -> None:
    """One way to find coordinates came later."""
    if spelling.attributes.get("coordinate_transformation_mode") == "half_pixel_symmetric":
        raise NotExpressible("it has no half_pixel_symmetric coordinates")


@before(18, "Resize")
def resize_all_axes(spelling: Spelling) -> None:
    """Scales or sizes of every axis must be listed."""
    spelling.drop("antialias", 0)
    spelling.drop("keep_aspect_ratio_policy", "stretch")
    axes = spelling.attributes.pop("axes", ())
    if not axes:
        return
    shape = _need_shape(spelling)
    if (
        spelling.input(1) is not None
        and spelling.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        raise NotExpressible("its region names some axes only")
    if spelling.input(3) is not None:
        sizes: list[Any] = list(shape)
        for axis, size in zip(axes, spelling.need_ints(3, "sizes")):
            sizes[axis] = size
        if not all(isinstance(size, int) for size in sizes):
            raise NotExpressible("its sizes depend on symbolic sizes")
        spelling.set_input(3, sizes, "sizes")
    else:
        factors = spelling.inputs[2]
        if factors is None or factors.const is None:
            raise NotExpressible("its scales are computed at run time")
        scales = np.ones(len(shape), np.float32)
        scales[list(axes)] = factors.const
        spelling.inputs[2] = constant(scales, "scales")


def _need_shape(spelling: Spelling) -> tuple[Dim, ...]:
    shape = spelling.shape(0)
    if shape is None:
        raise NotExpressible("the rank of its input is not known")
    return shape


@before(14, "Reshape")
def zero_copies(spelling: Spelling) -> None:
    """A zero in the shape always copies a size; symbolic sizes are taken to be larger."""
    result = spelling.outputs[0].tensor.shape
    if spelling.attributes.pop("allowzero", 0) and (result is None or 0 in result):
        raise NotExpressible("a zero in its shape would copy a size")


@before(16, "RoiAlign")
def unshifted_coordinates(spelling: Spelling) -> None:
    """Coordinates are not shifted by half a pixel."""
    mode = spelling.attributes.pop("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise NotExpressible("it has no half_pixel coordinates")


@before(18, "ScatterElements", "ScatterND")
def only_sums_and_products(spelling: Spelling) -> None:
    """Two ways to reduce came later."""
    if spelling.attributes.get("reduction") in ("max", "min"):
        raise NotExpressible(f"it cannot reduce by {spelling.attributes['reduction']}")


@before(24, "Cast")
def numbers_saturate(spelling: Spelling) -> None:
    """How small floats are rounded only matters for those."""
    small = dtypes.by_onnx(spelling.attributes["to"]).bits <= 8
    for name, default in (("saturate", 1), ("round_mode", "up")):
        if not small or spelling.attributes.get(name) == default:
            spelling.attributes.pop(name, None)


@before(28, "Mod")
def remainders_of_integers(spelling: Spelling) -> None:
    """Floating remainders have the sign of the dividend."""
    first = spelling.inputs[0]
    if first is not None and first.dtype.is_float and not spelling.attributes.get("fmod"):
        raise NotExpressible("floating remainders have the sign of the dividend there")


@before(20, "GridSample")
def modes_of_images(spelling: Spelling) -> None:
    """The modes are named for two dimensions."""
    mode = spelling.attributes.get("mode", "linear")
    spelling.attributes["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)


@before(20, "DFT")
def axis_is_an_attribute(spelling: Spelling) -> None:
    """The axis must be known."""
    axis = spelling.need_ints(2, "axis")[0] if spelling.input(2) is not None else -2
    del spelling.inputs[2:]
    spelling.attributes["axis"] = axis


@before(21, "QuantizeLinear")
def zero_point_has_the_type(spelling: Spelling) -> None:
    """The element type is that of the zero point."""
    code, scale = spelling.attributes.pop("output_dtype", None), spelling.inputs[1]
    if code and spelling.input(2) is None:
        shape = spelling.shape(1)
        if shape is None or scale is None or not all(isinstance(d, int) for d in shape):
            raise NotExpressible("the shape of its scale is not known")
        zeros = np.zeros([int(d) for d in shape if isinstance(d, int)], dtypes.by_onnx(code).numpy)
        spelling.inputs[2:] = [constant(zeros, "zero_point", dtypes.by_onnx(code))]
