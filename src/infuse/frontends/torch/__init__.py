"""Programs of PyTorch: `.pt2` files of torch.export, read without torch, and live modules."""

from infuse.frontends.torch.exported import load
from infuse.frontends.torch.fx import decompositions, from_fx
from infuse.frontends.torch.live import from_torch

__all__ = ["decompositions", "from_fx", "from_torch", "load"]
