"""Well-known networks with seeded random weights, exported to ONNX by both of PyTorch's exporters.

`python -m benchmarks.zoo_models FOLDER [NAME…]` writes NAME.onnx (the TorchScript exporter) and
NAME.dynamo.onnx; files that are there already stay as they are. The two graphs of one network
differ greatly, and both must be optimized well.

Classifiers and gpt2 take a batch of one. With `--free-batch`, for a FOLDER of its own, all networks
take any: `python -m benchmarks.zoo --zoo FOLDER --dims batch=8,seq=128`.
"""

import argparse
import contextlib
import io
import logging
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.architectures import ENCODERS, NAMES, VISION, files
from benchmarks.torchvision_schemas import make_importable


class Recipe(NamedTuple):
    """A network ready to be exported; `axes` names the symbolic dimensions of inputs and
    outputs.
    """

    model: nn.Module
    args: tuple[torch.Tensor, ...]
    inputs: list[str]
    outputs: list[str]
    axes: dict[str, dict[int, str]]


LENGTH = 128
BOUNDS = {"batch": (1, 64), "seq": (2, 512)}


class Encoder(nn.Module):
    """BERT with positional inputs and outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states of all tokens, and the pooled state of the first."""
        out = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return out.last_hidden_state, out.pooler_output


class Decoder(nn.Module):
    """GPT-2 without a cache: tokens in, logits out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        logits: torch.Tensor = self.model(input_ids=input_ids, use_cache=False).logits
        return logits


def randomize(model: nn.Module) -> nn.Module:
    """Norm statistics and scales away from 0 and 1, so that a wrong fold is seen; no layer is all
    zeros, as the head of a fresh vision transformer is, so that the answer depends on the input.
    """
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.2)
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    for name, param in model.named_parameters():
        if param.dim() == 1 and name.endswith("weight"):
            param.data.uniform_(0.5, 1.5)
        if param.dim() == 1 and name.endswith("bias"):
            param.data.normal_(0, 0.1)
        if param.dim() > 1 and not param.any():
            param.data.normal_(0, 0.02)
    return model


def vision(name: str) -> Recipe:
    """An image classifier for one image."""
    spec = VISION[name]
    if spec.library == "timm":
        import timm

        model = timm.create_model(spec.name, **spec.options)
    else:
        import torchvision

        model = getattr(torchvision.models, spec.name)(**spec.options)
    randomize(model)
    return Recipe(model, (torch.randn(1, 3, spec.size, spec.size),), ["input"], ["output"], {})


def encoder(name: str) -> Recipe:
    """A BERT of any batch and length."""
    from transformers import BertConfig, BertModel

    model = Encoder(BertModel(BertConfig(attn_implementation="eager", **ENCODERS[name])))
    ids = torch.randint(0, 1000, (1, LENGTH))
    inputs, outputs = ["input_ids", "attention_mask"], ["last_hidden_state", "pooler_output"]
    axes = {value: {0: "batch", 1: "seq"} for value in [*inputs, outputs[0]]} | {
        outputs[1]: {0: "batch"}
    }
    return Recipe(model, (ids, torch.ones_like(ids)), inputs, outputs, axes)


def decoder() -> Recipe:
    """GPT-2 of any length."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = Decoder(GPT2LMHeadModel(GPT2Config(attn_implementation="eager")))
    ids = torch.randint(0, 1000, (1, LENGTH))
    return Recipe(
        model, (ids,), ["input_ids"], ["logits"], {"input_ids": {1: "seq"}, "logits": {1: "seq"}}
    )


def recipe(name: str) -> Recipe:
    """The network of that name, the same weights at every call."""
    torch.manual_seed(0)
    made = vision(name) if name in VISION else encoder(name) if name in ENCODERS else decoder()
    made.model.eval()
    return made


def free_batch(made: Recipe) -> Recipe:
    """The same network for any batch; its example has two, as exporters may take one for a
    constant.
    """
    axes = {
        value: {0: "batch"} | made.axes.get(value, {}) for value in [*made.inputs, *made.outputs]
    }
    args = tuple(torch.cat([arg, arg]) for arg in made.args)
    return made._replace(args=args, axes=axes)


def write(made: Recipe, path: Path, dynamo: bool) -> None:
    """Export a network by one of the two exporters, quietly."""
    options: dict[str, Any] = {
        "input_names": made.inputs,
        "output_names": made.outputs,
        "dynamo": dynamo,
    }
    if dynamo:
        dims = {
            name: torch.export.Dim(name, min=low, max=high) for name, (low, high) in BOUNDS.items()
        }
        shapes = tuple(
            {i: dims[dim] for i, dim in made.axes.get(value, {}).items()} for value in made.inputs
        )
        options |= {"external_data": False, "dynamic_shapes": shapes if made.axes else None}
    else:
        options |= {"opset_version": 17, "dynamic_axes": made.axes or None}
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(made.model, made.args, str(path), **options)


def export(name: str, folder: Path, free: bool = False) -> None:
    """Write the two ONNX files of a network; what an exporter cannot write is said and left out."""
    for file in files(name):
        path = folder / f"{file}.onnx"
        if path.exists():
            continue
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            made = free_batch(recipe(name)) if free else recipe(name)
            write(made, part, dynamo=file.endswith(".dynamo"))
        except Exception as error:  # a gap in the exporter, whatever it raises
            print(
                f"{path.name}: not exported, {type(error).__name__}: {str(error)[:120]}", flush=True
            )
            part.unlink(missing_ok=True)
        else:
            part.rename(path)
            print(f"{path.name}: {path.stat().st_size / 2**20:.0f} MiB", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Export well-known networks to ONNX, by both of PyTorch's exporters."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"default: all of {' '.join(NAMES)}"
    )
    parser.add_argument(
        "--free-batch", action="store_true", help="let every network take any batch"
    )
    options = parser.parse_intermixed_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such network: {', '.join(sorted(unknown))}")
    options.folder.mkdir(parents=True, exist_ok=True)
    make_importable()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator has no ONNX form
    logging.disable(logging.WARNING)
    for name in options.names or NAMES:
        export(name, options.folder, options.free_batch)


if __name__ == "__main__":
    main()
