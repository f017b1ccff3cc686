"""Language models beside transformers: random decoders of every family, as GGUF files."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.torchvision_schemas import make_importable
from infuse.errors import InputError, ModelFileError, OptionError, UnsupportedOperatorError
from infuse.frontends.gguf.container import GgufFile
from infuse.language import model as language
from infuse.language.model import LanguageModel
from infuse.language.templates import render
from tests.support.gguf_writer import BYTE_VOCABULARY, decoder, gguf_bytes, tensor, written

torch = pytest.importorskip("torch")
make_importable()
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

WIDTH, HEADS, GROUPS, SIZE, HIDDEN = 64, 4, 2, 16, 128
LAYERS = {"llama": 2, "qwen2": 2, "qwen3": 2, "gemma2": 4, "gemma3": 7}
FIELDS: dict[str, dict[str, Any]] = {
    "gemma2": {"attention.sliding_window": 8, "attn_logit_softcapping": 5.0},
    "gemma3": {"attention.sliding_window": 8, "rope.freq_base": 1e6},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"attn_logit_softcapping": 5.0, "query_pre_attn_scalar": SIZE, "sliding_window": 8},
    "gemma3": {"query_pre_attn_scalar": SIZE, "sliding_window": 8},
}
CLASSES = {
    "llama": "Llama",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma2": "Gemma2",
    "gemma3": "Gemma3",
}
NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def file_of(family: str, path: Path, form: str = "F32", **fields: Any) -> Path:
    own = {**FIELDS.get(family, {}), **fields}
    return written(
        path / f"{family}.gguf",
        decoder(family, form=form, vocabulary=BYTE_VOCABULARY, layers=LAYERS[family], **own),
    )


def fused(path: Path, to: Path) -> Path:
    """A decoder of phi3 with the weights of one of qwen3, whose products are stored together."""
    file = GgufFile(path)
    tensors = {name: each.array() for name, each in file.tensors.items()}
    for layer in range(2):
        of = f"blk.{layer}"
        for whole, parts in (
            ("attn_qkv", ("attn_q", "attn_k", "attn_v")),
            ("ffn_up", ("ffn_gate", "ffn_up")),
        ):
            tensors[f"{of}.{whole}.weight"] = np.concatenate(
                [tensors.pop(f"{of}.{part}.weight") for part in parts]
            )
        for name in ("attn_q_norm", "attn_k_norm"):
            del tensors[f"{of}.{name}.weight"]
    fields = {
        name.replace("qwen3.", "phi3."): value
        for name, value in file.metadata.items()
        if name.startswith("qwen3.")
    }
    fields = {**BYTE_VOCABULARY, **fields, "general.architecture": "phi3"}
    return written(to, gguf_bytes(fields, {n: tensor(w) for n, w in tensors.items()}))


def peer_of(family: str, path: Path) -> Any:
    """The decoder of transformers that has the weights of a file."""
    cap = {"final_logit_softcapping": 30.0} if family == "gemma2" else {}
    config = getattr(transformers, f"{CLASSES[family]}{'Text' * (family == 'gemma3')}Config")(
        vocab_size=258,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS[family],
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        head_dim=SIZE,
        max_position_embeddings=512,
        rms_norm_eps=1e-6,
        tie_word_embeddings=family.startswith("gemma"),
        attn_implementation="eager",
        **CONFIGS[family],
        **cap,
    )
    peer = getattr(transformers, f"{CLASSES[family]}ForCausalLM")(config).eval()
    state = {}
    for name, each in GgufFile(path).tensors.items():
        weights = each.array().astype(np.float32)
        if family == "llama" and (".attn_q." in name or ".attn_k." in name):
            pairs = weights.reshape(-1, SIZE // 2, 2, WIDTH).swapaxes(1, 2)
            weights = pairs.reshape(weights.shape)
        if family.startswith("gemma") and "norm" in name:
            weights = weights - 1
        state[foreign_name(family, name)] = torch.from_numpy(np.ascontiguousarray(weights))
    missing, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected
    assert {*missing} <= {"lm_head.weight"}
    peer.tie_weights()
    return peer


def foreign_name(family: str, name: str) -> str:
    outer = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if name in outer:
        return outer[name]
    _, layer, part, kind = name.split(".")
    if part == "ffn_norm":
        inner = f"{'pre_feedforward' if family.startswith('gemma') else 'post_attention'}_layernorm"
    else:
        inner = NAMES[part]
    return f"model.layers.{layer}.{inner}.{kind}"


@pytest.mark.row("L1", "L2")
@pytest.mark.parametrize("family", LAYERS)
def test_families_beside_transformers(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(family, tmp_path)
    peer = peer_of(family, path)
    tokens = np.random.default_rng(1).integers(0, 258, 75)
    with torch.no_grad():
        expected = peer(torch.from_numpy(tokens)[None]).logits[0].numpy()
    with LanguageModel(path, exact=True, cache="float32", threads=2) as model:
        np.testing.assert_allclose(model.logits(tokens), expected, atol=1e-4)
        monkeypatch.setattr(language, "_AT_ONCE", 7)
        np.testing.assert_allclose(model.logits(tokens), expected, atol=1e-4)
        monkeypatch.setattr(language, "_AT_ONCE", 1)
        np.testing.assert_allclose(model.logits(tokens[:20]), expected[:20], atol=1e-4)


@pytest.mark.row("L1", "L2")
def test_products_that_are_stored_together(tmp_path: Path) -> None:
    """Phi-3, whose every layer sees a window."""
    source = file_of("qwen3", tmp_path, **{"attention.sliding_window": 8})
    path = fused(source, tmp_path / "phi3.gguf")
    config = transformers.Phi3Config(
        vocab_size=258,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=512,
        original_max_position_embeddings=512,
        rms_norm_eps=1e-6,
        sliding_window=8,
        pad_token_id=0,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    peer = transformers.Phi3ForCausalLM(config).eval()
    state = {
        foreign_name("phi3", name).replace(".up_proj.", ".gate_up_proj."): torch.from_numpy(
            np.ascontiguousarray(each.array())
        )
        for name, each in GgufFile(path).tensors.items()
    }
    peer.load_state_dict(state)
    tokens = np.random.default_rng(1).integers(0, 258, 60)
    with torch.no_grad():
        expected = peer(torch.from_numpy(tokens)[None]).logits[0].numpy()
    with LanguageModel(path, exact=True, cache="float32") as model:
        np.testing.assert_allclose(model.logits(tokens), expected, atol=1e-4)


@pytest.mark.row("L1", "L2", "L6")
@pytest.mark.parametrize("form", ["Q8_0", "Q4_0"])
def test_blocks_and_halves_stay_near(form: str, tmp_path: Path) -> None:
    """Weights in blocks are those of the file; rounding of rows and of the cache shows little."""
    path = file_of("llama", tmp_path, form)
    tokens = np.random.default_rng(2).integers(0, 258, 40)
    with torch.no_grad():
        expected = peer_of("llama", path)(torch.from_numpy(tokens)[None]).logits[0].numpy()
    with LanguageModel(path, exact=True, cache="float32") as model:
        np.testing.assert_allclose(model.logits(tokens), expected, atol=1e-4)
    with LanguageModel(path) as model:
        off = np.sqrt(np.square(model.logits(tokens) - expected).mean())
    assert off < 0.04 * expected.std()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = file_of("llama", tmp_path_factory.mktemp("llama"))
    with LanguageModel(path, exact=True, cache="float32", context=200) as opened:
        yield opened


@pytest.mark.row("L4", "L5")
def test_greedy_answers_are_those_of_logits(model: LanguageModel) -> None:
    prompt = [5, 99, 3, 250]
    answer = model.generate(prompt, max_tokens=12, ignore_eos=True)
    tokens = list(prompt)
    for token in answer.tokens:
        assert token == model.logits(tokens)[-1].argmax()
        tokens.append(token)
    assert (len(answer.tokens), answer.finish, answer.prompt_tokens) == (12, "length", 4)
    again = model.generate([*prompt, *answer.tokens, 7], max_tokens=1)
    assert again.prompt_tokens == 17
    assert again.run_tokens == 2  # the last that `logits` ran is a prefix of 15 tokens
    more = model.generate([*prompt, *answer.tokens, 7, 8], max_tokens=1)
    assert more.run_tokens == 1


@pytest.mark.row("L4")
def test_seeds_and_limits_of_sampling(model: LanguageModel) -> None:
    def draw(**how: Any) -> tuple[int, ...]:
        return model.generate([1, 2, 3], max_tokens=20, ignore_eos=True, **how).tokens

    assert draw(temperature=1.5, seed=4) == draw(temperature=1.5, seed=4)
    assert draw(temperature=1.5, seed=4) != draw(temperature=1.5, seed=5)
    greedy = draw()
    assert draw(temperature=2.0, top_k=1, seed=1) == greedy
    assert draw(temperature=2.0, top_p=1e-9, seed=1) == greedy
    assert draw(temperature=2.0, min_p=1.0, seed=1) == greedy
    assert set(draw(logit_bias={77: 1000.0})) == {77}
    assert len(set(draw(presence_penalty=1000.0))) == 20
    for wrong in ({"temperature": -1}, {"top_p": 2}, {"seed": -1}, {"logit_bias": {258: 1.0}}):
        with pytest.raises(OptionError):
            draw(**wrong)


@pytest.mark.row("L4")
def test_stop_texts_across_tokens(model: LanguageModel) -> None:
    free = model.generate("hello", max_tokens=60, ignore_eos=True)
    assert len(free.text) > 20
    stop = free.text[6:9]
    cut = model.generate("hello", max_tokens=60, ignore_eos=True, stop=["never", stop])
    assert cut.text == free.text[: free.text.index(stop)]
    assert cut.finish == "stop"
    pieces = list(model.stream("hello", max_tokens=60, ignore_eos=True))
    assert "".join(piece.text for piece in pieces) == free.text


@pytest.mark.row("L5")
def test_the_second_start_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Weights that no run had before, as the cache folder stays.
    path = file_of("llama", tmp_path, seed=secrets.randbits(40))

    def first(**how: Any) -> np.ndarray:
        with LanguageModel(path, **how) as opened:
            return opened.logits([1, 2, 3])

    before = first()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it is compiled again")

    with monkeypatch.context() as patch:
        patch.setattr("infuse.build.compile.compile_graph", refuse)
        np.testing.assert_array_equal(first(), before)
        with pytest.raises(AssertionError, match="compiled again"):
            first(exact=True)
        other = file_of("llama", tmp_path, seed=secrets.randbits(40))
        with pytest.raises(AssertionError, match="compiled again"):
            first()
    assert other == path
    assert not np.array_equal(first(), before)


@pytest.mark.row("L5")
def test_streams_in_turns_are_those_alone(model: LanguageModel) -> None:
    def tokens(prompt: str) -> list[int | None]:
        return [piece.token for piece in model.stream(prompt, max_tokens=9, ignore_eos=True)]

    alone = [tokens(prompt) for prompt in ("one", "another")]
    turns = [model.stream(prompt, max_tokens=9, ignore_eos=True) for prompt in ("one", "another")]
    pieces = [[next(stream).token for stream in turns] for _ in range(9)]
    assert [list(each) for each in zip(*pieces)] == alone
    begun = model.stream("one", max_tokens=9)
    next(begun)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(tokens, ["one", "another"] * 3)) == alone * 3


@pytest.mark.row("L5")
def test_chats_follow_the_template(model: LanguageModel) -> None:
    prompt = model.prompt_of([{"role": "user", "content": "ab"}, {"role": "x", "content": "c"}])
    assert model.vocabulary.decode(prompt) == "user:ab\nx:c\n>"
    assert model.chat([{"role": "user", "content": "ab"}], max_tokens=3).prompt_tokens == 8
    with pytest.raises(InputError, match="has no role"):
        model.chat([{"content": "ab"}])


@pytest.mark.row("L5")
def test_templates_of_strangers() -> None:
    """They loop, fail, and reach for what they must not have."""
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    place = "{{ loop.index }}/{{ loop.length }}{{ m.content }}{{ loop.last }} "
    every = f"{{% for m in messages %}}{place}{{% endfor %}}"
    assert render(every, messages) == "1/2xFalse 2/2yTrue "
    nested = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    for template in (
        nested,
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
        "{% for %}",
        "{{ 'x' * 2000000 }}",
        "{% include 'other' %}",
    ):
        with pytest.raises(ModelFileError, match="chat template"):
            render(template, messages)
    with pytest.raises(InputError, match="only one"):
        render("{{ raise_exception('only one') }}", messages)


@pytest.mark.row("L5")
def test_prompts_that_do_not_fit(model: LanguageModel) -> None:
    for prompt, message in (
        ("", "is empty"),
        ([], "is empty"),
        ([258], "there are 258"),
        ([-1], "there are 258"),
        ([1] * 200, "has 200 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate(prompt)
    with pytest.raises(InputError, match="max_tokens"):
        model.generate("a", max_tokens=0)
    whole = model.generate([1] * 190, ignore_eos=True)
    assert (len(whole.tokens), whole.finish) == (10, "length")


@pytest.mark.row("L1")
def test_files_that_are_no_decoders(tmp_path: Path) -> None:
    def refused(kind: type[Exception], message: str, content: bytes) -> None:
        with pytest.raises(kind, match=message):
            LanguageModel(written(tmp_path / "bad.gguf", content))

    general: Mapping[str, Any] = {"general.architecture": "rwkv7", **BYTE_VOCABULARY}
    refused(UnsupportedOperatorError, "'rwkv7' is not supported", gguf_bytes(general))
    fields = {**general, "general.architecture": "llama"}
    refused(ModelFileError, "no field 'llama.block_count'", gguf_bytes(fields))
    table = {"token_embd.weight": tensor(np.zeros((258, 64), np.float32))}
    sizes = {"embedding_length": 64, "block_count": 1, "feed_forward_length": 64,
             "attention.head_count": 4, "context_length": 64}  # fmt: skip
    fields |= {f"llama.{name}": value for name, value in sizes.items()}
    fields["llama.attention.layer_norm_rms_epsilon"] = 1e-6
    refused(ModelFileError, "no tensor 'blk.0.attn_norm.weight'", gguf_bytes(fields, table))
    fields["llama.attention.head_count_kv"] = 3
    refused(ModelFileError, "share no heads", gguf_bytes(fields, table))
    with pytest.raises(OptionError, match="the context is 600"):
        LanguageModel(file_of("llama", tmp_path), context=600)
    with pytest.raises(OptionError, match="the cache is"):
        LanguageModel(file_of("llama", tmp_path), cache="int3")
