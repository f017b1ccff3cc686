"""Random well-typed networks: a few dozen operators, shapes with and without symbols, values that stay moderate."""

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Graph, Value, constant
from tests.native.builder import Builder

LARGEST = 20_000
"""Elements of one value."""
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33)
UNARY = (
    *("Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "Abs", "Neg", "Softplus", "HardSwish", "LeakyRelu", "Elu", "Softsign"),
    *("Mish", "Sin", "Cos", "Identity", "HardSigmoid", "Selu"),
)


class RandomModel:
    """Grows a network of `steps` operators in `builder`; `open_` makes the first axis of the inputs a symbol."""

    def __init__(self, builder: Builder, seed: int, steps: int, open_: bool) -> None:
        self.b = builder
        self.rng = np.random.default_rng(seed)
        self.open = open_
        self.values = [self._input() for _ in range(self.rng.integers(1, 4))]
        self.inputs = list(self.values)
        table: list[tuple[int, Callable[[Value], Value | None]]] = [
            (6, self.unary), (5, self.binary), (1, self.guarded), (1, self.where), (3, self.transpose),
            (3, self.reshape), (3, self.slice), (3, self.concat), (2, self.split), (2, self.pad), (1, self.tile),
            (1, self.expand), (1, self.unsqueeze), (2, self.gather), (3, self.reduce), (2, self.softmax),
            (2, self.normalize), (1, self.cumulate), (3, self.linear), (2, self.product), (1, self.einsum),
            (4, self.conv), (3, self.pool), (1, self.batch_norm), (1, self.conv_transpose), (1, self.resize),
            (1, self.depth_to_space), (1, self.clip), (1, self.half),
        ]  # fmt: skip
        weights = np.array([weight for weight, _ in table], float)
        made = 0
        for _ in range(steps * 10):
            grow = table[self.rng.choice(len(table), p=weights / weights.sum())][1]
            found = grow(self._pick())
            if found is not None:
                self.values.append(found)
                made += 1
            if made == steps:
                break
        self._finish()

    # -- helpers -------------------------------------------------------------------------------------------------

    def _one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def _pick(self) -> Value:
        """A value, rather a late one."""
        place = len(self.values) - 1 - int(self.rng.geometric(0.4) - 1)
        return self.values[max(place, 0)]

    def _input(self) -> Value:
        rank = int(self._one(1, 2, 3, 3, 4, 4, 4))
        shape: list[Any] = [int(self._one(*SIZES)) for _ in range(rank)]
        if rank == 4:
            shape = [int(self._one(1, 2)), int(self._one(3, 4, 8, 16)), *(int(self._one(5, 8, 9)) for _ in range(2))]
        if self.open:
            shape[0] = "n"
        return self.b.input(*shape)

    def _finish(self) -> None:
        used = [v for v in self.values if not v.uses]
        spare = [v for v in self.values if v.uses and v.producer is not None]
        for value in (*used, *spare[:: max(1, len(spare) // 2)][:2]):
            self.b.output(value)

    def _fits(self, *sizes: Any) -> bool:
        number = dims.substitute(dims.product(sizes), {"n": 4})
        return isinstance(number, int) and number <= LARGEST

    def _numbers(self, v: Value) -> list[int]:
        """The axes whose sizes are numbers."""
        return [i for i, d in enumerate(v.shape) if isinstance(d, int)]

    def _axis(self, v: Value) -> int | None:
        axes = [i for i in self._numbers(v) if v.shape[i] != 1] or self._numbers(v)
        return int(self._one(*axes)) if axes else None

    def _weight(self, *shape: int, scale: float = 1.0) -> Value:
        return constant((self.rng.uniform(-1, 1, shape) * scale).astype(np.float32))

    # -- elementwise ---------------------------------------------------------------------------------------------

    def unary(self, v: Value) -> Value:
        return self.b(self._one(*UNARY), v)

    def clip(self, v: Value) -> Value:
        return self.b("Clip", v, -1.0, float(self._one(0.5, 1.5)))

    def guarded(self, v: Value) -> Value:
        size = self.b("Add", self.b("Abs", v), 0.5)
        return self.b(self._one("Sqrt", "Reciprocal", "Log"), size)

    def half(self, v: Value) -> Value:
        """Through float16, after what is the same in both."""
        return self.b("Cast", self.b("Cast", self.b("Tanh", v), to=dtypes.bfloat16), to=dtypes.float32)

    def _partner(self, v: Value) -> Value:
        same = [w for w in self.values if w.shape == v.shape]
        if same and self.rng.random() < 0.6:
            return same[self.rng.integers(len(same))]
        keep = int(self.rng.integers(0, v.rank + 1))
        shape = [d if isinstance(d, int) and self.rng.random() < 0.7 else 1 for d in v.shape[v.rank - keep :]]
        return self._weight(*(int(d) for d in shape))

    def binary(self, v: Value) -> Value:
        other = self._partner(v)
        pair = (v, other) if self.rng.random() < 0.5 else (other, v)
        kind = self._one("Add", "Sub", "Mul", "Max", "Min", "Div", "Mean")
        if kind == "Mul":
            return self.b("Mul", self.b("Tanh", pair[0]), pair[1])
        if kind == "Div":
            return self.b("Div", pair[0], self.b("Add", self.b("Abs", pair[1]), 1.0))
        return self.b(kind, *pair)

    def where(self, v: Value) -> Value:
        """A choice by an input, whose elements both sides know exactly."""
        source = self.inputs[self.rng.integers(len(self.inputs))]
        mask = self.b("Greater", source, 0.1)
        if source.shape == v.shape:
            return self.b("Where", mask, v, self.b("Neg", v))
        return self.b("Mul", source, self.b("Cast", self.b("Not", mask), to=dtypes.float32))

    # -- movement ------------------------------------------------------------------------------------------------

    def transpose(self, v: Value) -> Value:
        return self.b("Transpose", v, perm=tuple(int(i) for i in self.rng.permutation(v.rank)))

    def reshape(self, v: Value) -> Value | None:
        if v.rank < 2:
            return None
        axis = int(self.rng.integers(0, v.rank - 1))
        before, after = [0] * axis, list(v.shape[axis + 2 :])
        second = v.shape[axis + 1]
        if self.rng.random() < 0.5 and isinstance(second, int) and all(isinstance(d, int) for d in after):
            factor = next((k for k in (4, 3, 2) if second % k == 0), 1)
            return self.b("Reshape", v, [*before, 0, factor, second // factor, *after])
        if all(isinstance(d, int) for d in after):
            return self.b("Reshape", v, [*before, -1, *after])
        return self.b("Flatten", v, axis=axis + 1)

    def slice(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None:
            return None
        size = int(v.shape[axis])  # type: ignore[arg-type]
        start, step = int(self.rng.integers(0, size)), int(self._one(1, 1, 1, 2, -1))
        end = 2**40 if step > 0 else -(2**40)
        return self.b("Slice", v, [start], [end], [axis], [step])

    def concat(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None or not self._fits(*v.shape, 3):
            return None
        rest = (*v.shape[:axis], *v.shape[axis + 1 :])
        fits = [w for w in self.values if w.rank == v.rank and (*w.shape[:axis], *w.shape[axis + 1 :]) == rest]
        others = [fits[self.rng.integers(len(fits))] for _ in range(self.rng.integers(1, 3))]
        others = [w if self.rng.random() < 0.5 else self.b("Tanh", w) for w in others if self._fits(*w.shape, 3)]
        return self.b("Concat", *self.rng.permutation(np.array([v, *others, None], object)[:-1]), axis=axis)

    def split(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None or not isinstance(v.shape[axis], int) or v.shape[axis] < 2:
            return None
        parts = self.b.several(2, "Split", v, num_outputs=2, axis=axis)
        self.values.append(self.b("Relu", parts[1]))
        return parts[0]

    def pad(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None or not self._fits(*v.shape, 2):
            return None
        mode = self._one("constant", "constant", "edge", "reflect")
        most = 2 if mode != "reflect" else min(2, int(v.shape[axis]) - 1)  # type: ignore[arg-type]
        amounts = [int(self.rng.integers(0, most + 1)) for _ in range(2)]
        return self.b("Pad", v, amounts, 0.25 if mode == "constant" else None, [axis], mode=mode)

    def tile(self, v: Value) -> Value | None:
        repeats = [int(self._one(1, 1, 2)) for _ in v.shape]
        return self.b("Tile", v, repeats) if self._fits(*v.shape, *repeats) else None

    def expand(self, v: Value) -> Value | None:
        target = [2, *(3 if d == 1 else 1 for d in v.shape)]
        return self.b("Expand", v, target) if v.rank < 5 and self._fits(*v.shape, 2, 3, 3) else None

    def unsqueeze(self, v: Value) -> Value | None:
        ones = [i for i, d in enumerate(v.shape) if d == 1]
        if ones:
            return self.b("Squeeze", v, [ones[0]])
        return self.b("Unsqueeze", v, [int(self.rng.integers(0, v.rank + 1))]) if v.rank < 5 else None

    def gather(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None:
            return None
        size = int(v.shape[axis])  # type: ignore[arg-type]
        if self.rng.random() < 0.4 and v.rank > 1:
            return self.b("Gather", v, np.array(self.rng.integers(-size, size)), axis=axis)
        return self.b("Gather", v, self.rng.integers(-size, size, self.rng.integers(1, 6)), axis=axis)

    def depth_to_space(self, v: Value) -> Value | None:
        if v.rank != 4 or not isinstance(v.shape[1], int) or v.shape[1] % 4:
            return None
        return self.b("DepthToSpace", v, blocksize=2, mode=self._one("DCR", "CRD"))

    # -- lines ---------------------------------------------------------------------------------------------------

    def reduce(self, v: Value) -> Value:
        kind = self._one("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum", "ReduceLogSumExp")
        axes = sorted({int(a) for a in self.rng.integers(0, v.rank, self.rng.integers(1, 3))}) if v.rank else []
        found = self.b(kind, v, axes or None, keepdims=int(self._one(0, 1)))
        return self.b("Tanh", self.b("Mul", found, 0.1)) if kind in ("ReduceSum", "ReduceL2") else found

    def softmax(self, v: Value) -> Value | None:
        return self.b(self._one("Softmax", "Softmax", "LogSoftmax"), v, axis=-1) if v.rank else None

    def normalize(self, v: Value) -> Value | None:
        if not v.rank or not isinstance(v.shape[-1], int) or v.shape[-1] < 3:
            return None
        spread = self.b("Add", v, constant(np.linspace(-1, 1, v.shape[-1], dtype=np.float32)))
        if self.rng.random() < 0.5:
            return self.b("RMSNormalization", spread, self._weight(v.shape[-1]))
        return self.b("LayerNormalization", spread, self._weight(v.shape[-1]), self._weight(v.shape[-1]))

    def cumulate(self, v: Value) -> Value | None:
        axis = self._axis(v)
        if axis is None:
            return None
        return self.b("Tanh", self.b("CumSum", self.b("Mul", v, 0.1), np.array(axis), reverse=int(self._one(0, 1))))

    # -- products ------------------------------------------------------------------------------------------------

    def linear(self, v: Value) -> Value | None:
        if v.rank < 2 or not isinstance(v.shape[-1], int):
            return None
        k, n = v.shape[-1], int(self._one(1, 5, 8, 16, 33))
        if not self._fits(*v.shape[:-1], n):
            return None
        weight = self._weight(k, n, scale=1 / max(k, 1) ** 0.5)
        if v.rank == 2 and self.rng.random() < 0.5:
            turned = constant(np.ascontiguousarray(weight.const.T)) if weight.const is not None else weight
            return self.b("Gemm", v, turned, self._weight(n), transB=1, alpha=0.5)
        return self.b("MatMul", v, weight)

    def product(self, v: Value) -> Value | None:
        if v.rank < 2 or not self._fits(*v.shape[:-1], v.shape[-2]):
            return None
        swapped = (*range(v.rank - 2), v.rank - 1, v.rank - 2)
        return self.b("Tanh", self.b("MatMul", v, self.b("Transpose", self.b("Sigmoid", v), perm=swapped)))

    def einsum(self, v: Value) -> Value | None:
        if v.rank != 3 or not isinstance(v.shape[2], int):
            return None
        return self.b("Einsum", v, self._weight(v.shape[2], 5, scale=0.3), equation="abc,cd->bad")

    # -- images --------------------------------------------------------------------------------------------------

    def conv(self, v: Value) -> Value | None:
        if v.rank not in (3, 4) or not all(isinstance(d, int) for d in v.shape[1:]):
            return None
        channels, *plane = (int(d) for d in v.shape[1:] if isinstance(d, int))
        kernel = [int(self._one(1, 1, 3, 3, 5)) for _ in plane]
        dilation = int(self._one(1, 1, 2))
        pads = [int(self._one(0, k // 2, k // 2)) for k in kernel]
        if any(p * 2 + size < (k - 1) * dilation + 1 for p, size, k in zip(pads, plane, kernel)):
            return None
        group = int(self._one(1, 1, channels, 2 if channels % 2 == 0 else 1))
        filters = group * int(self._one(1, 2)) if group > 1 else int(self._one(3, 8, 16, 17))
        weight = self._weight(filters, channels // group, *kernel, scale=1 / (channels // group * kernel[0]) ** 0.5)
        bias = self._one(None, self._weight(filters))
        more = {"strides": tuple(int(self._one(1, 1, 2)) for _ in plane), "dilations": (dilation,) * len(plane)}
        return self.b("Conv", v, weight, bias, group=group, pads=(*pads, *pads), **more)

    def conv_transpose(self, v: Value) -> Value | None:
        if v.rank != 4 or not isinstance(v.shape[1], int) or not self._fits(*v.shape, 4):
            return None
        weight = self._weight(v.shape[1], 3, 3, 2, scale=0.3)
        return self.b("ConvTranspose", v, weight, self._weight(3), strides=(2, 2), pads=(1, 0, 0, 1))

    def pool(self, v: Value) -> Value | None:
        if v.rank != 4 or not all(isinstance(d, int) and d >= 2 for d in v.shape[2:]):
            return None
        kind = self._one("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
        if kind.startswith("Global"):
            return self.b(kind, v)
        more = {"count_include_pad": int(self._one(0, 1))} if kind == "AveragePool" else {}
        ceil_mode = int(self._one(0, 1))
        return self.b(kind, v, kernel_shape=(2, 2), strides=(2, 1), pads=(1, 0, 1, 0), ceil_mode=ceil_mode, **more)

    def batch_norm(self, v: Value) -> Value | None:
        if v.rank != 4 or not isinstance(v.shape[1], int):
            return None
        channels = v.shape[1]
        spread = constant(np.linspace(0.5, 2, channels, dtype=np.float32))
        return self.b("BatchNormalization", v, *(self._weight(channels) for _ in range(3)), spread)

    def resize(self, v: Value) -> Value | None:
        if v.rank != 4 or not self._fits(*v.shape, 4):
            return None
        return self.b("Resize", v, None, np.float32([1, 1, 2, 1.5]), mode=self._one("nearest", "linear"))


def random_graph(seeds: range, steps: int) -> tuple[Graph, dict[str, int]]:
    """Several networks in one graph, and which seed gave which output."""
    b = Builder(f"random_{seeds.start}")
    origin: dict[str, int] = {}
    for seed in seeds:
        before = len(b.graph.outputs)
        RandomModel(b, seed, steps, open_=seed % 2 == 1)
        origin.update((name, seed) for name in b.graph.output_names[before:])
    return b.graph, origin
