"""EfficientNet-Lite0 in PyTorch, whose modules are named as in the file of its weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

STAGES = (
    # blocks, kernel, stride of the first, channels in and out, expansion
    (1, 3, 1, 32, 16, 1),
    (2, 3, 2, 16, 24, 6),
    (2, 5, 2, 24, 40, 6),
    (3, 3, 2, 40, 80, 6),
    (3, 5, 1, 80, 112, 6),
    (4, 5, 2, 112, 192, 6),
    (1, 3, 1, 192, 320, 6),
)
EPSILON = 1e-3


class Convolution(nn.Conv2d):
    """Padded as TensorFlow does: what does not go evenly around the picture goes to its end."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """[rows, channels, h, w] → [rows, channels, h / stride, w / stride], rounded up."""
        size, stride = self.kernel_size[0], self.stride[0]
        height, width = input.shape[2:]
        down, right = (max(0, size - (n % stride or stride)) for n in (height, width))
        padding = (right // 2, right - right // 2, down // 2, down - down // 2)
        return super().forward(nn.functional.pad(input, padding))


class Block(nn.Module):
    """1x1 convolution to more channels, depthwise convolution, 1x1 convolution to fewer."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, ratio: int) -> None:
        super().__init__()
        inner = inputs * ratio
        self.expanded, self.residual = ratio > 1, stride == 1 and inputs == outputs
        if self.expanded:
            self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, EPSILON)
        self._depthwise_conv = Convolution(inner, inner, kernel, stride, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, EPSILON)
        self._project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(outputs, EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, inputs, h, w] → [rows, outputs, h / stride, w / stride]."""
        y = nn.functional.relu6(self._bn0(self._expand_conv(x))) if self.expanded else x
        y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.residual else y


class Lite0(nn.Module):
    """Pictures [rows, 3, 224, 224] → scores of the classes of ImageNet [rows, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = Convolution(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, EPSILON)
        self._blocks = nn.Sequential(
            *(
                Block(outputs if i else inputs, outputs, kernel, 1 if i else stride, ratio)
                for count, kernel, stride, inputs, outputs, ratio in STAGES
                for i in range(count)
            )
        )
        self._conv_head = nn.Conv2d(320, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, EPSILON)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores."""
        x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
        x = nn.functional.relu6(self._bn1(self._conv_head(self._blocks(x))))
        return self._fc(x.mean((2, 3)))


def lite0(path: Path) -> Lite0:
    """The network with the weights of a file, in evaluation mode."""
    network = Lite0()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval()
