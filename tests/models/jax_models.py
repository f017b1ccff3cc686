"""Functions of jax.numpy by name, and models in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.models.jax_cases import BITS, T, X, Y, floats, whole

M = floats(4, 4)
NUMPY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (getattr(jnp, name), (X,))
        for name in (
            *("abs", "absolute", "all", "amax", "amin", "any", "arcsinh", "arctan", "argmax"),
            *("argmin", "argsort", "around", "atleast_3d", "average", "cbrt", "ceil", "copy"),
            *("corrcoef", "cos", "cosh", "count_nonzero", "cov", "cumprod", "cumsum", "deg2rad"),
            *("degrees", "diagonal", "diff", "ediff1d", "exp", "exp2", "expm1", "fabs"),
            *("fliplr", "flipud", "floor", "frexp", "isfinite", "isinf", "isnan"),
            *("isneginf", "isposinf", "logical_not", "max", "mean", "median"),
            *("min", "modf", "nan_to_num", "nanargmax", "nancumsum", "nanmax", "nanmean", "nanmin"),
            *("nanprod", "nanstd", "nansum", "nanvar", "negative", "ones_like", "prod"),
            *("positive", "ptp", "rad2deg", "radians", "ravel", "rint", "rot90", "round", "sign"),
            *("signbit", "sin", "sinc", "sinh", "sort", "square", "std", "sum", "tan"),
            *("tanh", "trace", "transpose", "tril", "triu", "trunc", "unwrap", "var"),
            *("zeros_like", "squeeze", "gradient"),
        )
    },
    **{
        name: (getattr(jnp, name), (X, Y))
        for name in (
            *("add", "arctan2", "copysign", "divide", "divmod", "equal", "float_power"),
            *("floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside"),
            *("hypot", "inner", "isclose", "kron", "less", "less_equal", "logaddexp"),
            *("logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum"),
            *("mod", "multiply", "not_equal", "outer", "remainder", "subtract", "true_divide"),
            *("vdot", "allclose", "array_equal"),
        )
    },
    **{
        name: (getattr(jnp, name), (whole(9), whole(9, low=1)))
        for name in (
            *("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "left_shift"),
            "right_shift",
        )
    },
    "int-floor_divide": (jnp.floor_divide, (whole(9), whole(9, low=1))),
    "int-mod": (jnp.mod, (whole(9), whole(9, low=1))),
    "norm": (jnp.linalg.norm, (X,)),
    "hstack": (lambda x, y: jnp.hstack([x, y]), (X, Y)),
    "log": (jnp.log, (Y,)),
    "log10": (jnp.log10, (abs(X) + 0.1,)),
    "log2": (jnp.log2, (abs(X) + 0.1,)),
    "power": (jnp.power, (abs(X), Y)),
    "clip": (lambda x: jnp.clip(x, -1, 0.5), (X,)),
    "where": (jnp.where, (BITS, X, Y)),
    "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", x, y), (X, Y)),
    "einsum-three": (lambda x, m, y: jnp.einsum("ij,jk,lk->il", x, m, y), (X, M, Y)),
    "matmul": (jnp.matmul, (T, M)),
    "tensordot": (lambda x, m: jnp.tensordot(x, m, 1), (T, M)),
    "dot": (jnp.dot, (X, M)),
    "vecdot": (jnp.vecdot, (X, Y)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), (X, Y)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), (X, Y)),
    "vstack": (lambda x, y: jnp.vstack([x, y]), (X, Y)),
    "block": (lambda x, y: jnp.block([[x, y], [y, x]]), (X, Y)),
    "roll": (lambda x: jnp.roll(x, 2, 1), (X,)),
    "roll-computed": (lambda x, n: jnp.roll(x, n, 1), (X, np.int32(3))),
    "repeat": (lambda x: jnp.repeat(x, 2, 1), (X,)),
    "pad-reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), (X,)),
    "pad-edge": (lambda x: jnp.pad(x, 1, mode="edge"), (X,)),
    "take": (lambda x: jnp.take(x, jnp.array([0, 2, 9]), 1), (X,)),
    "take_along_axis": (jnp.take_along_axis, (X, whole(3, 4, low=0, high=3))),
    "searchsorted": (jnp.searchsorted, (np.sort(floats(9)), floats(5))),
    "interp": (jnp.interp, (floats(5), np.sort(floats(9)), floats(9))),
    "digitize": (jnp.digitize, (floats(5), np.sort(floats(9)))),
    "quantile": (lambda x: jnp.quantile(x, 0.3, axis=1), (X,)),
    "percentile": (lambda x: jnp.percentile(x, 30.0), (X,)),
    "convolve": (jnp.convolve, (floats(9), floats(3))),
    "linspace": (lambda x: jnp.linspace(x[0], x[1], 5), (X,)),
    "meshgrid": (lambda x: jnp.meshgrid(x[0], x[1]), (X,)),
    "select": (lambda c, x: jnp.select([c, x > 0], [x, -x], 3.0), (BITS, X)),
    "choose": (lambda i: jnp.choose(i, [1, 2, 3], mode="clip"), (whole(5),)),
    "argpartition": (lambda x: jnp.sort(jnp.argpartition(x, 2)[:, :2]), (X,)),
    "bincount": (lambda i: jnp.bincount(i, length=5), (whole(20, low=0, high=5),)),
    "histogram": (lambda x: jnp.histogram(x, 4), (X,)),
    "tri": (lambda x: x * jnp.tri(3, 4), (X,)),
    "eye": (lambda x: x @ jnp.eye(4), (X,)),
    "vander": (lambda x: jnp.vander(x, 3), (floats(4),)),
    "apply_along_axis": (lambda x: jnp.apply_along_axis(jnp.sort, 0, x), (X,)),
    "lexsort": (lambda x, y: jnp.lexsort((x, y)), (whole(9), whole(9, low=0, high=3))),
    "at-multiply": (lambda x: x.at[1:, ::2].multiply(3.0), (X,)),
    "at-get-fill": (lambda x: x.at[jnp.array([0, 7])].get(mode="fill", fill_value=-1), (X,)),
    "index-mask": (lambda x: jnp.where(x > 0, x, 0)[::-1, None, 1:], (X,)),
    "softmax": (jax.nn.softmax, (X,)),
    "log_softmax": (jax.nn.log_softmax, (X,)),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
    "silu": (jax.nn.silu, (X,)),
    "elu": (jax.nn.elu, (X,)),
    "softplus": (jax.nn.softplus, (X,)),
    "logsumexp": (jax.nn.logsumexp, (X,)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 4), (whole(5, low=0, high=4),)),
    "standardize": (jax.nn.standardize, (X,)),
    "attention": (jax.nn.dot_product_attention, (floats(2, 5, 2, 4),) * 3),
    "resize": (lambda x: jax.image.resize(x, (6, 8), "bilinear"), (X,)),
    "avg_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "SAME") / 4, (X,)),
    "gammaln": (jax.scipy.special.gammaln, (Y,)),
    "betaln": (jax.scipy.special.betaln, (abs(X) + 1, abs(Y) + 1)),
    "entr": (jax.scipy.special.entr, (Y,)),
    "xlogy": (jax.scipy.special.xlogy, (X, Y)),
    "ndtr": (jax.scipy.special.ndtr, (X,)),
    "ndtri": (jax.scipy.special.ndtri, (np.array([0.1, 0.5, 0.9], np.float32),)),
    "norm.logpdf": (jax.scipy.stats.norm.logpdf, (X,)),
    "jacfwd": (jax.jacfwd(jnp.sin), (X[0],)),
    "hessian": (jax.hessian(lambda x: jnp.sum(x**3)), (X[0],)),
    "jvp": (lambda x: jax.jvp(jnp.tanh, (x,), (x,)), (X,)),
    "grad-softmax": (jax.grad(lambda x: jax.nn.softmax(x)[:, 0].sum()), (X,)),
    "grad-sort": (jax.grad(lambda x: (jnp.sort(x, 1) * X).sum()), (X,)),
    "grad-gather": (jax.grad(lambda x: (x[jnp.array([0, 0, 2])] ** 2).sum()), (X,)),
    "grad-conv": (
        jax.grad(lambda x: (lax.conv(x, floats(3, 2, 2, 2), (2, 2), "SAME") ** 2).sum()),
        (floats(1, 2, 5, 5),),
    ),
}

# -- models ----------------------------------------------------------------------------------------


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    scale = 1 / np.sqrt(shape[0])
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def perceptron(params: Any, x: Any) -> Any:
    """Two dense layers."""
    hidden = jax.nn.relu(x @ params["first"]["kernel"] + params["first"]["bias"])
    return {"scores": jax.nn.softmax(hidden @ params["second"]["kernel"]), "hidden": hidden}


PERCEPTRON = {
    "first": {"kernel": weights(4, 8), "bias": weights(8)},
    "second": {"kernel": weights(8, 3)},
}


def convolutional(params: Any, x: Any) -> Any:
    """Convolutions, normalization, pooling and a dense layer."""
    for kernel in params["kernels"]:
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        x = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ params["dense"]


CONVOLUTIONAL = {
    "kernels": [weights(3, 3, 3, 8), weights(3, 3, 8, 16, seed=1)],
    "dense": weights(4 * 4 * 16, 10),
}


def transformer(params: Any, tokens: Any) -> Any:
    """A decoder whose layers are scanned."""
    x = params["embedding"][tokens]
    size, width = tokens.shape[1], x.shape[-1]
    mask = jnp.tril(jnp.ones((size, size), bool))

    def norm(x: Any, scale: Any) -> Any:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    def layer(x: Any, p: Any) -> Any:
        y = norm(x, p["scale"])
        q, k, v = jnp.split(y @ p["qkv"], 3, axis=-1)
        q, k, v = (z.reshape(*z.shape[:2], 2, width // 2).swapaxes(1, 2) for z in (q, k, v))
        scores = jnp.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(width / 2), -1e9)
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + mixed @ p["out"]
        return x + jax.nn.gelu(norm(x, p["scale"]) @ p["up"]) @ p["down"], None

    x, _ = lax.scan(layer, x, params["layers"])
    return x @ params["embedding"].T


TRANSFORMER = {
    "embedding": weights(11, 8),
    "layers": {
        "scale": np.ones((3, 8), np.float32), "qkv": weights(3, 8, 24) / 3,
        "out": weights(3, 8, 8) / 3, "up": weights(3, 8, 16) / 3, "down": weights(3, 16, 8) / 3,
    },
}  # fmt: skip


def recurrent(params: Any, x: Any) -> Any:
    """A gated recurrent unit over the second axis."""

    def step(h: Any, row: Any) -> Any:
        z, r, c = jnp.split(row @ params["input"], 3, -1)
        uz, ur, uc = jnp.split(h @ params["state"], 3, -1)
        z, r = jax.nn.sigmoid(z + uz), jax.nn.sigmoid(r + ur)
        h = (1 - z) * h + z * jnp.tanh(c + r * uc)
        return h, h

    h = jnp.zeros((x.shape[0], params["state"].shape[0]))
    last, rows = lax.scan(step, h, x.swapaxes(0, 1))
    return last, rows.swapaxes(0, 1)


RECURRENT = {"input": weights(3, 15), "state": weights(5, 15)}


def newton(params: Any, x: Any) -> Any:
    """Square roots by Newton's iteration, until they change no more."""

    def going(state: Any) -> Any:
        return (state[2] > params["tolerance"]) & (state[0] < 50)

    def step(state: Any) -> Any:
        count, y, _ = state
        better = 0.5 * (y + x / y)
        return count + 1, better, jnp.max(jnp.abs(better - y))

    return lax.while_loop(going, step, (0, jnp.ones_like(x), jnp.float32(1)))


def trained(params: Any, x: Any) -> Any:
    """The gradient of a loss of the perceptron, one example after the other."""

    def loss(params: Any, x: Any) -> Any:
        return -jnp.log(perceptron(params, x)["scores"][0])

    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, x)


MODELS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "perceptron": (perceptron, PERCEPTRON, floats(5, 4)),
    "convolutional": (convolutional, CONVOLUTIONAL, floats(2, 16, 16, 3)),
    "transformer": (transformer, TRANSFORMER, whole(2, 6, low=0, high=11)),
    "recurrent": (recurrent, RECURRENT, floats(2, 7, 3)),
    "newton": (newton, {"tolerance": np.float32(1e-4)}, abs(floats(6)) + 1),
    "trained": (trained, PERCEPTRON, floats(5, 4)),
}
"""By name: a function of parameters and an array, the parameters, the array."""
