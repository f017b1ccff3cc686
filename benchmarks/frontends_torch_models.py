"""The architectures of `frontends_torch`: their modules, inputs, and dynamic sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from benchmarks import frontends_transformers_models as transformers_models
from benchmarks.torchvision_schemas import make_importable

TORCHVISION: Final = (
    *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5"),
    *("densenet121", "efficientnet_b0", "regnet_y_400mf", "googlenet", "mnasnet0_5", "swin_t"),
    *("convnext_tiny", "maxvit_t"),
)
TIMM: Final = (
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "ghostnet_100"),
    *("hrnet_w18_small", "mobilevit_xxs", "fastvit_t8", "efficientformer_l1", "pvt_v2_b0"),
    *("coat_lite_tiny", "levit_128s", "repvgg_a0", "dla46_c", "ese_vovnet19b_dw"),
    *("dm_nfnet_f0", "tinynet_e", "poolformer_s12", "xcit_nano_12_p16_224"),
    *("beit_base_patch16_224", "tf_efficientnet_lite0", "mobileone_s0", "convmixer_768_32"),
    *("crossvit_9_240", "edgenext_xx_small", "lcnet_050", "nf_resnet50", "res2net50_14w_8s"),
    *("resnest14d", "selecsls42b", "visformer_tiny", "rexnet_100"),
)
NAMES: Final = (*TORCHVISION, *TIMM, *transformers_models.NAMES)
_IMAGE: Final = {"crossvit_9_240": 240, "mobilevit_xxs": 256, "fastvit_t8": 256}


@dataclass(frozen=True)
class Case:
    """A module, its inputs of some sizes, and which of these are dynamic."""

    module: Any
    inputs: Callable[..., dict[str, Any]]
    sizes: Sequence[tuple[int, ...]]
    dynamic: Any


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of what a module gives."""
    leaves = torch.utils._pytree.tree_leaves(result)
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def make(name: str) -> Case:
    """The architecture of this name, with random weights."""
    make_importable()
    if name in transformers_models.NAMES:
        return _of_transformers(name)
    if name in TORCHVISION:
        import torchvision

        options = {"init_weights": True} if name == "googlenet" else {}
        return _of_images(torchvision.models.get_model(name, weights=None, **options), name)
    import timm

    return _of_images(timm.create_model(name, pretrained=False), name)


def _of_images(module: Any, name: str) -> Case:
    module = _spread(module.eval())
    size = _IMAGE.get(name, 224)
    argument = next(iter(inspect.signature(module.forward).parameters))
    return Case(
        module,
        lambda batch: {argument: torch.randn(batch, 3, size, size)},
        [(2,), (3,)],
        {argument: {0: torch.export.Dim("batch", max=64)}},
    )


def _spread(module: Any) -> Any:
    """The module with statistics of its normalizations that are not 0 and 1."""
    for part in module.modules():
        if getattr(part, "running_var", None) is not None:
            part.running_var.uniform_(0.8, 1.2)
            part.running_mean.normal_(0, 0.05)
    return module


def _of_transformers(name: str) -> Case:
    keys, make, sizes = transformers_models.inputs_of(name)
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=128)
    axes = {0: batch} if len(sizes[0]) == 1 else {0: batch, 1: length}
    return Case(
        transformers_models.Only(_spread(transformers_models.module_of(name)), keys).eval(),
        lambda *sizes: {"values": make(*sizes)},
        sizes,
        {"values": axes},
    )
