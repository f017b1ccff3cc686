"""Architectures of torchvision, timm and transformers: their modules, inputs, and dynamic sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from benchmarks import frontends_transformers_models as transformers_models
from benchmarks.torchvision_schemas import make_importable

TORCHVISION: Final = (
    *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1"),
    *("shufflenet_v2_x0_5", "densenet121", "efficientnet_b0", "regnet_y_400mf", "googlenet"),
    *("mnasnet0_5", "swin_t", "convnext_tiny", "maxvit_t", "alexnet", "densenet161"),
    *("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"),
    *("efficientnet_v2_s", "inception_v3", "mnasnet1_0", "mobilenet_v3_large", "resnet50"),
    *("resnext50_32x4d", "wide_resnet50_2", "shufflenet_v2_x1_0", "squeezenet1_0"),
    *("swin_v2_t", "vgg11_bn", "vit_b_32", "regnet_x_400mf"),
)
TIMM: Final = (
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "ghostnet_100"),
    *("hrnet_w18_small", "mobilevit_xxs", "fastvit_t8", "efficientformer_l1", "pvt_v2_b0"),
    *("coat_lite_tiny", "levit_128s", "repvgg_a0", "dla46_c", "ese_vovnet19b_dw"),
    *("dm_nfnet_f0", "tinynet_e", "poolformer_s12", "xcit_nano_12_p16_224"),
    *("beit_base_patch16_224", "tf_efficientnet_lite0", "mobileone_s0", "convmixer_768_32"),
    *("crossvit_9_240", "edgenext_xx_small", "lcnet_050", "nf_resnet50", "res2net50_14w_8s"),
    *("resnest14d", "selecsls42b", "visformer_tiny", "rexnet_100", "halonet_h1"),
    *("mobileone_s1", "cait_xxs24_224", "coat_tiny", "convit_tiny", "convnext_atto_rms"),
    *("cpubone_nano", "crossvit_tiny_240", "cs3darknet_focus_s", "cspnext_tiny"),
    *("davit_tiny", "dla46x_c", "dpn48b", "efficientformerv2_s0", "mnasnet_050"),
    *("efficientvim_m1", "efficientvit_b0", "efficientvit_m0", "eva02_tiny_patch14_224"),
    *("fasternet_t0", "fastvit_s12", "focalnet_tiny_srf", "gcvit_xxtiny", "ghostnet_050"),
    *("hardcorenas_b", "hgnetv2_b0", "hiera_tiny_224", "hieradet_small", "iformer_s"),
    *("inception_next_atto", "inception_resnet_v2", "inception_v4", "lcnetv2_small"),
    *("levit_384_s8", "lowformer_b0", "mambaout_femto", "maxvit_pico_rw_256"),
    *("poolformerv2_s12", "mixer_s16_224", "mobilenetv3_small_050", "mvitv2_tiny"),
    *("nest_tiny", "nextvit_small", "nf_regnet_b0", "pit_s_224", "rdnet_tiny"),
    *("regnety_040_sgn", "repghostnet_050", "repvit_m1", "res2next50", "resnetv2_18"),
    *("selecsls42", "legacy_seresnet18", "sequencer2d_s", "shvit_s1", "skresnet18"),
    *("starnet_s050", "swiftformer_s", "swin_tiny_patch4_window7_224"),
    *("swinv2_tiny_window8_256", "swinv2_cr_tiny_224", "tiny_vit_5m_224"),
    *("tnt_s_legacy_patch16_224", "tresnet_m", "twins_svt_small", "flexivit_small"),
    *("vit_tiny_r_s16_p8_224", "vit_srelpos_small_patch16_224", "vitamin_small_224"),
    *("volo_d1_224", "ese_vovnet19b_slim_dw", "legacy_xception", "xception41p"),
    "xcit_nano_12_p8_224",
)
_SEGMENTATION: Final = (
    *("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"),
)
NAMES: Final = (*TORCHVISION, *TIMM, *transformers_models.NAMES)


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

        options: dict[str, Any] = {}
        if name in ("googlenet", "inception_v3"):
            options["init_weights"] = True
        if name in _SEGMENTATION:
            options["weights_backbone"] = None
        module = torchvision.models.get_model(name, weights=None, **options)
        return _of_images(module, 299 if name == "inception_v3" else 224)
    import timm

    module = timm.create_model(name, pretrained=False)
    return _of_images(module, module.default_cfg["input_size"][-1])


def _of_images(module: Any, size: int) -> Case:
    module = _spread(module.eval())
    argument = next(iter(inspect.signature(module.forward).parameters))
    return Case(
        module,
        lambda batch: {argument: torch.randn(batch, 3, size, size)},
        [(2,), (3,)],
        {argument: {0: torch.export.Dim("batch", max=64)}},
    )


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
