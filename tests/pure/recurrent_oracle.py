"""Recurrent operators by their equations: one example, one direction and one step at a time."""

from typing import Any

import numpy as np

from infuse.testing.samples import Row

Array = Any
ALPHA = {
    "leakyrelu": 0.01,
    "thresholdedrelu": 1,
    "hardsigmoid": 0.2,
    "elu": 1,
    "affine": 1,
    "scaledtanh": 1,
}
BETA = {"hardsigmoid": 0.5, "affine": 0, "scaledtanh": 1}
USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _one(name: str, x: float, a: float, b: float) -> float:
    match name:
        case "relu":
            return max(x, 0.0)
        case "tanh":
            return 1 - 2 / (np.exp(2 * x) + 1)
        case "sigmoid":
            return 1 / (1 + np.exp(-x))
        case "affine":
            return a * x + b
        case "leakyrelu":
            return x if x >= 0 else a * x
        case "thresholdedrelu":
            return x if x >= a else 0.0
        case "scaledtanh":
            return a * np.tanh(b * x)
        case "hardsigmoid":
            return min(max(a * x + b, 0), 1)
        case "elu":
            return x if x >= 0 else a * (np.exp(x) - 1)
        case "softsign":
            return x / (1 + abs(x))
        case "softplus":
            return np.log(1 + np.exp(x))
    raise AssertionError(name)


def _functions(op: Any, directions: int) -> list[Any]:
    alpha, beta = list(op.activation_alpha), list(op.activation_beta)
    found = []
    for name in op.activations or USUAL[op.name] * directions:
        key = name.lower()
        a = (alpha.pop(0) if alpha else ALPHA[key]) if key in ALPHA else 0
        b = (beta.pop(0) if beta else BETA[key]) if key in BETA else 0

        def function(v: Array, key: str = key, a: float = a, b: float = b) -> Array:
            bounded = v if op.clip is None else np.clip(v, -op.clip, op.clip)
            return np.array([_one(key, x, a, b) for x in bounded])

        found.append(function)
    return found


def _step(
    op: Any, fs: list[Any], w: Array, r: Array, b: Array, p: Array, x: Array, h: Array, c: Array
) -> tuple[Array, Array]:
    n = len(h)
    wb, rb = b.reshape(2, -1, n)
    r = r.reshape(-1, n, n)
    w = w.reshape(len(r), n, len(x))

    def given(g: int) -> Array:
        return w[g] @ x + wb[g] + r[g] @ h + rb[g]

    if op.name == "RNN":
        return fs[0](given(0)), c
    if op.name == "GRU":
        z, reset = fs[0](given(0)), fs[0](given(1))
        hidden = (
            reset * (r[2] @ h + rb[2]) if op.linear_before_reset else r[2] @ (reset * h) + rb[2]
        )
        return (1 - z) * fs[1](w[2] @ x + wb[2] + hidden) + z * h, c
    i = fs[0](given(0) + p[:n] * c)
    f = 1 - i if op.input_forget else fs[0](given(2) + p[2 * n :] * c)
    c = f * c + i * fs[1](given(3))
    return fs[0](given(1) + p[n : 2 * n] * c) * fs[2](c), c


def recurrent(row: Row) -> list[Array]:
    """All outputs; the reference knows neither lengths nor most functions."""
    op = row.op
    x, w, r, b, lengths, h0, c0, p = (*row.inputs, *[None] * (8 - len(row.inputs)))
    if op.layout:
        x, h0, c0 = (None if v is None else np.swapaxes(v, 0, 1) for v in (x, h0, c0))
    directions, _, n = r.shape
    time, batch = x.shape[:2]
    functions = _functions(op, directions)
    each = len(USUAL[op.name])
    y = np.zeros((time, directions, batch, n))
    ends = [np.zeros((directions, batch, n)), np.zeros((directions, batch, n))]
    for d in range(directions):
        biases = np.zeros(w.shape[1] * 2) if b is None else b[d]
        peepholes = np.zeros(3 * n) if p is None else p[d]
        for e in range(batch):
            h, c = (np.zeros(n) if v is None else v[d, e] for v in (h0, c0))
            steps = range(time if lengths is None else lengths[e])
            for t in reversed(steps) if d or op.direction == "reverse" else steps:
                fs = functions[d * each : d * each + each]
                h, c = _step(op, fs, w[d], r[d], biases, peepholes, x[t, e], h, c)
                y[t, d, e] = h
            ends[0][d, e], ends[1][d, e] = h, c
    if op.layout:
        y, ends = y.transpose(2, 0, 1, 3), [v.swapaxes(0, 1) for v in ends]
    return [y, *ends[: 2 if op.name == "LSTM" else 1]]
