"""Architectures without trained weights, traced and scripted where torch can, and written by
torch.jit.save.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

import infuse
from benchmarks.frontends import CannotRun, Case, Feeds
from benchmarks.torchvision_schemas import make_importable
from infuse.ir.graph import Graph

_SIZES = {"inception_v3": 128, "vit": 224, "maxvit": 224, "swin": 64, "googlenet": 64}


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The architectures that are named (`timm/NAME` of timm), by default all of torchvision."""
    warnings.simplefilter("ignore")
    make_importable()
    import torchvision

    torch.manual_seed(0)
    for name in names or torchvision.models.list_models(module=torchvision.models):
        if name.startswith("timm/"):
            import timm

            module = timm.create_model(name[5:], pretrained=False, scriptable=True).eval()
            size = module.default_cfg["input_size"][-1]
        else:
            module = torchvision.models.get_model(name, weights=None).eval()
            size = next((s for n, s in _SIZES.items() if name.startswith(n)), 64)
        for mode in ("traced", "scripted"):
            yield _case(f"{name} {mode}", module, mode, size)


def _case(name: str, module: Any, mode: str, size: int) -> Case:
    image = torch.randn(1, 3, size, size)

    program, reason = _program(module, mode, image)

    def load() -> Graph:
        if program is None:
            raise CannotRun(reason)
        buffer = io.BytesIO()
        torch.jit.save(program, buffer)
        source = program.forward.schema.arguments[1].name
        spec = infuse.Spec("float32", tuple(image.shape))
        return infuse.from_torchscript(buffer.getvalue(), {source: spec})

    def run(feeds: Feeds) -> list[np.ndarray]:
        with torch.no_grad():
            return _leaves(program(image))

    return Case(
        name,
        load,
        run,
        lambda graph: {graph.inputs[0].name: image.numpy()},
        is_output=lambda output: not output.endswith(".out"),
    )


def _program(module: Any, mode: str, image: torch.Tensor) -> tuple[Any, str]:
    """What torch makes of a module, or None and its reason."""
    try:
        if mode == "traced":
            return torch.jit.trace(module, image, check_trace=False), ""
        return torch.jit.script(module), ""
    except Exception as error:  # torch raises what it likes
        return None, str(error).splitlines()[0]


def _leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in _leaves(part)]
    return [] if result is None else [result.numpy()]
