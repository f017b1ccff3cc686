"""A decoder of text in PyTorch: 5.8 million weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

BATCH, STEPS, RATE = 16, 600, 1.5e-3


class Block(nn.Module):
    """Attention to what came before, and two dense layers, each beside the identity."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projection, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, steps, width] → the same shape."""
        projected = self.projection(self.before_attention(x))
        q, k, v = projected.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(mixed.transpose(1, 2).flatten(2))
        return x + self.dense(self.before_dense(x))


class Gpt(nn.Module):
    """Tokens [rows, steps] → logits of the next ones [rows, steps, vocabulary]."""

    def __init__(self, vocabulary: int, window: int, width: int = 256, depth: int = 6) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(window, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(depth)))
        self.normalized = nn.LayerNorm(width)
        self.logits = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [rows, steps, vocabulary]; there are as many steps as places."""
        return self.logits(self.normalized(self.blocks(self.tokens(tokens) + self.places)))


def fit(network: Gpt, windows: np.ndarray) -> Gpt:
    """The network after STEPS steps on windows [n, steps + 1] of tokens, in place."""
    rows = torch.from_numpy(windows)
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.05)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    loss = nn.CrossEntropyLoss()
    network.train()
    for _ in range(STEPS):
        batch = rows[torch.randint(len(rows), (BATCH,))]
        optimizer.zero_grad()
        loss(network(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return network.eval()
