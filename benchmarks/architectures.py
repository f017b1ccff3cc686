"""The networks of the zoo: their names, and where each comes from."""

from typing import Any, NamedTuple


class Vision(NamedTuple):
    """An image classifier: the library that has it, its name there, its input size."""

    library: str
    name: str
    size: int = 224
    options: dict[str, Any] = {}


VISION = {
    "resnet18": Vision("torchvision", "resnet18"),
    "resnet50": Vision("torchvision", "resnet50"),
    "vgg16": Vision("torchvision", "vgg16"),
    "mobilenet_v2": Vision("torchvision", "mobilenet_v2"),
    "mobilenet_v3_large": Vision("torchvision", "mobilenet_v3_large"),
    "efficientnet_b0": Vision("torchvision", "efficientnet_b0"),
    "squeezenet1_1": Vision("torchvision", "squeezenet1_1"),
    "shufflenet_v2": Vision("torchvision", "shufflenet_v2_x1_0"),
    "densenet121": Vision("torchvision", "densenet121"),
    "inception_v3": Vision(
        "torchvision", "inception_v3", 299, {"init_weights": False, "aux_logits": False}
    ),
    "ghostnet": Vision("timm", "ghostnet_100"),
    "convnext_tiny": Vision("torchvision", "convnext_tiny"),
    "vit_b_16": Vision("torchvision", "vit_b_16"),
    "swin_t": Vision("torchvision", "swin_t"),
    "mobilevit_s": Vision("timm", "mobilevit_s", 256),
}
ENCODERS: dict[str, dict[str, int]] = {
    "bert_base": {},
    "minilm_l6": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}
NAMES = [*VISION, *ENCODERS, "gpt2"]
DYNAMO_ONLY = {"gpt2"}  # the TorchScript exporter has no aten::diff


def files(name: str) -> list[str]:
    """Names of the ONNX files of a network, without their ending: one an exporter."""
    return [f"{name}.dynamo"] if name in DYNAMO_ONLY else [name, f"{name}.dynamo"]
