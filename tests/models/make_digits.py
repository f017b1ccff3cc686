"""Trains the digits network of the tests and writes data/digits.onnx and data/digits_test.npz:
`make digits`.

A small CNN on the 8×8 digits of scikit-learn with what real networks are made of: convolution,
batch norm, activation, pooling, a depthwise separable residual block, a linear layer. Norms stay
unfolded and the batch is symbolic.
"""

import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

DATA = Path(__file__).parent / "data"
EPOCHS = 30
BATCH = 64


def block(inputs: int, outputs: int, kernel: int, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU."""
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class Digits(nn.Module):
    """(batch, 1, 8, 8) images in [0, 1] → (batch, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(block(1, 32, 3), block(32, 48, 3), nn.MaxPool2d(2))
        self.residual = nn.Sequential(block(48, 48, 3, groups=48), block(48, 48, 1))
        self.head = nn.Sequential(
            block(48, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of each image."""
        x = self.stem(image)
        logits: torch.Tensor = self.head(x + self.residual(x))
        return logits


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images and labels, the same at every call."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    return train_x, test_x, train_y, test_y


def train(images: np.ndarray, labels: np.ndarray) -> Digits:
    """Train from a fixed seed on one thread, so that every run gives the same weights on one
    machine.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def main() -> None:
    """Train, export, and say how good the network is."""
    train_x, test_x, train_y, test_y = split()
    model = train(train_x, train_y)
    with torch.no_grad():
        right = (model(torch.from_numpy(test_x)).argmax(1).numpy() == test_y).sum()
    DATA.mkdir(exist_ok=True)
    path = DATA / "digits.onnx"
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (torch.from_numpy(test_x[:2]),),
            str(path),
            input_names=["image"],
            output_names=["logits"],
            dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            opset_version=17,
            dynamo=False,
        )
    pixels = (test_x * 16).round().astype(np.uint8)
    np.savez_compressed(DATA / "digits_test.npz", pixels=pixels, labels=test_y.astype(np.int64))
    print(
        f"{path.name}: {path.stat().st_size / 1024:.0f} KiB, {right} of {len(test_y)} test images "
        "right"
    )


if __name__ == "__main__":
    main()
