"""Architectures of transformers, made small, with random weights: what they take, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

TEXT: Final = (
    *("bert", "distilbert", "roberta", "electra", "albert", "mpnet", "deberta", "deberta-v2"),
    *("camembert", "xlm-roberta", "ernie", "esm", "mobilebert", "squeezebert", "layoutlm", "ibert"),
    *("megatron-bert", "nomic_bert", "modernbert", "rembert", "roformer", "nystromformer", "fnet"),
    *(
        "convbert",
        "data2vec-text",
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "opt",
        "bloom",
        "codegen",
    ),
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "falcon", "olmo"),
    *("stablelm", "starcoder2", "granite", "cohere", "biogpt", "mamba"),
)
IMAGES: Final = (
    *("vit", "deit", "beit", "dinov2", "ijepa", "vit_msn", "clip_vision_model"),
    *("siglip_vision_model", "data2vec-vision", "convnext", "resnet", "mobilevit"),
)
OTHERS: Final = ("t5_encoder", "whisper_encoder", "t5", "bart")
NAMES: Final = (*TEXT, *IMAGES, *OTHERS)
_HEADS: Final = dict.fromkeys(
    [
        *("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
        "decoder_attention_heads",
    ],
    4,
)
_LAYERS: Final = dict.fromkeys(
    [
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
        *("decoder_layers", "num_decoder_layers"),
    ],
    2,
)
_WIDTHS: Final = dict.fromkeys(
    ["hidden_size", "d_model", "n_embd", "dim", "word_embed_proj_dim"], 32
)
_INNER: Final = dict.fromkeys(
    [
        *("intermediate_size", "hidden_dim", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"),
        *("d_ff", "n_inner"),
    ],
    64,
)
_TOKENS: Final = {
    **dict.fromkeys(["pad_token_id", "bos_token_id"], 1),
    **dict.fromkeys(["eos_token_id", "decoder_start_token_id"], 2),
}
_REST: Final = {"vocab_size": 99, "num_key_value_heads": 2, "head_dim": 8, "use_cache": False}
_OF: Final[Mapping[str, Mapping[str, Any]]] = {
    "albert": {"embedding_size": 16},
    "electra": {"embedding_size": 16},
    "roformer": {"embedding_size": 32, "rotary_value": False},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "falcon": {"new_decoder_architecture": False, "multi_query": True},
    "esm": {"token_dropout": False, "position_embedding_type": "rotary", "mask_token_id": 3},
    "nystromformer": {"segment_means_seq_len": 8, "num_landmarks": 8},
    "mobilevit": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32]},
    "convnext": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "patch_size": 4},
    "squeezebert": {"embedding_size": 32},
    "resnet": {"hidden_sizes": [8, 16, 24, 32], "embedding_size": 8, "depths": [1, 1, 1, 1]},
    "t5_encoder": {"d_kv": 8},
    "t5": {"d_kv": 8},
    "whisper_encoder": {"num_mel_bins": 16, "max_source_positions": 50},
}

_SIDE: Final = {"mobilevit": 64, "convnext": 64}


class Only(torch.nn.Module):
    """A module of transformers that gives its first tensor."""

    def __init__(self, module: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, values: Any) -> Any:
        """The first result."""
        return self.module(**dict.fromkeys(self.names, values), return_dict=False)[0]


def module_of(name: str) -> Any:
    """The architecture of this name."""
    import transformers as t

    kind = name.removesuffix("_encoder")
    make = t.CONFIG_MAPPING[kind]
    default = make()
    small = {**_HEADS, **_LAYERS, **_WIDTHS, **_INNER, **_TOKENS, **_REST}
    if name in IMAGES:
        small |= {"image_size": _SIDE.get(name, 32), "patch_size": 8}
    left = {"mobilevit": "patch_size", "falcon": "head_dim", "convnext": "num_hidden_layers"}
    options = {k: v for k, v in small.items() if hasattr(default, k) and left.get(name) != k}
    module = t.AutoModel.from_config(make(**(options | _OF.get(name, {})))).eval()
    return module.get_encoder() if name.endswith("_encoder") else module


def inputs_of(
    name: str,
) -> tuple[tuple[str, ...], Callable[..., torch.Tensor], list[tuple[int, ...]]]:
    """The names of what an architecture takes, how to make it, and two pairs of sizes of it."""
    if name in IMAGES:
        side = _SIDE.get(name, 32)
        return ("pixel_values",), lambda b: torch.randn(b, 3, side, side), [(2,), (3,)]
    if name == "whisper_encoder":
        return ("input_features",), lambda b: torch.randn(b, 16, 100), [(2,), (3,)]
    keys = ("input_ids", "decoder_input_ids") if name in ("t5", "bart") else ("input_ids",)
    return keys, lambda b, n: torch.randint(5, 95, (b, n)), [(2, 11), (3, 20)]
