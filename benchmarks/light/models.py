"""Builds the light networks in PyTorch, with seeded random weights, and exports them to ONNX."""

from pathlib import Path

import torch
from torch import nn

from benchmarks.light.networks import NETWORKS
from benchmarks.torchvision_schemas import make_importable
from benchmarks.zoo_models import Recipe, randomize, write

V1 = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""MobileNetV1 (arXiv 1704.04861, table 1): channels and stride of each separable layer."""
MCUNET_320KB = (
    (1, 8, 1, 3),
    (3, 16, 2, 7),
    (5, 16, 1, 3),
    (5, 16, 1, 7),
    (4, 16, 1, 5),
    (5, 24, 2, 5),
    (5, 24, 1, 5),
    (5, 24, 1, 5),
    (5, 40, 2, 3),
    (6, 40, 1, 7),
    (4, 40, 1, 5),
    (5, 48, 1, 5),
    (5, 48, 1, 7),
    (5, 48, 1, 3),
    (6, 96, 2, 3),
    (5, 96, 1, 7),
    (4, 96, 1, 3),
    (5, 160, 1, 7),
)
"""mcunet-320kb-1mb_imagenet.json of mit-han-lab/tinyml at e899b1be: expansion, channels, stride and
filter size of each inverted residual block.
"""
CLASSES = 1000


def convolved(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, active: bool = True
) -> nn.Sequential:
    """A convolution that keeps the size but for the stride, its normalization, and ReLU6."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([nn.ReLU6()] if active else []))


class Inverted(nn.Module):
    """An inverted residual block: wider, filtered by channels, and narrow again."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, size: int) -> None:
        super().__init__()
        inner = inputs * expansion
        wider = [convolved(inputs, inner, 1)] if expansion > 1 else []
        self.layers = nn.Sequential(
            *wider,
            convolved(inner, inner, size, stride, inner),
            convolved(inner, outputs, 1, active=False),
        )
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, inputs, H, W) → (N, outputs, H/stride, W/stride)."""
        result: torch.Tensor = self.layers(x)
        return x + result if self.is_residual else result


def classifier(*layers: nn.Module, channels: int) -> nn.Sequential:
    """Layers, the mean of their result over the image, and a score for each class."""
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)
    )


def mobilenet_v1(width: float = 0.25) -> nn.Module:
    """MobileNetV1 with all channels times `width`."""
    channels = int(32 * width)
    layers: list[nn.Module] = [convolved(3, channels, 3, 2)]
    for full, stride in V1:
        layers.append(convolved(channels, channels, 3, stride, channels))
        layers.append(convolved(channels, int(full * width), 1))
        channels = int(full * width)
    return classifier(*layers, channels=channels)


def mcunet_320kb() -> nn.Module:
    """MCUNet for 320 kB of memory."""
    channels = 16
    layers: list[nn.Module] = [convolved(3, channels, 3, 2)]
    for expansion, outputs, stride, size in MCUNET_320KB:
        layers.append(Inverted(channels, outputs, expansion, stride, size))
        channels = outputs
    return classifier(*layers, channels=channels)


OWN = {"mobilenet_v1": mobilenet_v1, "mcunet_320kb": mcunet_320kb}


def build(name: str) -> nn.Module:
    """The network as its library builds it, untrained."""
    light = NETWORKS[name]
    if light.library == "own":
        return OWN[light.name]()
    make_importable()
    if light.library == "timm":
        import timm

        model: nn.Module = timm.create_model(light.name)
        return model
    import torchvision

    found: nn.Module = getattr(torchvision.models, light.name)()
    return found


def recipe(name: str) -> Recipe:
    """The network of that name for one image, the same weights at every call."""
    torch.manual_seed(0)
    model = randomize(build(name)).eval()
    size = NETWORKS[name].size
    return Recipe(model, (torch.randn(1, 3, size, size),), ["input"], ["output"], {})


def export(name: str, path: Path) -> None:
    """Write the ONNX file of a network by PyTorch's newer exporter."""
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator has no ONNX form
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    write(recipe(name), part, dynamo=True)
    part.rename(path)
