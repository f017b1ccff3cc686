"""Light networks for images: where each comes from, what it is made of, and its accuracy as
published.

An accuracy is of the weights that its source names, which are not those that are timed: these are
random. The time of a network does not depend on them.
"""

from typing import NamedTuple

TIMM = "timm, results/results-imagenet.csv at 7479d451"
TORCHVISION = "torchvision 0.28, metadata of the weights"
SLIM = "tensorflow/models, research/slim/nets/mobilenet_v1.md at 02c04f49"
TINYML = "mit-han-lab/mcunet, README.md at 0dedab54 (fp32)"
SLIM_V1 = 70.9
"""Top-1 of MobileNetV1 with its authors' weights, according to SLIM."""


class Light(NamedTuple):
    """A network: the library that builds it (`own`: `benchmarks.light.models`), its name there, its
    input size, top-1 accuracy on ImageNet in percent at that size, of which weights, and who says
    so.
    """

    title: str
    library: str
    name: str
    top1: float
    weights: str
    source: str
    parts: str
    """What sets its arithmetic apart, `benchmarks.light.drawing.COLOURS`."""
    size: int = 224


NETWORKS: dict[str, Light] = {
    "mobilenet_v1_025": Light(
        "MobileNetV1 0.25",
        "own",
        "mobilenet_v1",
        49.8,
        "mobilenet_v1_2018_02_22",
        SLIM,
        "separable",
    ),
    "mobilenet_v1": Light(
        "MobileNetV1",
        "timm",
        "mobilenetv1_100",
        75.384,
        "mobilenetv1_100.ra4_e3600_r224_in1k",
        TIMM,
        "separable",
    ),
    "mobilenet_v2": Light(
        "MobileNetV2",
        "torchvision",
        "mobilenet_v2",
        72.154,
        "MobileNet_V2_Weights.IMAGENET1K_V2",
        TORCHVISION,
        "inverted",
    ),
    "mobilenet_v3_small": Light(
        "MobileNetV3 small",
        "torchvision",
        "mobilenet_v3_small",
        67.668,
        "MobileNet_V3_Small_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "gated",
    ),
    "mobilenet_v3_large": Light(
        "MobileNetV3 large",
        "torchvision",
        "mobilenet_v3_large",
        75.274,
        "MobileNet_V3_Large_Weights.IMAGENET1K_V2",
        TORCHVISION,
        "gated",
    ),
    "mobilenet_v4_small": Light(
        "MobileNetV4 conv small",
        "timm",
        "mobilenetv4_conv_small",
        73.730,
        "mobilenetv4_conv_small.e2400_r224_in1k",
        TIMM,
        "universal",
    ),
    "mobilenet_v4_medium": Light(
        "MobileNetV4 conv medium",
        "timm",
        "mobilenetv4_conv_medium",
        79.092,
        "mobilenetv4_conv_medium.e500_r224_in1k",
        TIMM,
        "universal",
    ),
    "mobilenet_v4_hybrid": Light(
        "MobileNetV4 hybrid medium",
        "timm",
        "mobilenetv4_hybrid_medium",
        80.438,
        "mobilenetv4_hybrid_medium.e500_r224_in1k",
        TIMM,
        "attention",
    ),
    "shufflenet_v2_x0_5": Light(
        "ShuffleNetV2 0.5",
        "torchvision",
        "shufflenet_v2_x0_5",
        60.552,
        "ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "shuffles",
    ),
    "shufflenet_v2_x1_0": Light(
        "ShuffleNetV2 1.0",
        "torchvision",
        "shufflenet_v2_x1_0",
        69.362,
        "ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "shuffles",
    ),
    "squeezenet1_0": Light(
        "SqueezeNet 1.0",
        "torchvision",
        "squeezenet1_0",
        58.092,
        "SqueezeNet1_0_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "fire",
    ),
    "squeezenet1_1": Light(
        "SqueezeNet 1.1",
        "torchvision",
        "squeezenet1_1",
        58.178,
        "SqueezeNet1_1_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "fire",
    ),
    "ghostnet_v1": Light(
        "GhostNet V1",
        "timm",
        "ghostnet_100",
        73.960,
        "ghostnet_100.in1k",
        TIMM,
        "ghosts",
    ),
    "ghostnet_v2": Light(
        "GhostNet V2",
        "timm",
        "ghostnetv2_100",
        75.176,
        "ghostnetv2_100.in1k",
        TIMM,
        "ghosts",
    ),
    "mobilevit_xxs": Light(
        "MobileViT XXS",
        "timm",
        "mobilevit_xxs",
        68.928,
        "mobilevit_xxs.cvnets_in1k",
        TIMM,
        "attention",
        256,
    ),
    "mobilevit_xs": Light(
        "MobileViT XS",
        "timm",
        "mobilevit_xs",
        74.632,
        "mobilevit_xs.cvnets_in1k",
        TIMM,
        "attention",
        256,
    ),
    "mobilevit_s": Light(
        "MobileViT S",
        "timm",
        "mobilevit_s",
        78.302,
        "mobilevit_s.cvnets_in1k",
        TIMM,
        "attention",
        256,
    ),
    "efficientformer_l1": Light(
        "EfficientFormer L1",
        "timm",
        "efficientformer_l1",
        80.502,
        "efficientformer_l1.snap_dist_in1k",
        TIMM,
        "attention",
    ),
    "mcunet_320kb": Light(
        "MCUNet 320 kB",
        "own",
        "mcunet_320kb",
        62.2,
        "mcunet-320kB",
        TINYML,
        "inverted",
        176,
    ),
    "mnasnet0_5": Light(
        "MnasNet 0.5",
        "torchvision",
        "mnasnet0_5",
        67.734,
        "MNASNet0_5_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "inverted",
    ),
    "mnasnet1_0": Light(
        "MnasNet 1.0",
        "torchvision",
        "mnasnet1_0",
        73.456,
        "MNASNet1_0_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "inverted",
    ),
    "efficientnet_lite0": Light(
        "EfficientNet-Lite0",
        "timm",
        "efficientnet_lite0",
        75.490,
        "efficientnet_lite0.ra_in1k",
        TIMM,
        "inverted",
    ),
    "efficientnet_b0": Light(
        "EfficientNet B0",
        "torchvision",
        "efficientnet_b0",
        77.692,
        "EfficientNet_B0_Weights.IMAGENET1K_V1",
        TORCHVISION,
        "gated",
    ),
}
