"""Folders of Hugging Face (configuration and safetensors) → graph, by a template for each kind of
model, without torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.arrays.tracing import Spec, trace_inputs
from infuse.frontends.huggingface import decoders, encoders, vision
from infuse.frontends.huggingface.files import CONFIG, read_config, read_weights
from infuse.frontends.huggingface.layers import Weights
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph

__all__ = ["MODELS", "load"]

MODELS: Final[Mapping[str, Callable[..., Any]]] = {
    **dict.fromkeys(["bert"], encoders.Bert),
    **dict.fromkeys(["roberta", "xlm-roberta", "camembert"], encoders.Roberta),
    "electra": encoders.Electra,
    "distilbert": encoders.DistilBert,
    "mpnet": encoders.MPNet,
    "t5": encoders.T5Encoder,
    "gpt2": decoders.GPT2,
    **dict.fromkeys(["llama", "mistral", "qwen2", "qwen3", "phi3"], decoders.Llama),
    "gemma": decoders.Gemma,
    **dict.fromkeys(["gemma2", "gemma3_text"], decoders.Gemma2),
    "phi": decoders.Phi,
    "vit": vision.ViT,
    "deit": vision.DeiT,
    "clip_vision_model": vision.ClipVision,
    "clip_text_model": vision.ClipText,
}
"""Templates by model_type."""
_HEADS: Final = {
    "ForSequenceClassification": "sequence_classification",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
    "ForMaskedLM": "masked_lm",
    "ForCausalLM": "causal_lm",
    "LMHeadModel": "causal_lm",
    "ForImageClassificationWithTeacher": "image_classification",
    "ForImageClassification": "image_classification",
    "ModelWithProjection": "projection",
    "EncoderModel": "model",
    "Model": "model",
}
"""Heads by what names of architectures end in."""
_BUFFERS: Final = ("position_ids", "rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")
"""What names of weights end in that are no weights."""


def load(folder: Path) -> Graph:
    """The graph of a folder, in float32, with the inputs and outputs that transformers gives them.

    Decoders compute all places at once, without a cache of keys and values. A weight that the
    template does not use is named in a warning.
    """
    where = str(folder)
    config = read_config(folder)
    kind = config.model_type
    template = MODELS.get(kind)
    if template is None:
        raise UnsupportedOperatorError(
            f"there is no template for the model type {kind!r}",
            where=where,
            hint=f"there are templates for {', '.join(sorted(MODELS))}; "
            "others come by way of infuse.from_torch",
        )
    config.require("quantization_config", None)
    architecture = (config.get("architectures") or ["Model"])[0]
    head = next((h for end, h in _HEADS.items() if architecture.endswith(end)), None)
    weights = Weights(read_weights(folder))
    model = template(config, weights)
    if head is None or not _has_head(model, head):
        raise UnsupportedOperatorError(
            f"there is no template for the architecture {architecture!r}",
            where=where,
            hint="export it by way of infuse.from_torch",
        )
    specs = {name: Spec(dtype, shape) for name, (dtype, shape) in model.inputs.items()}
    try:
        with uncollected():
            graph = trace_inputs(
                lambda **inputs: model.run(head, **inputs), specs, folder.name, sources=False
            )
    except InfuseError as error:
        error.within(where)
        raise
    except (TypeError, LookupError, ValueError, ArithmeticError) as error:
        raise ModelFileError(
            f"{CONFIG} and the weights do not fit: {error}", where=where
        ) from error
    unread = sorted(n for n in weights.unread if not n.endswith(_BUFFERS))
    if unread:
        warnings.warn(
            f"{where}: {len(unread)} weights are not used by {architecture}: "
            f"{', '.join(unread[:5])}{' …' if len(unread) > 5 else ''}",
            stacklevel=2,
        )
    return graph


def _has_head(model: Any, head: str) -> bool:
    if isinstance(model, encoders.Bert):
        return hasattr(model, head)
    allowed = {
        decoders.Decoder: ("causal_lm", "model"),
        encoders.T5Encoder: ("model",),
        vision.ClipVision: ("model", "projection"),
        vision.ClipText: ("model", "projection"),
        vision.ViT: ("model", "image_classification"),
    }
    return head in next(heads for kind, heads in allowed.items() if isinstance(model, kind))
