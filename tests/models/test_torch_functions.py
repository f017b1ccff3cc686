"""Special functions of torch, parts of floats and further functions of matrices, beside torch in
eager mode, at special values too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from tests.models.torch_tools import Case, Net, compare

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
NAN, INF = math.nan, math.inf
ROW = torch.tensor(
    [NAN, 0.0, -0.0, INF, -INF, 1e-40, -1e-40, 1e-10, -1e-10, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5,
     -2.5, 2.0, -20.25, 29.9, 30.1, 88.0, 3.4e38, -1e30]
)  # fmt: skip
Y, X = (side.contiguous() for side in torch.meshgrid(ROW, ROW, indexing="ij"))
FRACTIONS = ROW[ROW != -1.0][7:17]
WHOLE = torch.tensor([[-(2**31), 2**31 - 1, 0, 1, -1, 7]], dtype=torch.int32)
INSIDE = torch.tensor([NAN, 0.0, -0.0, 1.0, -1.0, 1.5, 0.3, -0.9, 0.99999994, -0.9999999, 1e-30])
RANDOM = torch.Generator().manual_seed(5)
STACK = torch.randn(2, 4, 4, generator=RANDOM)
SIDES = torch.randn(2, 4, 3, generator=RANDOM)
GOOD = STACK @ STACK.mT + torch.eye(4)
SHARES = torch.tensor(
    [NAN, 0.0, -0.0, 1.0, -1.0, 1.5, INF, -INF, 0.5, 0.49999997, 0.49, 0.3, 0.99999994, 1e-38, 0.02]
)
TAILS = torch.tensor([0.5, 0.6, 1.5, 3.0, 4.9, 5.9, 8.0, 9.1, -9.3, -9.5, 26.0])
INTEGERS = {
    kind: torch.tensor(
        [torch.iinfo(kind).min + (torch.iinfo(kind).bits > 16), 127, 0, 1, 6, 4, 100]
        + ([-6] if kind.is_signed else [255]),
        dtype=kind,
    )
    for kind in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
}
FUNCTIONS: dict[str, Case] = {
    "scaled tails": (
        lambda x, y: (torch.special.erfcx(x), torch.special.erfcx(y), torch.erfc(x)), [ROW, TAILS]
    ),
    "quantiles": (torch.special.ndtri, [SHARES]),
    **{
        f"common divisors of {kind}": (
            lambda x: (torch.gcd(x[:, None], x), torch.lcm(x[:, None], x)), [values]
        )
        for kind, values in INTEGERS.items()
    },
    "common divisors of nothing": (torch.gcd, [INTEGERS[torch.int32][:0]] * 2),
    **{
        name: (getattr(torch, name), [ROW])
        for name in ("lgamma", "digamma", "sinc", "deg2rad", "rad2deg", "signbit", "i0", "frexp")
    },
    **{
        name: (getattr(torch.special, name), [ROW])
        for name in ("i0e", "i1", "i1e", "entr", "psi")
    },
    "signs": (torch.signbit, [torch.tensor([-NAN, NAN, -0.0]).copysign(torch.tensor([-1.0]))]),
    "signs of integers": (torch.signbit, [WHOLE]),
    "numbers whose erf": (torch.erfinv, [INSIDE]),
    "polygamma": (lambda x: (torch.polygamma(0, x), torch.polygamma(1, x)), [FRACTIONS]),
    "gamma functions of matrices": (lambda x: torch.mvlgamma(x, 3), [ROW[16:22].abs() + 1.5]),
    "functions of integers": (
        lambda x: (torch.lgamma(x), torch.i0(x), torch.sinc(x), torch.deg2rad(x)), [WHOLE[:, 2:]]
    ),
    "next numbers": (torch.nextafter, [X, Y]),
    "powers of 2": (torch.ldexp, [ROW, torch.arange(23) - 9]),
    "too large powers of 2": (torch.ldexp, [ROW[7:10], torch.tensor([200, -200, 3])]),
    **{
        name: (getattr(torch, name), [X, Y]) for name in ("xlogy", "heaviside", "logaddexp2")
    },
    "xlog1py": (torch.special.xlog1py, [X, Y]),
    "angles": (lambda x, i: (torch.angle(x), torch.angle(i)), [ROW, WHOLE]),
    "membership": (
        lambda x, y: (torch.isin(x, y), torch.isin(x, y, invert=True), torch.isin(x, y[:0])),
        [ROW, torch.tensor([0.0, NAN, INF])],
    ),
    "vdot": (torch.vdot, [SIDES[0, :, 0], SIDES[1, :, 0]]),
    "halves": (
        lambda x: (torch.lgamma(x), torch.i0(x), torch.sinc(x), torch.signbit(x)),
        [ROW[9:20].half()],
    ),
}  # fmt: skip
MATRICES: dict[str, Case] = {
    "eigenvalues": (torch.linalg.eigvalsh, [STACK]),
    "eigenvalues by the upper triangle": (lambda a: torch.linalg.eigvalsh(a, "U"), [STACK]),
    "singular values": (torch.linalg.svdvals, [SIDES]),
    **{
        f"triangles {upper} {left} {ones}": (
            lambda a, b, u=upper, s=left, o=ones: torch.linalg.solve_triangular(
                a, b if s else b.mT, upper=u, left=s, unitriangular=o
            ),
            [STACK + 2 * torch.eye(4), SIDES],
        )
        for upper in (False, True)
        for left, ones in ((True, False), (False, False), (True, True))
    },
    **{
        f"factors {upper}": (
            lambda a, b, u=upper: torch.cholesky_solve(
                b, torch.linalg.cholesky(a, upper=u), upper=u
            ),
            [GOOD, SIDES],
        )
        for upper in (False, True)
    },
    **{
        f"orthogonal {mode}": (
            lambda a, b, m=mode: (*torch.linalg.qr(a, m), *torch.linalg.qr(b, m)),
            [STACK, SIDES.mT],
        )
        for mode in ("reduced", "complete", "r")
    },
    "orthogonal already": (
        lambda a, b: (*torch.linalg.qr(a), *torch.linalg.qr(b), *torch.linalg.qr(a[:0])),
        [torch.eye(3), torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 3.0, 3.0]])],
    ),
    "orthogonal up to what is not finite": (
        lambda a, b: (*torch.linalg.qr(a), *torch.linalg.qr(b)),
        [torch.tensor([[1.0, 2, 3], [4, value, 6], [7, 8, 10]]) for value in (NAN, INF)],
    ),
    "exponentials": (
        lambda a, b, c: tuple(map(torch.linalg.matrix_exp, (a, b, c))),
        [STACK, torch.tensor([[90.0, 0.0], [0.0, -90.0]]), torch.zeros(2, 0, 0)],
    ),
    "factors by position": (lambda a: (torch.cholesky(a, True), torch.cholesky(a)), [GOOD]),
    "exponentials that are not finite": (
        lambda a, b, c: tuple(map(torch.linalg.matrix_exp, (a, b, c, c[0], c[1]))),
        [torch.stack([torch.eye(2), torch.full((2, 2), NAN)]), torch.tensor([[INF, 0], [1, 2.0]]),
         torch.tensor([[[INF]], [[-INF]]])],
    ),
    "inverses in the wider sense": (
        lambda a, t: (torch.linalg.pinv(a), torch.linalg.pinv(a.mT, rcond=0.5),
                      torch.linalg.pinv(a, atol=torch.tensor(1.0), rtol=t),
                      torch.linalg.pinv(a @ a.mT, hermitian=True, atol=0.1)),
        [SIDES, torch.tensor([0.1, 0.6])],
    ),
    "inverses of what has none": (
        lambda a: (torch.linalg.pinv(a), torch.linalg.pinv(a * 0), torch.linalg.pinv(a[:0])),
        [torch.ones(3, 2)],
    ),
    "ranks": (
        lambda a: (torch.linalg.matrix_rank(a), torch.linalg.matrix_rank(a, tol=1.5),
                   torch.linalg.matrix_rank(a, rtol=0.5), torch.linalg.matrix_rank(a[0] * 0)),
        [SIDES],
    ),
    "cross": (lambda a, b: torch.linalg.cross(a, b, dim=1), [SIDES[:, :3], SIDES[:, 1:]]),
    "trace": (lambda a, i: (torch.trace(a[0]), torch.trace(i)), [SIDES, WHOLE[:, 2:].T.clone()]),
    "renorm": (
        lambda a: tuple(torch.renorm(a, p, dim, 1.5) for p, dim in ((2, 0), (1, -1), (INF, 1))),
        [SIDES],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions(name: str) -> None:
    compare(FUNCTIONS[name], signs=name in ("signs", "next numbers", "frexp"), rtol=3e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str) -> None:
    compare(MATRICES[name])


def test_exponentials_of_halves() -> None:
    """Torch 2.13 has numbers by chance for these."""
    x = torch.tensor([[0.0, 1.0], [0.0, 1.5]]).half()
    graph = infuse.from_torch(Net(torch.linalg.matrix_exp).eval(), (x,))
    (made,) = evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()
    assert made.dtype == np.float16
    np.testing.assert_allclose(made, torch.linalg.matrix_exp(x.float()), rtol=1e-3)


def test_special_functions_of_compiled_code() -> None:
    def function(x: torch.Tensor) -> Any:
        mantissa, exponent = torch.frexp(x)
        return torch.lgamma(x), torch.i0(x), torch.signbit(x), mantissa, exponent

    compare((function, [ROW]), compiled=True)


def test_matrices_and_divisors_of_compiled_code() -> None:
    def function(a: torch.Tensor, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> Any:
        return (
            *torch.linalg.qr(a), torch.linalg.matrix_exp(a), torch.linalg.pinv(a),
            torch.special.erfcx(x), torch.special.ndtri(y),
            torch.gcd(n[:, None], n), torch.lcm(n[:, None], n),
        )  # fmt: skip

    compare((function, [STACK, TAILS, SHARES, INTEGERS[torch.int32]]), compiled=True)


def test_the_tails_of_float64() -> None:
    """All digits, also where next to nothing is left."""
    x = torch.cat([torch.linspace(-25, 27, 400), torch.logspace(-30, 30, 40)]).double()
    share = torch.cat([torch.linspace(0, 1, 400), torch.logspace(-37, -1, 40)]).double()
    near = 0.5 + torch.logspace(-9, -1, 30, dtype=torch.float64)

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return torch.special.erfcx(x), torch.erfc(x), torch.special.ndtri(y), torch.special.ndtri(z)

    graph = infuse.from_torch(Net(function).eval(), (x, share, near))
    feeds = zip(graph.inputs, (x, share, near), strict=True)
    made = evaluate(graph, {value.name: tensor.numpy() for value, tensor in feeds}).values()
    for ours, right in zip(made, function(x, share, near), strict=True):
        np.testing.assert_allclose(ours, right.numpy(), rtol=1e-12, atol=1e-300)


def test_the_accuracy_of_float64() -> None:
    """No farther from torch than some rounding errors, but beside zeros of the functions."""
    x = torch.linspace(-9.3, 45, 2000, dtype=torch.float64)

    def function(x: torch.Tensor) -> Any:
        return torch.lgamma(x), torch.digamma(x), torch.i0(x), torch.special.i1e(x)

    graph = infuse.from_torch(Net(function).eval(), (x,))
    made = evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()
    for ours, right in zip(made, function(x), strict=True):
        np.testing.assert_allclose(ours, right.numpy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (lambda x: torch.polygamma(2, x), ROW, "order 2"),
        (torch.erfinv, INSIDE.double(), "float64"),
        (lambda x: torch.linalg.eigh(x)[1], GOOD, "eigenvectors"),
        (lambda x: torch.linalg.svd(x)[0], GOOD, "singular vectors"),
    ],
)
def test_what_is_refused(function: Any, x: torch.Tensor, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        infuse.from_torch(Net(function).eval(), (x,))
