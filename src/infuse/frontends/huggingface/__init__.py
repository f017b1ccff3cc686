"""Folders of Hugging Face (configuration and safetensors) → graph, by a template for each kind of
model, without torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from infuse.errors import InfuseError, ModelFileError, OptionError, UnsupportedOperatorError
from infuse.frontends.huggingface import deberta, decoders, encoders, swin, t5, vision, whisper
from infuse.frontends.huggingface.files import CONFIG, read_config, read_weights
from infuse.frontends.huggingface.layers import Weights
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.tracing.arrays.tracing import Spec, trace_inputs

__all__ = ["MODELS", "load"]

MODELS: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "bert": ("Bert", encoders.Bert),
    "roberta": ("Roberta", encoders.Roberta),
    "xlm-roberta": ("XLMRoberta", encoders.Roberta),
    "camembert": ("Camembert", encoders.Roberta),
    "electra": ("Electra", encoders.Electra),
    "distilbert": ("DistilBert", encoders.DistilBert),
    "mpnet": ("MPNet", encoders.MPNet),
    "deberta-v2": ("DebertaV2", deberta.DebertaV2),
    "t5": ("T5", t5.T5),
    "whisper": ("Whisper", whisper.Whisper),
    "swin": ("Swin", swin.Swin),
    "gpt2": ("GPT2", decoders.GPT2),
    "llama": ("Llama", decoders.Llama),
    "mistral": ("Mistral", decoders.Llama),
    "qwen2": ("Qwen2", decoders.Qwen),
    "qwen3": ("Qwen3", decoders.Qwen),
    "phi3": ("Phi3", decoders.Llama),
    "gemma": ("Gemma", decoders.Gemma),
    "gemma2": ("Gemma2", decoders.Gemma2),
    "gemma3_text": ("Gemma3", decoders.Gemma3),
    "phi": ("Phi", decoders.Phi),
    "vit": ("ViT", vision.ViT),
    "deit": ("DeiT", vision.DeiT),
    "clip_vision_model": ("CLIPVision", vision.ClipVision),
    "clip_text_model": ("CLIPText", vision.ClipText),
}
"""By model_type: what names of architectures begin with, and the template."""
_TASKS: Final = {
    "ForSequenceClassification": "sequence_classification",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
    "ForMaskedLM": "masked_lm",
    "ForCausalLM": "causal_lm",
    "LMHeadModel": "causal_lm",
    "ForConditionalGeneration": "conditional_generation",
    "ForImageClassificationWithTeacher": "image_classification",
    "ForImageClassification": "image_classification",
    "ModelWithProjection": "projection",
    "EncoderModel": "encoder",
    "TextModel": "model",
    "Model": "model",
}
"""Tasks by the rest of an architecture's name; a template lists those that it has in `tasks`."""
_BUFFERS: Final = ("position_ids", "rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")
"""What names of weights end in that are no weights."""


def load(folder: Path, cache: bool = False) -> Graph:
    """The graph of a folder, in float32, with the inputs and outputs that transformers gives them.

    Decoders compute all places at once; with `cache`, the keys and values of the tokens before
    (none at first) are further inputs, and those of all tokens further outputs, named as Optimum
    does. A weight that the template does not use is named in a warning.
    """
    where = str(folder)
    config = read_config(folder)
    kind = config.model_type
    if kind not in MODELS:
        raise UnsupportedOperatorError(
            f"there is no template for the model type {kind!r}",
            where=where,
            hint=f"there are templates for {', '.join(sorted(MODELS))}; "
            "others come by way of infuse.from_torch",
        )
    config.require("quantization_config", None)
    stem, template = MODELS[kind]
    architecture = (config.get("architectures") or [f"{stem}Model"])[0]
    task = _TASKS.get(architecture.removeprefix(stem))
    weights = Weights(read_weights(folder))
    model = template(config, weights)
    if cache and not isinstance(model, decoders.Decoder):
        raise OptionError(
            f"the template of {kind!r} has no cache of keys and values",
            where=where,
            hint="leave the option out, or export the model by way of infuse.from_torch",
        )
    if cache:
        model.is_cached = True
    if task not in model.tasks:
        raise UnsupportedOperatorError(
            f"there is no template for the architecture {architecture!r}",
            where=where,
            hint="export it by way of infuse.from_torch",
        )
    specs = {name: Spec(dtype, shape) for name, (dtype, shape) in model.inputs_of(task).items()}
    try:
        with uncollected():
            graph = trace_inputs(
                lambda **inputs: model.run(task, **inputs), specs, folder.name, sources=False
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
