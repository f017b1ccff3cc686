"""Families of timm: of each the smallest member, at a small size, some with fewer blocks; small
ones first.
"""

from typing import Any, NamedTuple

from benchmarks.torchvision_schemas import make_importable
from tests.models.family_network import Input, Network


class Member(NamedTuple):
    """The side of the pictures, whether the network must be told of it, options that make it
    smaller, and whether attention is PyTorch's own operator: where it is given a mask's absence as
    a tensor, it cannot be traced.
    """

    size: int = 64
    fixed: bool = False
    options: dict[str, Any] = {}
    fused: bool = True


TIMM = {
    "eva02_tiny_patch14_224": Member(fixed=True, options={"depth": 2}, fused=False),
    "deit_tiny_patch16_224": Member(fixed=True, options={"depth": 2}),
    "vit_tiny_patch16_224": Member(fixed=True, options={"depth": 2}),
    "vit_small_patch16_dinov3": Member(fixed=True, options={"depth": 2}, fused=False),
    "deit_tiny_distilled_patch16_224": Member(fixed=True, options={"depth": 2}),
    "flexivit_small": Member(fixed=True, options={"depth": 2}),
    "deit3_small_patch16_224": Member(fixed=True, options={"depth": 2}),
    "vit_tiny_r_s16_p8_224": Member(fixed=True, options={"depth": 2}),
    "beit_base_patch16_224": Member(fixed=True, options={"depth": 2}),
    "vit_relpos_small_patch16_224": Member(fixed=True, options={"depth": 2}),
    "resnet10t": Member(),
    "convit_tiny": Member(fixed=True, options={"depth": 4, "local_up_to_layer": 2}),
    "naflexvit_base_patch16_gap": Member(fixed=True, options={"depth": 2}),
    "cait_xxs24_224": Member(fixed=True, options={"depth": 2}),
    "tnt_s_patch16_224": Member(fixed=True, options={"depth": 2}),
    "samvit_base_patch16": Member(fixed=True, options={"depth": 2}),
    "resnet50_gn": Member(options={"layers": (1, 1, 1, 1)}),
    "test_nfnet": Member(),
    "sequencer2d_s": Member(fixed=True, options={"layers": (1, 1, 1, 1)}),
    "densenet121": Member(options={"block_config": (2, 2, 2, 2)}),
    "xcit_nano_12_p16_224": Member(fixed=True, options={"depth": 2}),
    "starnet_s050": Member(),
    "densenetblur121d": Member(options={"block_config": (2, 2, 2, 2)}),
    "ecaresnet26t": Member(options={"layers": (1, 1, 1, 1)}),
    "res2net50d": Member(options={"layers": (1, 1, 1, 1)}),
    "nf_resnet26": Member(),
    "legacy_seresnet18": Member(),
    "resnetv2_18": Member(),
    "resnetrs50": Member(options={"layers": (1, 1, 1, 1)}),
    "resnest14d": Member(),
    "tresnet_m": Member(options={"layers": (1, 1, 1, 1)}),
    "fasternet_t0": Member(),
    "darknet17": Member(),
    "dla46x_c": Member(),
    "ese_vovnet19b_slim_dw": Member(),
    "lcnet_035": Member(),
    "mobilenetv1_100": Member(),
    "convnext_atto": Member(),
    "convnextv2_atto": Member(),
    "edgenext_xx_small": Member(),
    "pvt_v2_b0": Member(),
    "coat_lite_tiny": Member(fixed=True),
    "inception_next_atto": Member(),
    "mambaout_femto": Member(),
    "cs3darknet_focus_s": Member(),
    "cpubone_nano": Member(),
    "tinynet_e": Member(),
    "cspnext_tiny": Member(),
    "swiftformer_xs": Member(fixed=True),
    "mobilenetv3_small_050": Member(),
    "hardcorenas_a": Member(),
    "visformer_tiny": Member(fixed=True),
    "swin_tiny_patch4_window7_224": Member(fixed=True, options={"depths": (2, 2, 2, 2)}),
    "swin_s3_tiny_224": Member(fixed=True, options={"depths": (2, 2, 2, 2)}),
    "skresnet18": Member(),
    "resnext26ts": Member(fixed=True),
    "convmixer_768_32": Member(),
    "focalnet_tiny_srf": Member(),
    "caformer_s18": Member(),
    "convformer_s18": Member(),
    "mixer_s32_224": Member(fixed=True),
    "gmlp_ti16_224": Member(fixed=True),
    "resmlp_12_224": Member(fixed=True),
    "gmixer_12_224": Member(fixed=True),
    "nest_tiny": Member(fixed=True),
    "efficientvim_m1": Member(),
    "mobilenetv2_035": Member(),
    "lambda_resnet26t": Member(fixed=True),
    "efficientnet_lite0": Member(),
    "hgnetv2_b0": Member(),
    "botnet26t_256": Member(fixed=True),
    "mnasnet_small": Member(),
    "halonet26t": Member(256, fixed=True),
    "regnetx_002": Member(),
    "semnasnet_050": Member(),
    "nf_regnet_b0": Member(),
    "efficientnet_es": Member(),
    "pit_ti_224": Member(fixed=True),
    "mobilenetv4_conv_small_035": Member(),
    "levit_128s": Member(fixed=True),
    "eca_nfnet_l0": Member(),
    "poolformer_s12": Member(),
    "efficientformer_l1": Member(224, fixed=True),
    "efficientvit_b0": Member(),
    "mobilevitv2_050": Member(fixed=True),
    "mobilenet_edgetpu_v2_xs": Member(),
    "swinv2_tiny_window8_256": Member(fixed=True, options={"depths": (2, 2, 2, 2)}),
    "hgnet_tiny": Member(),
    "davit_tiny": Member(options={"depths": (1, 1, 1, 1)}),
    "poolformerv2_s12": Member(),
    "tiny_vit_5m_224": Member(),
    "selecsls42b": Member(),
    "legacy_xception": Member(),
    "gcresnext26ts": Member(fixed=True),
    "swinv2_cr_tiny_224": Member(fixed=True, options={"depths": (2, 2, 2, 2)}),
    "efficientnet_b0": Member(),
    "regnety_002": Member(),
    "vovnet39a": Member(),
    "dpn48b": Member(),
    "iformer_t": Member(),
    "spnasnet_100": Member(),
    "lcnetv2_base": Member(),
    "gernet_s": Member(fixed=True),
    "mvitv2_tiny": Member(fixed=True),
    "hiera_tiny_224": Member(fixed=True),
    "rexnet_100": Member(),
    "rexnetr_100": Member(),
    "fbnetc_100": Member(),
    "coat_tiny": Member(fixed=True),
    "sam2_hiera_tiny": Member(),
    "mobilevit_xxs": Member(fixed=True),
    "ghostnet_050": Member(),
    "shvit_s1": Member(),
    "mixnet_s": Member(),
    "efficientformerv2_s0": Member(fixed=True),
    "lowformer_b0": Member(),
    "repvgg_a0": Member(fixed=True),
    "tf_efficientnetv2_b0": Member(),
    "rdnet_tiny": Member(),
    "efficientnet_cc_b0_4e": Member(),
    "crossvit_9_240": Member(),
    "efficientvit_m0": Member(fixed=True),
    "dla60_res2net": Member(),
    "fastvit_t8": Member(),
    "coatnet_nano_rw_224": Member(fixed=True),
    "gcvit_xxtiny": Member(fixed=True),
    "repvit_m0_9": Member(fixed=True),
    "repghostnet_050": Member(),
    "cspresnet50": Member(),
    "ghostnetv2_100": Member(),
    "hrnet_w18_small": Member(),
    "twins_pcpvt_small": Member(fixed=True),
    "csatv2": Member(),
    "twins_svt_small": Member(fixed=True),
    "regnetz_005": Member(),
    "xception41": Member(),
    "fbnetv3_b": Member(),
    "volo_d1_224": Member(fixed=True),
    "vitamin_small_224": Member(fixed=True),
    "inception_v3": Member(128),
    "mobilenetv4_hybrid_medium": Member(),
    "nextvit_small": Member(),
    "maxvit_rmlp_pico_rw_256": Member(fixed=True),
    "mobileone_s0": Member(fixed=True),
    "inception_v4": Member(128),
    "ghostnetv3_050": Member(),
    "inception_resnet_v2": Member(128),
    "pnasnet5large": Member(),
    "nasnetalarge": Member(),
    "vgg11": Member(224),
}
"""By the name that timm gives them."""


def make(name: str) -> Network:
    """The network of that name; for any number of pictures."""
    make_importable()
    import timm

    member = TIMM[name]
    told = {"img_size": member.size} if member.fixed else {}
    timm.layers.set_fused_attn(member.fused)
    model = timm.create_model(name, **told, **member.options)
    return Network(model, {"picture": Input(("batch", 3, member.size, member.size))})
