"""Functions of TensorFlow in models of Keras 2: TFOpLambda and SlicingOpLambda."""

from __future__ import annotations

from typing import Any, Final

from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.layers.operations import OPERATIONS, together
from infuse.ir.graph import Value

_FUNCTIONS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    **{f"math.{name}": (kind, {"x": "x1", "y": "x2"}) for name, kind in (
        ("add", "Add"), ("subtract", "Subtract"), ("multiply", "Multiply"), ("divide", "Divide"),
        ("truediv", "Divide"), ("pow", "Power"), ("maximum", "Maximum"), ("minimum", "Minimum"),
        ("greater", "Greater"), ("greater_equal", "GreaterEqual"), ("less", "Less"),
        ("less_equal", "LessEqual"), ("equal", "Equal"), ("not_equal", "NotEqual"),
        ("floordiv", "FloorDivide"), ("floormod", "Mod"), ("logical_and", "LogicalAnd"),
        ("logical_or", "LogicalOr"),
    )},
    **{f"math.{name}": (kind, {}) for name, kind in (
        ("abs", "Absolute"), ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("rsqrt", "Rsqrt"),
        ("square", "Square"), ("negative", "Negative"), ("sin", "Sin"), ("cos", "Cos"),
        ("tanh", "Tanh"), ("sigmoid", "Sigmoid"), ("floor", "Floor"), ("ceil", "Ceil"),
        ("round", "Round"), ("sign", "Sign"), ("erf", "Erf"), ("log1p", "Log1p"),
        ("expm1", "Expm1"), ("softplus", "Softplus"), ("reciprocal", "Reciprocal"),
        ("logical_not", "LogicalNot"),
    )},
    **{f"math.reduce_{name}": (kind, {"input_tensor": "x"}) for name, kind in (
        ("sum", "Sum"), ("mean", "Mean"), ("max", "Max"), ("min", "Min"), ("prod", "Prod"),
    )},
    **{f"nn.{name}": (kind, {"features": "x", "logits": "x", "alpha": "negative_slope"})
       for name, kind in (
        ("relu", "Relu"), ("relu6", "Relu6"), ("elu", "Elu"), ("selu", "Selu"), ("gelu", "Gelu"),
        ("softmax", "Softmax"), ("log_softmax", "LogSoftmax"), ("leaky_relu", "LeakyRelu"),
        ("softsign", "Softsign"), ("silu", "Silu"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"),
    )},
    "reshape": ("Reshape", {"tensor": "x", "shape": "newshape"}),
    "transpose": ("Transpose", {"a": "x", "perm": "axes"}),
    "expand_dims": ("ExpandDims", {"input": "x"}),
    "squeeze": ("Squeeze", {"input": "x"}),
    "concat": ("Concatenate", {"values": "xs"}),
    "stack": ("Stack", {"values": "x"}),
    "unstack": ("Unstack", {"value": "x"}),
    "cast": ("Cast", {}),
    "tile": ("Tile", {"input": "x", "multiples": "repeats"}),
    "identity": ("Copy", {"input": "x"}),
    "clip_by_value": ("Clip", {"t": "x", "clip_value_min": "x_min", "clip_value_max": "x_max"}),
    "where": ("Where", {"x": "x1", "y": "x2"}),
    "gather": ("Take", {"params": "x"}),
    "one_hot": ("OneHot", {"indices": "x", "depth": "num_classes"}),
    "ones_like": ("OnesLike", {"input": "x"}),
    "zeros_like": ("ZerosLike", {"input": "x"}),
}  # fmt: skip
"""By the function's name without `tf.`: the operation, and its names of the arguments."""
_SAME: Final = {
    "__operators__.add": "math.add",
    "nn.swish": "nn.silu",
    "nn.sigmoid": "math.sigmoid",
}
_DEFAULTS: Final[dict[str, Any]] = {"name": None, "training": None}


def _sizes(call: KerasCall, content: Any) -> Any:
    if isinstance(content, (list, tuple)) and any(isinstance(each, Value) for each in content):
        raise call.unsupported("a shape that is computed")
    return content


@layer("TFOpLambda")
def function(call: KerasCall, *args: Any, **kwargs: Any) -> Any:
    """A function of TensorFlow by its name, such as `math.add`."""
    name = call.config.text("function").removeprefix("tf.").removeprefix("compat.v1.")
    name = _SAME.get(name, name)
    if name in ("__operators__.getitem", "strided_slice"):
        return OPERATIONS["GetItem"](call, args[0], kwargs.get("slice_spec"))
    if name in ("linalg.matmul", "matmul"):
        return _product(call, *args, **kwargs)
    entry = _FUNCTIONS.get(name)
    if entry is None:
        raise call.unsupported(f"the function tf.{name}")
    kind, names = entry
    options = {names.get(k, k): _sizes(call, v) for k, v in kwargs.items() if k not in _DEFAULTS}
    if options.pop("batch_dims", 0) or options.pop("validate_indices", None):
        raise call.unsupported("a gather by batches")
    if kind == "Take" and options.get("axis") is None:
        options["axis"] = 0
    if kind == "Cast":
        options["dtype"] = _type(call, options.get("dtype"))
    if kind in ("Reshape", "Transpose", "Softmax", "LogSoftmax"):
        options = {k: v for k, v in options.items() if v is not None}
        if options.pop("conjugate", False):
            raise call.unsupported("a conjugate")
    return _Renamed(call, kind).build(*args, **options)


class _Renamed:
    """A call as one of an operation, whose class is asked for by some of them."""

    def __init__(self, call: KerasCall, kind: str) -> None:
        self._call, self._kind = call, kind

    def build(self, *args: Any, **options: Any) -> Any:
        layer = self._call.layer
        before, layer.kind = layer.kind, f"ops.{self._kind}"
        try:
            return OPERATIONS[self._kind](self._call, *args, **options)
        finally:
            layer.kind = before


def _type(call: KerasCall, dtype: Any) -> str:
    if isinstance(dtype, dict):
        dtype = dtype.get("config", {}).get("name", dtype.get("name"))
    if not isinstance(dtype, str):
        raise call.unsupported(f"the element type {dtype!r}")
    return dtype


def _product(
    call: KerasCall,
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    **rest: Any,
) -> Value:
    other = {name for name, value in rest.items() if value}
    if other:
        raise call.unsupported(f"a product with {', '.join(sorted(other))}")
    g, operands = call.g, together(call, a, b)
    turned = []
    for x, flag in zip(operands, (transpose_a, transpose_b)):
        order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
        turned.append(g.permute(x, *order) if flag else x)
    return g("MatMul", *turned)


@layer("SlicingOpLambda")
def slicing(call: KerasCall, x: Any, slice_spec: Any = None, **_: Any) -> Value:
    """Parts of a tensor."""
    return OPERATIONS["GetItem"](call, x, slice_spec)  # type: ignore[no-any-return]
