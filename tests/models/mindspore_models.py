"""Whole networks of MindSpore, small: text of classes, which MindSpore compiles, and inputs."""

from __future__ import annotations

import numpy as np

from tests.models.mindspore_cases import floats, whole

SOURCE = """
import mindspore as ms
from mindspore import Tensor, mint, nn, ops


class LeNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid", has_bias=True)
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True)
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(256, 60)
        self.fc2 = nn.Dense(60, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


class Block(nn.Cell):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, pad_mode="pad", padding=1)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU()
        self.down = nn.SequentialCell(
            [nn.Conv2d(before, 4 * width, 1, stride), nn.BatchNorm2d(4 * width)]
        )
        self.turned = stride > 1 or before != 4 * width

    def construct(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        if self.turned:
            x = self.down(x)
        return self.relu(y + x)


class ResNet(nn.Cell):
    def __init__(self, width=4, counts=(3, 4, 6, 3)):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 7, 2, pad_mode="pad", padding=3)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, "same")
        blocks = []
        before = width
        for stage, count in enumerate(counts):
            for number in range(count):
                wide = width * 2**stage
                blocks.append(Block(before, wide, 2 if stage and not number else 1))
                before = 4 * wide
        self.blocks = nn.SequentialCell(blocks)
        self.fc = nn.Dense(before, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.norm(self.conv(x))))
        x = ops.mean(self.blocks(x), (2, 3))
        return self.fc(x)


class Inverted(nn.Cell):
    def __init__(self, before, after, stride, factor):
        super().__init__()
        wide = before * factor
        self.body = nn.SequentialCell(
            [
                nn.Conv2d(before, wide, 1), nn.BatchNorm2d(wide), nn.ReLU6(),
                nn.Conv2d(wide, wide, 3, stride, group=wide), nn.BatchNorm2d(wide), nn.ReLU6(),
                nn.Conv2d(wide, after, 1), nn.BatchNorm2d(after),
            ]
        )
        self.adds = stride == 1 and before == after

    def construct(self, x):
        y = self.body(x)
        if self.adds:
            y = x + y
        return y


class MobileNetV2(nn.Cell):
    def __init__(self, rows=((1, 4, 1, 1), (6, 6, 2, 2), (6, 8, 3, 2)), width=8, last=32):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, 2), nn.BatchNorm2d(width), nn.ReLU6()]
        before = width
        for factor, after, count, stride in rows:
            for number in range(count):
                layers.append(Inverted(before, after, 1 if number else stride, factor))
                before = after
        layers += [nn.Conv2d(before, last, 1), nn.BatchNorm2d(last), nn.ReLU6()]
        self.layers = nn.SequentialCell(layers)
        self.drop = nn.Dropout(p=0.2)
        self.fc = nn.Dense(last, 5)

    def construct(self, x):
        return self.fc(self.drop(ops.ReduceMean()(self.layers(x), (2, 3))))


class Attention(nn.Cell):
    def __init__(self, size, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Dense(size, size) for _ in range(4))
        self.heads = heads
        self.each = size // heads
        self.norm = nn.LayerNorm((size,), epsilon=1e-12)
        self.norm2 = nn.LayerNorm((size,), epsilon=1e-12)
        self.up = nn.Dense(size, 2 * size, activation="gelu")
        self.down = nn.Dense(2 * size, size)
        self.softmax = nn.Softmax(-1)
        self.product = ops.BatchMatMul(transpose_b=True)

    def split(self, x):
        batch, length, size = x.shape
        return x.reshape(batch, length, self.heads, self.each).transpose(0, 2, 1, 3)

    def construct(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = self.product(q, k) / self.each**0.5 + (1.0 - mask) * -10000.0
        y = ops.matmul(self.softmax(scores), v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = self.norm(x + self.o(y))
        return self.norm2(x + self.down(self.up(x)))


class Bert(nn.Cell):
    def __init__(self, size=16, heads=2, layers=2, words=30):
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.places = nn.Embedding(12, size)
        self.norm = nn.LayerNorm((size,), epsilon=1e-12)
        self.layers = nn.CellList([Attention(size, heads) for _ in range(layers)])
        self.pool = nn.Dense(size, size, activation="tanh")

    def construct(self, ids, mask):
        length = ids.shape[1]
        x = self.norm(self.words(ids) + self.places(ops.arange(length)))
        wide = mask.astype(ms.float32).expand_dims(1).expand_dims(2)
        for layer in self.layers:
            x = layer(x, wide)
        return x, self.pool(x[:, 0])


class Tagger(nn.Cell):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.fc = nn.Dense(10, 4)

    def construct(self, ids):
        y, _ = self.lstm(self.words(ids))
        return ops.log_softmax(self.fc(y), -1)


class Branches(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 3)

    def construct(self, x):
        if x.sum() > 0:
            x = self.fc(x) * 2
        else:
            x = x - 1
        if x.max() > 1:
            return x, x.mean()
        return x + 1, x.sum()


class Loops(nn.Cell):
    def construct(self, x, count):
        i = ops.zeros((), ms.int32)
        while i < count:
            if x.sum() > 3:
                x = x * 0.5
            else:
                x = x + 1
            i = i + 1
        return x, i


class Nested(nn.Cell):
    def construct(self, x, count):
        i = ops.zeros((), ms.int32)
        total = x * 0
        while i < count:
            j = ops.zeros((), ms.int32)
            while j < i:
                total = total + x * j
                j = j + 1
            i = i + 1
        return total


class Collatz(nn.Cell):
    def construct(self, n):
        steps = ops.zeros((), ms.int32)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps = steps + 1
        return steps
"""
MODELS: dict[str, tuple[str, list[np.ndarray]]] = {
    "LeNet": ("LeNet()", [floats(2, 1, 28, 28)]),
    "ResNet-50": ("ResNet(2)", [floats(1, 3, 40, 40)]),
    "MobileNetV2": ("MobileNetV2()", [floats(1, 3, 32, 32)]),
    "BERT": ("Bert()", [whole(2, 7, low=0, high=30), np.tril(np.ones((2, 7), np.int32), 4)]),
    "LSTM": ("Tagger()", [whole(2, 5, low=0, high=20)]),
    "if": ("Branches()", [floats(2, 3)]),
    "if-other": ("Branches()", [-np.abs(floats(2, 3))]),
    "while": ("Loops()", [floats(2, 3), np.array(5, np.int32)]),
    "while-none": ("Loops()", [floats(2, 3), np.array(0, np.int32)]),
    "while-nested": ("Nested()", [floats(2, 3), np.array(4, np.int32)]),
    "while-collatz": ("Collatz()", [np.array(27, np.int32)]),
}
"""By name: how a network is made, and its inputs."""
DYNAMIC: dict[str, tuple[str, list[np.ndarray], list[tuple[int | None, ...]]]] = {
    "LeNet": ("LeNet()", [floats(3, 1, 28, 28)], [(None, 1, 28, 28)]),
    "BERT": ("Bert()", [whole(3, 5, low=0, high=30), np.ones((3, 5), np.int32)],
             [(None, None), (None, None)]),
    "MobileNetV2": ("MobileNetV2()", [floats(2, 3, 32, 32)], [(None, 3, None, None)]),
}  # fmt: skip
"""The same with sizes that are not fixed."""
