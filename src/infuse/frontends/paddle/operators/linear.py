"""Products of matrices."""

from __future__ import annotations

from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.operators.pointwise import in_floats
from infuse.ir.graph import Value


def _turned(call: PaddleCall, value: Value, turn: bool) -> Value:
    if not turn or value.rank < 2:
        return value
    order = list(range(value.rank))
    order[-2:] = reversed(order[-2:])
    return call.g.permute(value, *order)


@operator("matmul")
def matmul(call: PaddleCall) -> Value:
    """The product of matrices, each turned where the attributes say so; Paddle makes floats of
    integers.
    """
    call.require("head_number", 1)
    x = _turned(call, call("x"), bool(call.attribute("transpose_x", False)))
    y = _turned(call, call("y"), bool(call.attribute("transpose_y", False)))
    product = in_floats(call, lambda x, y: call.g("MatMul", x, y), x, y)
    alpha = float(call.attribute("alpha", 1.0))
    return product if alpha == 1 else call.g("Mul", product, alpha)


@operator("bmm", "mv")
def bmm(call: PaddleCall) -> Value:
    """The product of matrices as they are."""
    return call.g("MatMul", call("x"), call("vec" if call.operator.name == "mv" else "y"))


@operator("dot")
def dot(call: PaddleCall) -> Value:
    """The sum of products along the last axis."""
    product = call.g("Mul", call("x"), call("y"))
    return call.g("ReduceSum", product, call.g.ints(-1), keepdims=0)


@operator("addmm")
def addmm(call: PaddleCall) -> Value:
    """Beta · input + alpha · (x · y)."""
    g = call.g
    product = g("Mul", g("MatMul", call("x"), call("y")), float(call.attribute("alpha", 1.0)))
    return g("Add", g("Mul", call("input"), float(call.attribute("beta", 1.0))), product)


def _flat(call: PaddleCall, value: Value, axes: int) -> Value:
    """A matrix: the first axes together, and the others."""
    if not 0 < axes < value.rank:
        raise ModelFileError(f"{axes} of {value.rank} axes are those of rows")
    if value.rank == 2:
        return value
    sizes = [call.g.size_of(value, axis) for axis in range(axes, value.rank)]
    if len(sizes) == 1:
        return call.g("Reshape", value, call.g.ints(-1, *sizes))
    return call.g("Flatten", value, axis=axes)


@operator("matmul_with_flatten")
def matmul_with_flatten(call: PaddleCall) -> Value:
    """The product of matrices that are flattened, with the axes that they had."""
    x, y = call("x"), call("y")
    rows, columns = (int(call.attribute(f"{n}_num_col_dims", 1)) for n in "xy")
    product = call.g("MatMul", _flat(call, x, rows), _flat(call, y, columns))
    return _unflat(call, product, x, rows, y, columns)


def _unflat(call: PaddleCall, product: Value, x: Value, rows: int, y: Value, columns: int) -> Value:
    if rows == 1 and y.rank - columns == 1:
        return product
    g = call.g
    sizes = [g.size_of(x, axis) for axis in range(rows)]
    sizes += [g.size_of(y, axis) for axis in range(columns, y.rank)]
    return g("Reshape", product, g.ints(*sizes))


@operator("fc")
def fc(call: PaddleCall) -> Value:
    """A dense layer on the flattened operand, with an activation."""
    x, w = call("input"), call("w")
    rows = int(call.attribute("in_num_col_dims", 1))
    call.require("padding_weights", False)
    product = _unflat(call, call.g("MatMul", _flat(call, x, rows), w), x, rows, w, 1)
    bias = call.maybe("bias")
    if bias is not None:
        product = call.g("Add", product, call.g("Reshape", bias, call.g.ints(-1)))
    activation = call.attribute("activation_type", "")
    if activation not in ("", "relu"):
        raise call.unsupported(f"the activation {activation!r}")
    return call.g("Relu", product) if activation else product


@operator("einsum")
def einsum(call: PaddleCall) -> Value:
    """Sums of products by an equation."""
    return call.g("Einsum", *call.tensors("x"), equation=str(call.attribute("equation")))


@operator("kron")
def kron(call: PaddleCall) -> Value:
    """The Kronecker product of tensors of one rank."""
    g, x, y = call.g, call("x"), call("y")
    if x.rank != y.rank:
        raise call.unsupported("operands of different ranks")
    apart = [
        g("Unsqueeze", v, g.ints(*range(first, 2 * x.rank, 2))) for v, first in ((x, 1), (y, 0))
    ]
    sizes = [
        g("Mul", g("Shape", x), g("Shape", y)),
    ]
    return g("Reshape", g("Mul", *apart), *sizes)


@operator("bilinear")
def bilinear(call: PaddleCall) -> Value:
    """The products of x, each matrix of the weight, and y."""
    made = call.g("Einsum", call("x"), call("weight"), call("y"), equation="bi,kij,bj->bk")
    bias = call.maybe("bias")
    return made if bias is None else call.g("Add", made, bias)
