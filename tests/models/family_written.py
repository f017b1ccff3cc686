"""Families written in plain PyTorch: recurrent, generating, segmenting, detecting, of graphs and of
sound.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from tests.models.family_network import WORDS, Input, Network

WORD_IDS = Input(("batch", "seq"), "ids")


class Tagger(nn.Module):
    """Two layers of a bidirectional recurrence over words, and the scores of a tag for each."""

    def __init__(self, kind: type[nn.RNNBase], width: int = 24, tags: int = 9) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.recurrence = kind(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * width, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Log probabilities (batch, seq, tags)."""
        return F.log_softmax(self.tags(self.recurrence(self.words(ids))[0]), dim=-1)


class Translator(nn.Module):
    """A GRU reads, another one that attends to its states writes."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.writer = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(2 * width, WORDS)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Scores of the next word (batch, target, words)."""
        states, last = self.reader(self.words(source))
        written, _ = self.writer(self.words(target), last)
        seen = torch.softmax(written @ states.transpose(1, 2), dim=-1) @ states
        return self.out(torch.cat([written, seen], dim=-1))


class Generator(nn.Module):
    """Noise in, picture out, by transposed convolutions."""

    def __init__(self, noise: int = 16, width: int = 8) -> None:
        super().__init__()
        sizes = [noise, 8 * width, 4 * width, 2 * width]
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(pairwise(sizes)):
            stride, pad = (2, 1) if i else (1, 0)
            layers += [
                nn.ConvTranspose2d(a, b, 4, stride, pad, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(sizes[-1], 3, 4, 2, 1), nn.Tanh())

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Pictures (batch, 3, 32, 32)."""
        return self.layers(noise[:, :, None, None])


class Discriminator(nn.Module):
    """Picture in, score out; instance norms and leaky units."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [
                nn.Conv2d(a, b, 4, 2, 1),
                nn.InstanceNorm2d(b, affine=True),
                nn.LeakyReLU(0.2),
            ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(sizes[-1], 1, 4), nn.Flatten())

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        """How real each picture is."""
        return torch.sigmoid(self.layers(picture))


def _double(a: int, b: int) -> nn.Sequential:
    steps = [[nn.Conv2d(n, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()] for n in (a, b)]
    return nn.Sequential(*steps[0], *steps[1])


class UNet(nn.Module):
    """Down, up, and across."""

    def __init__(self, width: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [_double(3, width), _double(width, 2 * width), _double(2 * width, 4 * width)]
        )
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.Upsample(scale_factor=2)]
        )
        self.join = nn.ModuleList([_double(4 * width, 2 * width), _double(3 * width, width)])
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        """Scores of the classes of each pixel."""
        kept = [self.down[0](picture)]
        for layer in self.down[1:]:
            kept.append(layer(F.max_pool2d(kept[-1], 2)))
        found = kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            found = join(torch.cat([up(found), kept.pop()], dim=1))
        return self.out(found)


class WaveNet(nn.Module):
    """Causal convolutions, each twice as wide, with gates and skips."""

    def __init__(self, width: int = 16, depth: int = 5) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gated = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(depth)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(depth))
        self.out = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 32, 1)
        )

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        """Scores of the next level (batch, 32, time)."""
        x = self.first(sound)
        total = torch.zeros_like(x)
        for i, (gated, mixed) in enumerate(zip(self.gated, self.mixed, strict=True)):
            signal, gate = gated(F.pad(x, (2**i, 0))).chunk(2, dim=1)
            more, skip = mixed(torch.tanh(signal) * torch.sigmoid(gate)).chunk(2, dim=1)
            x, total = x + more, total + skip
        return self.out(total)


class Volumes(nn.Module):
    """Convolutions over time and space, for clips."""

    def __init__(self, width: int = 8, classes: int = 7) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(3, width, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2), bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(),
            nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(width, 2 * width, 3, stride=2, padding=1, groups=2),
            nn.GroupNorm(4, 2 * width),
            nn.SiLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(2 * width, classes),
        )

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        return self.layers(clip)


