"""The architectures of `frontends_torch`: their modules, inputs, and dynamic sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

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
TRANSFORMERS: Final = (
    *("bert", "distilbert", "roberta", "electra", "albert", "mpnet", "deberta-v2", "gpt2"),
    *("t5_encoder", "llama", "qwen2", "gemma", "vit", "clip", "whisper_encoder"),
)
NAMES: Final = (*TORCHVISION, *TIMM, *TRANSFORMERS)
_IMAGE: Final = {"crossvit_9_240": 240, "mobilevit_xxs": 256, "fastvit_t8": 256}


@dataclass(frozen=True)
class Case:
    """A module, its inputs of some sizes, and which of these are dynamic."""

    module: Any
    inputs: Callable[..., dict[str, Any]]
    sizes: Sequence[tuple[int, ...]]
    dynamic: Any


class _Only(torch.nn.Module):
    """A module of transformers that gives its tensors, as a tuple."""

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
    """The architecture of this name, with random weights."""
    make_importable()
    if name in TRANSFORMERS:
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


_SMALL: Final[Mapping[str, Any]] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
}


def _of_transformers(name: str) -> Case:
    import transformers as t

    text = {
        "bert": lambda: t.BertModel(t.BertConfig(**_SMALL)),
        "distilbert": lambda: t.DistilBertModel(
            t.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99)
        ),
        "roberta": lambda: t.RobertaModel(t.RobertaConfig(**_SMALL)),
        "electra": lambda: t.ElectraModel(t.ElectraConfig(**_SMALL, embedding_size=16)),
        "albert": lambda: t.AlbertModel(t.AlbertConfig(**_SMALL, embedding_size=16)),
        "mpnet": lambda: t.MPNetModel(t.MPNetConfig(**_SMALL)),
        "deberta-v2": lambda: t.DebertaV2Model(
            t.DebertaV2Config(**_SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"])
        ),
        "gpt2": lambda: t.GPT2Model(t.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=99)),
        "t5_encoder": lambda: t.T5EncoderModel(
            t.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99)
        ),
        "llama": lambda: t.LlamaModel(t.LlamaConfig(**_SMALL, num_key_value_heads=2)),
        "qwen2": lambda: t.Qwen2Model(t.Qwen2Config(**_SMALL, num_key_value_heads=2)),
        "gemma": lambda: t.GemmaModel(t.GemmaConfig(**_SMALL, num_key_value_heads=2, head_dim=8)),
    }
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=128)
    if name in text:
        module = text[name]()
        if hasattr(module.config, "use_cache"):
            module.config.use_cache = False
        return Case(
            _Only(module.eval(), "input_ids").eval(),
            lambda b, n: {"values": torch.randint(5, 95, (b, n))},
            [(2, 11), (3, 20)],
            {"values": {0: batch, 1: length}},
        )
    images = {k: v for k, v in _SMALL.items() if k != "vocab_size"}
    if name == "vit":
        module = t.ViTModel(t.ViTConfig(**images, image_size=32, patch_size=8))
        shape = (3, 32, 32)
    elif name == "clip":
        module = t.CLIPVisionModel(t.CLIPVisionConfig(**images, image_size=32, patch_size=8))
        shape = (3, 32, 32)
    else:
        config = t.WhisperConfig(decoder_attention_heads=4,
            d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64,
            vocab_size=99, num_mel_bins=16, max_source_positions=50, decoder_layers=1,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        )  # fmt: skip
        module, shape = t.WhisperModel(config).get_encoder(), (16, 100)
    key = "input_features" if name == "whisper_encoder" else "pixel_values"
    return Case(
        _Only(module.eval(), key).eval(),
        lambda b: {"values": torch.randn(b, *shape)},
        [(2,), (3,)],
        {"values": {0: batch}},
    )
