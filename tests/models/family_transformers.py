"""Families of the transformers library, tiny and with random weights."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.torchvision_schemas import make_importable
from tests.models.family_network import WORDS, Input, Network

os.environ.setdefault("HF_HUB_OFFLINE", "1")
make_importable()
import transformers  # noqa: E402  after torchvision, which it imports, can be

LAYERS = 2
PICTURE, TIME = 32, 800
"""Pixels of a side; samples of a sound."""


class Text(nn.Module):
    """Token ids and a mask in, states out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """States of all tokens."""
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Decoder(nn.Module):
    """Token ids and a mask in, logits out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Logits without a cache."""
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False
        ).logits


class Pair(nn.Module):
    """Encoder and decoder: what the encoder reads, token ids of the decoder; its last states
    out.
    """

    def __init__(self, model: nn.Module, name: str = "input_ids") -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, source: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        """Last states of the decoder."""
        given = {self.name: source, "decoder_input_ids": decoder_input_ids}
        return self.model(**given, use_cache=False).last_hidden_state


class First(nn.Module):
    """Pixels or sound in, the first output out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """States of all patches or frames, or logits."""
        return self.model(values, return_dict=False)[0]


IDS, TARGET = Input(("batch", "seq"), "ids"), Input(("batch", "target"), "ids")
TEXT = {"input_ids": IDS, "attention_mask": Input(("batch", "seq"), "mask")}
PAIR = {"source": IDS, "decoder_input_ids": TARGET}


def _made(name: str, ending: str, **config: Any) -> nn.Module:
    made: nn.Module = getattr(transformers, name + ending)(
        getattr(transformers, f"{name}Config")(**config)
    )
    return made


def _text(name: str, **config: Any) -> Network:
    return Network(Text(_made(name, "Model", **config)), TEXT)


def _decoder(name: str, ending: str = "ForCausalLM", **config: Any) -> Network:
    return Network(Decoder(_made(name, ending, **config)), TEXT)


def _pair(name: str, **config: Any) -> Network:
    return Network(Pair(_made(name, "Model", **config)), PAIR)


def _vision(name: str, ending: str = "Model", size: int = PICTURE, **config: Any) -> Network:
    return Network(
        First(_made(name, ending, **config)), {"pixels": Input(("batch", 3, size, size))}
    )


def _sound(name: str, **config: Any) -> Network:
    return Network(First(_made(name, "Model", **config)), {"sound": Input(("batch", TIME))})


def _whisper() -> Network:
    sizes = {"vocab_size": WORDS, "d_model": 32, "num_mel_bins": 8}
    longest = {"max_source_positions": 16, "max_target_positions": 32}
    model = _made("Whisper", "Model", **sizes, **longest, **_sides(), **_TOKENS)
    return Network(
        Pair(model, "input_features"),
        {"source": Input(("batch", 8, 32)), "decoder_input_ids": TARGET},
    )


def _sides() -> dict[str, int]:
    what = {"layers": LAYERS, "attention_heads": 4, "ffn_dim": 48}
    return {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in what.items()}


_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
_HIDDEN = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS}
_SMALL = {"vocab_size": WORDS, **_HIDDEN}
_HEADS = {"num_attention_heads": 4, "max_position_embeddings": 64}
_GROUPED = {**_SMALL, **_HEADS, "num_key_value_heads": 2}
_PADDED = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_T5 = {
    "vocab_size": WORDS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": LAYERS,
    "num_heads": 4,
}
_VIT = {**_HIDDEN, "num_attention_heads": 4}
_PATCHES = {**_VIT, "image_size": PICTURE, "patch_size": 8}
_GPT2 = {"vocab_size": WORDS, "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 64}
_BART = {"vocab_size": WORDS, "d_model": 32, "max_position_embeddings": 64, **_sides()}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_SOUND = {
    **_SMALL, "num_attention_heads": 4, "conv_dim": (16, 16), "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_DETR = {
    "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "d_model": 32,
    "num_queries": 5,
    **_sides(),
}  # fmt: skip


def _detr() -> Network:
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    backbone = transformers.ResNetConfig(**stages, out_features=["stage2"])
    return _vision("Detr", "ForObjectDetection", 64, **_DETR, backbone_config=backbone)


TRANSFORMERS: dict[str, Callable[[], Network]] = {
    "llama": lambda: _decoder("Llama", **_GROUPED),
    "qwen2": lambda: _decoder("Qwen2", **_GROUPED),
    "mistral": lambda: _decoder("Mistral", **_GROUPED, sliding_window=None),
    "gpt-neox": lambda: _decoder("GPTNeoX", **_SMALL, **_HEADS),
    "gpt-j": lambda: _decoder("GPTJ", **_GPT2, rotary_dim=4),
    "t5": lambda: _pair("T5", **_T5),
    "whisper": _whisper,
    "vit": lambda: _vision("ViT", size=16, **_VIT, image_size=16, patch_size=4),
    "bert": lambda: _text("Bert", **_SMALL, **_HEADS),
    "roberta": lambda: _text("Roberta", **_SMALL, **_HEADS),
    "albert": lambda: _text("Albert", **_SMALL, **_HEADS, embedding_size=16),
    "distilbert": lambda: _text("DistilBert", vocab_size=WORDS, dim=32, hidden_dim=48,
        n_layers=LAYERS, n_heads=4),
    "electra": lambda: _text("Electra", **_SMALL, **_HEADS, embedding_size=16),
    "deberta-v2": lambda: _text(
        "DebertaV2", **_SMALL, **_HEADS, relative_attention=True, pos_att_type=["p2c", "c2p"],
        position_buckets=8
    ),
    "mpnet": lambda: _text("MPNet", **_SMALL, **_HEADS),
    "xlm-roberta": lambda: _text("XLMRoberta", **_SMALL, **_HEADS),
    "modernbert": lambda: _text("ModernBert", **_SMALL, **_HEADS, **_PADDED,
        reference_compile=False),
    "convbert": lambda: _text("ConvBert", **_SMALL, **_HEADS, embedding_size=16, head_ratio=2,
        conv_kernel_size=3),
    "squeezebert": lambda: _text("SqueezeBert", **_SMALL, **_HEADS, embedding_size=32),
    "mobilebert": lambda: _text("MobileBert", **_SMALL, **_HEADS, embedding_size=16,
        intra_bottleneck_size=16),
    "gpt2": lambda: _decoder("GPT2", "LMHeadModel", **_GPT2),
    "gpt-neo": lambda: _decoder(
        "GPTNeo", vocab_size=WORDS, hidden_size=32, num_layers=2, num_heads=4,
        max_position_embeddings=64,
        attention_types=[[["global", "local"], 1]], window_size=4,
    ),
    "gpt-bigcode": lambda: _decoder("GPTBigCode", **_GPT2),
    "codegen": lambda: _decoder("CodeGen", **_GPT2, rotary_dim=4),
    "opt": lambda: _decoder(
        "OPT", vocab_size=WORDS, hidden_size=32, ffn_dim=48, num_hidden_layers=LAYERS,
        num_attention_heads=4,
        max_position_embeddings=64, word_embed_proj_dim=32,
    ),
    "bloom": lambda: _decoder("Bloom", vocab_size=WORDS, hidden_size=32, n_layer=LAYERS, n_head=4),
    "mpt": lambda: _decoder("Mpt", vocab_size=WORDS, d_model=32, n_heads=4, n_layers=LAYERS,
        max_seq_len=64),
    "falcon": lambda: _decoder("Falcon", vocab_size=WORDS, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4),
    "phi": lambda: _decoder("Phi", **_SMALL, **_HEADS),
    "phi3": lambda: _decoder("Phi3", **_GROUPED, **_PADDED),
    "gemma": lambda: _decoder("Gemma", **_GROUPED, head_dim=8),
    "gemma2": lambda: _decoder("Gemma2", **_GROUPED, head_dim=8, sliding_window=4),
    "qwen3": lambda: _decoder("Qwen3", **_GROUPED, head_dim=8),
    "stablelm": lambda: _decoder("StableLm", **_GROUPED),
    "olmo": lambda: _decoder("Olmo", **_GROUPED),
    "cohere": lambda: _decoder("Cohere", **_GROUPED, **_PADDED),
    "granite": lambda: _decoder("Granite", **_GROUPED),
    "starcoder2": lambda: _decoder("Starcoder2", **_GROUPED, **_PADDED),
    "persimmon": lambda: _decoder("Persimmon", **_SMALL, **_HEADS),
    "mixtral": lambda: _decoder("Mixtral", **_GROUPED, num_local_experts=3,
        experts_implementation="eager"),
    "bart": lambda: _pair("Bart", **_BART, **_TOKENS),
    "mbart": lambda: _pair("MBart", **_BART, **_PADDED),
    "marian": lambda: _pair("Marian", **_BART, **_TOKENS),
    "pegasus": lambda: _pair("Pegasus", **_BART, **_PADDED),
    "m2m100": lambda: _pair("M2M100", **_BART, **_TOKENS),
    "blenderbot": lambda: _pair("Blenderbot", **_BART, **_PADDED),
    "clip-text": lambda: _text("CLIPText", **_SMALL, **_HEADS, **_PADDED),
    "clip-vision": lambda: _vision("CLIPVision", **_PATCHES),
    "siglip-vision": lambda: _vision("SiglipVision", **_PATCHES),
    "deit": lambda: _vision("DeiT", **_PATCHES),
    "beit": lambda: _vision("Beit", **_PATCHES, use_relative_position_bias=True),
    "dinov2": lambda: _vision("Dinov2", **_PATCHES),
    "yolos": lambda: _vision("Yolos", **_PATCHES | {"image_size": [PICTURE, PICTURE]},
        num_detection_tokens=5),
    "swin": lambda: _vision(
        "Swin", image_size=PICTURE, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=4
    ),
    "convnext": lambda: _vision("ConvNext", size=64, **_STAGES),
    "resnet": lambda: _vision("ResNet", size=64, **_STAGES, embedding_size=8, layer_type="basic"),
    "poolformer": lambda: _vision("PoolFormer", size=64, **_STAGES),
    "segformer": lambda: _vision("Segformer", "ForSemanticSegmentation", **_STAGES,
        decoder_hidden_size=16),
    "detr": _detr,
    "wav2vec2": lambda: _sound("Wav2Vec2", **_SOUND),
    "hubert": lambda: _sound("Hubert", **_SOUND),
    "unispeech": lambda: _sound("UniSpeech", **_SOUND),
}  # fmt: skip
"""What makes each network."""
