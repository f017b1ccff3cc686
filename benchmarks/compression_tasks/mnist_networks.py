"""The networks on digits, in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.compression_tasks.training import Schedule


def shifted(batch: torch.Tensor) -> torch.Tensor:
    """Pictures moved by up to two pixels, each its own way."""
    steps = torch.randint(-2, 3, (len(batch), 2)).tolist()
    return torch.stack([picture.roll(step, (1, 2)) for picture, step in zip(batch, steps)])


def lenet() -> tuple[nn.Module, Schedule]:
    """LeNet-5 with ReLU and maxima."""
    network = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    return network, Schedule(20)


class Residual(nn.Module):
    """Two 3x3 convolutions beside the identity, or beside a 1x1 convolution where sizes change."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *normalized(inputs, outputs, stride=stride), *normalized(outputs, outputs, last=True)
        )
        changed = inputs != outputs or stride > 1
        self.beside = nn.Conv2d(inputs, outputs, 1, stride) if changed else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, inputs, h, w] → [rows, outputs, h / stride, w / stride]."""
        return torch.relu(self.body(x) + self.beside(x))


def normalized(
    inputs: int, outputs: int, *, stride: int = 1, groups: int = 1, last: bool = False
) -> list[nn.Module]:
    """A 3x3 convolution, batch normalization, and ReLU unless it is the `last` of a sum."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride, 1, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), *([] if last else [nn.ReLU()])]


def resnet20(width: int = 16, epochs: int = 8) -> tuple[nn.Module, Schedule]:
    """The ResNet-20 of He et al. for small pictures: three times three residual blocks."""
    blocks = []
    for before, after in ((1, 1), (1, 2), (2, 4)):
        blocks.append(Residual(before * width, after * width, 1 + (before != after)))
        blocks += [Residual(after * width, after * width, 1) for _ in range(2)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)
    return nn.Sequential(*normalized(1, width), *blocks, *head), Schedule(epochs)


class Transformer(nn.Module):
    """Every row of a picture is a word: embedded with its place, and read by pre-norm layers."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Linear(28, width)
        self.places = nn.Parameter(0.02 * torch.randn(28, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(width, heads, 4 * width, 0.0, "gelu"), batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, 1, 28, 28] → [rows, 10]."""
        x = self.embed(x.squeeze(1)) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def transformer(width: int = 128, epochs: int = 12) -> tuple[nn.Module, Schedule]:
    """A transformer of six layers over the rows of pictures."""
    return Transformer(width, 6, 4), Schedule(epochs, rate=1e-3)


def resnet8(width: int = 16, epochs: int = 8) -> tuple[nn.Module, Schedule]:
    """The ResNet of MLPerf Tiny: three residual blocks of 16, 32 and 64 channels."""
    network = nn.Sequential(
        *normalized(1, width),
        Residual(width, width, 1),
        Residual(width, 2 * width, 2),
        Residual(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )
    return network, Schedule(epochs)


def mobilenet(width: int = 16, epochs: int = 15) -> tuple[nn.Module, Schedule]:
    """Depthwise 3x3 and 1x1 convolutions with batch normalization, as MobileNetV1 has them."""
    layers = normalized(1, width, stride=2)
    for before, after, stride in ((1, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2)):
        inputs, outputs = before * width, after * width
        layers += normalized(inputs, inputs, stride=stride, groups=inputs)
        layers += [nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10)
    return nn.Sequential(*layers, *head), Schedule(epochs)


def vgg() -> tuple[nn.Module, Schedule]:
    """Plain convolutions below dense layers, which have nearly all of its 2.2 million weights."""
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 10),
    )
    return network, Schedule(8, rate=1e-3)


def dense() -> tuple[nn.Module, Schedule]:
    """LeNet-300-100: three dense layers."""
    network = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 300),
        nn.ReLU(),
        nn.Linear(300, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
    return network, Schedule(30, rate=1e-3)


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Schedule]]] = {
    "lenet": lenet,
    "resnet8": resnet8,
    "mobilenet": mobilenet,
    "vgg": vgg,
    "wide_resnet8": functools.partial(resnet8, 48, 5),
    "wide_mobilenet": functools.partial(mobilenet, 48, 10),
    "dense": dense,
    "resnet20": resnet20,
    "transformer": transformer,
}