class Detector(nn.Module):
    """One box and the scores of its classes at every cell of two levels of features."""

    def __init__(self, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.SiLU(), nn.Conv2d(width, width, 3, 2, 1), nn.SiLU()
        )
        self.deeper = nn.Sequential(nn.Conv2d(width, width, 3, 2, 1), nn.SiLU())
        self.heads = nn.ModuleList(nn.Conv2d(width, 4 + classes, 1) for _ in range(2))

    def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Boxes y1, x1, y2, x2 (batch, cells, 4) and scores (batch, classes, cells)."""
        near = self.body(picture)
        boxes, scores = [], []
        for level, head in zip((near, self.deeper(near)), self.heads, strict=True):
            found = head(level)
            rows, columns = found.shape[2:]
            grid = torch.stack(
                torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1
            )
            cells = found.flatten(2).transpose(1, 2)
            centres = (grid.reshape(1, -1, 2) + torch.sigmoid(cells[..., :2])) / rows
            halves = torch.exp(cells[..., 2:4]) / rows
            boxes.append(torch.cat([centres - halves, centres + halves], dim=-1))
            scores.append(torch.sigmoid(4 * cells[..., 4:]).transpose(1, 2))
        return torch.cat(boxes, dim=1), torch.cat(scores, dim=2)


class GraphAttention(nn.Module):
    """Nodes gather from their neighbours, each weighed by a softmax over the edges that end in the
    node.
    """

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.values = nn.Linear(8, width)
        self.weigh = nn.Linear(2 * width, 1)
        self.out = nn.Linear(width, 5)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Scores of each node; `edges` are rows of the nodes where an edge starts and ends."""
        values = self.values(nodes)
        start, end = edges[0], edges[1]
        weights = torch.exp(
            F.leaky_relu(self.weigh(torch.cat([values[start], values[end]], dim=-1)), 0.2)
        )
        total = torch.zeros_like(values[:, :1]).index_add(0, end, weights)
        share = weights / (total[end] + 1e-9)
        mixed = torch.zeros_like(values).index_add(0, end, share * values[start])
        return self.out(F.elu(mixed + values))


class Encoder(nn.Module):
    """The Transformer of torch.nn over words."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 48, batch_first=True, activation="gelu", norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """States of all words."""
        return self.layers(self.words(ids))


class Pair(nn.Module):
    """Encoder and decoder of torch.nn."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layers = nn.Transformer(width, 4, 1, 2, 48, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """States of the written words."""
        return self.layers(self.words(source), self.words(target))


class Mixture(nn.Module):
    """Experts, of which the two best are mixed for each word."""

    def __init__(self, width: int = 16, experts: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.choose = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width**0.5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """States of all words."""
        x = self.words(ids)
        weights, chosen = torch.topk(torch.softmax(self.choose(x), dim=-1), 2)
        found = torch.einsum("bsw,bskwv->bskv", x, self.experts[chosen])
        return (found * weights[..., None]).sum(dim=2)


class Autoencoder(nn.Module):
    """Pictures to means and spreads, and back, in double precision between."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Softplus(), nn.Linear(32, 8))
        self.write = nn.Sequential(
            nn.Linear(4, 32), nn.Hardswish(), nn.Linear(32, 64), nn.Sigmoid()
        )

    def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The picture, and how far its code lies from a normal one."""
        mean, spread = self.read(picture).double().chunk(2, dim=1)
        far = 0.5 * (spread.exp() + mean**2 - 1 - spread).sum(dim=1)
        return self.write(mean.float()).reshape(-1, 1, 8, 8), far.float()


class Family(NamedTuple):
    """What makes the module, and its inputs."""

    make: Callable[[], nn.Module]
    inputs: dict[str, Input]
    suppress: float | None = None


def _picture(size: int) -> dict[str, Input]:
    return {"picture": Input(("batch", 3, size, size))}


_SPEECH = {"source": WORD_IDS, "target": Input(("batch", "target"), "ids")}
WRITTEN = {
    "autoencoder": Family(Autoencoder, {"picture": Input(("batch", 1, 8, 8))}),
    "dcgan-generator": Family(Generator, {"noise": Input(("batch", 16))}),
    "dcgan-discriminator": Family(Discriminator, _picture(32)),
    "unet": Family(UNet, _picture(32)),
    "wavenet": Family(WaveNet, {"sound": Input(("batch", 1, "seq"))}),
    "conv3d": Family(Volumes, {"clip": Input(("batch", 3, 4, 16, 16))}),
    "rnn-tagger": Family(lambda: Tagger(nn.RNN), {"ids": WORD_IDS}),
    "gru-tagger": Family(lambda: Tagger(nn.GRU), {"ids": WORD_IDS}),
    "bilstm-tagger": Family(lambda: Tagger(nn.LSTM), {"ids": WORD_IDS}),
    "gru-seq2seq": Family(Translator, _SPEECH),
    "detector-nms": Family(Detector, _picture(32), 0.3),
    "graph-attention": Family(
        GraphAttention, {"nodes": Input(("target", 8)), "edges": Input((2, "seq"), "ids", below=4)}
    ),
    "torch-encoder": Family(Encoder, {"ids": WORD_IDS}),
    "torch-transformer": Family(Pair, _SPEECH),
    "mixture-of-experts": Family(Mixture, {"ids": WORD_IDS}),
}


def make(name: str) -> Network:
    """The network of that name."""
    family = WRITTEN[name]
    return Network(family.make(), family.inputs, family.suppress)
