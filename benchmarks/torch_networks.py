"""Architectures of torchvision, timm and transformers with random weights: modules and inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from benchmarks.torchvision_schemas import make_importable

TORCHVISION: Final = (
    *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5"),
    *("densenet121", "efficientnet_b0", "regnet_y_400mf", "swin_t", "convnext_tiny"),
)
TIMM: Final = (
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "ghostnet_100"),
    *("mobilevit_xxs", "efficientformer_l1", "pvt_v2_b0", "levit_128s", "repvgg_a0", "lcnet_050"),
)
TRANSFORMERS: Final = (
    *("bert", "distilbert", "roberta", "electra", "albert", "gpt2", "t5_encoder", "llama"),
    *("qwen2", "vit"),
)
NAMES: Final = (*TORCHVISION, *TIMM, *TRANSFORMERS)
_SMALL: Final = {
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers"], 2),
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim"], 32),
    **dict.fromkeys(["intermediate_size", "hidden_dim", "d_ff", "n_inner"], 64),
    **{"pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
    **{"vocab_size": 99, "num_key_value_heads": 2, "head_dim": 8, "use_cache": False},
    **{"image_size": 32, "patch_size": 8, "d_kv": 8},
}
"""What makes an architecture of transformers small, where its configuration has it."""
_OF: Final = {"albert": {"embedding_size": 16}, "electra": {"embedding_size": 16}}


@dataclass(frozen=True)
class Case:
    """A module, and what makes its inputs by name."""

    module: Any
    inputs: Callable[[], dict[str, Any]]


class Only(torch.nn.Module):
    """A module of transformers that gives its first tensor."""

    def __init__(self, module: Any, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, values: Any) -> Any:
        """The first result."""
        return self.module(**{self.name: values}, return_dict=False)[0]


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of what a module gives."""
    leaves = torch.utils._pytree.tree_leaves(result)
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def make(name: str) -> Case:
    """The architecture of this name, with random weights: of `TRANSFORMERS`, of torchvision where
    it has it, else of timm.
    """
    make_importable()
    import torchvision

    if name in TRANSFORMERS:
        return _of_transformers(name)
    if name in torchvision.models.list_models(module=torchvision.models):
        return _of_images(torchvision.models.get_model(name, weights=None), 224)
    import timm

    module = timm.create_model(name, pretrained=False)
    return _of_images(module, module.default_cfg["input_size"][-1])


def _of_images(module: Any, size: int) -> Case:
    module = _spread(module.eval())
    argument = next(iter(inspect.signature(module.forward).parameters))
    return Case(module, lambda: {argument: torch.randn(2, 3, size, size)})


def _of_transformers(name: str) -> Case:
    import transformers

    make = transformers.CONFIG_MAPPING[name.removesuffix("_encoder")]
    default = make()
    small = {key: value for key, value in _SMALL.items() if hasattr(default, key)}
    module = transformers.AutoModel.from_config(make(**(small | _OF.get(name, {})))).eval()
    module = _spread(module.get_encoder() if name.endswith("_encoder") else module)
    if name == "vit":
        return Case(
            Only(module, "pixel_values").eval(), lambda: {"values": torch.randn(2, 3, 32, 32)}
        )
    ids = lambda: {"values": torch.randint(5, 95, (2, 11))}  # noqa: E731
    return Case(Only(module, "input_ids").eval(), ids)


def _spread(module: Any) -> Any:
    """The module with statistics of its normalizations that are not 0 and 1, and parameters that
    are not constant: a head or a scale of zeros would hide what is in front of it.
    """
    for part in module.modules():
        if getattr(part, "running_var", None) is not None:
            part.running_var.uniform_(0.8, 1.2)
            part.running_mean.normal_(0, 0.05)
    with torch.no_grad():
        for parameter in module.parameters():
            _vary(parameter)
    return module


def _vary(parameter: torch.Tensor) -> None:
    if not parameter.is_floating_point() or (parameter != parameter.flatten()[:1]).any():
        return
    constant = float(parameter.flatten()[0])
    if parameter.ndim > 1 and parameter.numel() > max(parameter.shape):
        parameter.normal_(0, parameter[0].numel() ** -0.5)
    elif abs(constant) > 0.01:
        parameter.mul_(torch.empty_like(parameter).uniform_(0.8, 1.2))
    elif constant:
        parameter.uniform_(0.1, 0.3)
    else:
        parameter.normal_(0, 0.05)
