"""Vocabularies of GGUF files: tokens of texts and back, against independent implementations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import DataError, InputError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.gguf.character_map import check_character_map
from tests.support.gguf_damage import character_map
from tests.support.gguf_vocabularies import (
    BYTE,
    CONTROL,
    TEXTS,
    UNKNOWN,
    byte_pairs,
    fields_of,
    vocabulary,
)

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")


@pytest.fixture(scope="module")
def pairs() -> dict[str, Any]:
    return byte_pairs()


def test_texts_come_back(pairs: dict[str, Any], tmp_path: Path) -> None:
    own = vocabulary(tmp_path, pairs)
    for text in TEXTS:
        ids = own.encode(text)
        assert own.decode(ids, special=True) == text
        detokenizer = own.detokenizer(special=True)
        pieces = [detokenizer.push(number) for number in ids]
        assert "".join(pieces) + detokenizer.finish() == text


# -- special tokens ----------------------------------------------------------------------------


def test_special_tokens_stand_for_themselves_only_where_they_may(
    pairs: dict[str, Any], tmp_path: Path
) -> None:
    own = vocabulary(tmp_path, pairs)
    text = "a<|im_end|>b<tool>c"
    parsed, plain = own.encode(text), own.encode(text, special=False)
    assert own.special == {"<|end|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
    assert 2 in parsed
    assert 3 in parsed
    assert 2 not in plain
    assert 3 in plain
    assert own.decode(parsed) == "ab<tool>c"
    assert own.decode(parsed, special=True) == own.decode(plain) == text
    assert own.ends == {0, 2}


def test_the_longest_special_token_is_taken(tmp_path: Path) -> None:
    tokens = ["<a", "<a>", "<a><b>", "a", "b", "<", ">"]
    types = dict.fromkeys(tokens[:3], CONTROL)
    own = vocabulary(tmp_path, fields_of("gpt2", tokens, types, merges=[], pre="gpt-2"))
    assert own.encode("<a><b><a>a<ab") == [2, 1, 3, 0, 4]


BOTH: dict[str, Any] = {"add_bos_token": True, "add_eos_token": True}


@pytest.mark.parametrize(
    ("changes", "framed"),
    [
        ({}, []),
        ({"add_bos_token": True, "bos_token_id": 1}, [1]),
        (BOTH | {"bos_token_id": 1, "eos_token_id": 2}, [1, 2]),
        ({"pre": "llama-bpe", "bos_token_id": 1}, [1]),
        ({"pre": "llama-bpe", "bos_token_id": 1, "add_bos_token": False}, []),
        ({"add_eos_token": True, "eos_token_id": 0}, [0]),
    ],
)  # fmt: skip
def test_what_frames_a_text(
    changes: dict[str, Any], framed: list[int], pairs: dict[str, Any], tmp_path: Path
) -> None:
    own = vocabulary(tmp_path, pairs | {f"tokenizer.ggml.{k}": v for k, v in changes.items()})
    assert own.encode("", framed=True) == framed
    assert own.encode("") == []
    assert [n for n in own.encode("a", framed=True) if n < 4] == framed


def test_tokens_that_end_an_answer(pairs: dict[str, Any], tmp_path: Path) -> None:
    fields = dict(pairs)
    names = ["<|end|>", "<|call|>", "<|return|>", "<|channel|>", "</s>"]
    fields["tokenizer.ggml.tokens"] = [*names, *pairs["tokenizer.ggml.tokens"][4:]]
    fields["tokenizer.ggml.token_type"] = np.concatenate(
        [np.full(5, CONTROL), np.ones(len(fields["tokenizer.ggml.tokens"]) - 5)]
    ).astype(np.int32)
    own = vocabulary(tmp_path, fields)
    assert own.ends == {1, 2, 4}
    assert own.decode([0, 3, 1]) == "<|channel|>"
    own = vocabulary(tmp_path, {**fields, "tokenizer.ggml.eot_token_id": 7})
    assert own.ends == {1, 2, 4, 7}


def test_phi_3_takes_the_space_after_a_special_token(pairs: dict[str, Any], tmp_path: Path) -> None:
    own = vocabulary(tmp_path, {**pairs, "general.name": "Phi-3 mini"})
    assert own.encode("<|end|>  \n a") == own.encode("<|end|>a")
    plain = vocabulary(tmp_path, pairs)
    assert plain.encode("<|end|> a") != plain.encode("<|end|>a")


def test_chat_templates(pairs: dict[str, Any], tmp_path: Path) -> None:
    fields = {"tokenizer.chat_template": "{{ a }}", "tokenizer.chat_template.tool": "{{ b }}"}
    own = vocabulary(tmp_path, {**pairs, **fields})
    assert (own.chat_template, own.chat_templates) == ("{{ a }}", {"tool": "{{ b }}"})
    assert vocabulary(tmp_path, pairs).chat_template is None


# -- pieces with scores --------------------------------------------------------------------------

LETTERS = "abc▁"


def scored(count: int, seed: int, *, crossing: bool, of_bytes: bool) -> dict[str, Any]:
    """A vocabulary of random pieces; `crossing`: some have a space after another character."""
    rng = random.Random(seed)
    pieces = set(LETTERS)
    while len(pieces) < count:
        piece = "".join(rng.choice(LETTERS) for _ in range(rng.choice((2, 2, 3, 4))))
        if crossing or "▁" not in piece.lstrip("▁"):
            pieces.add(piece)
    tokens = ["<unk>", "<s>", "</s>", *sorted(pieces)]
    types = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    if of_bytes:
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        tokens, types = [*tokens, *names], types | dict.fromkeys(names, BYTE)
    # Whole numbers: some scores are equal, and then the leftmost pair is merged first.
    scores = np.array([-rng.randrange(20) for _ in tokens], np.float32)
    return fields_of("llama", tokens, types, scores=scores, add_space_prefix=False)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("crossing", [False, True])
def test_pieces_are_merged_by_their_scores(seed: int, crossing: bool, tmp_path: Path) -> None:
    fields = scored(40, seed, crossing=crossing, of_bytes=True)
    own = vocabulary(tmp_path, fields)
    tokens, scores = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"]
    numbers = {text: n for n, text in enumerate(tokens) if n > 2 and not text.startswith("<0x")}
    rng = random.Random(seed)
    for _ in range(100):
        text = "".join(rng.choice("aabbcc  é") for _ in range(rng.randrange(30)))
        expected: list[int] = []
        for symbol in by_scores(text.replace(" ", "▁"), numbers, scores):
            own_bytes = [tokens.index(f"<0x{byte:02X}>") for byte in symbol.encode()]
            expected += [numbers[symbol]] if symbol in numbers else own_bytes
        assert own.encode(text) == expected
        assert own.decode(expected) == text


def by_scores(text: str, numbers: Mapping[str, int], scores: np.ndarray) -> list[str]:
    symbols = list(text)
    while True:
        best: tuple[float, int] | None = None
        for at, (left, right) in enumerate(itertools.pairwise(symbols)):
            number = numbers.get(left + right)
            if number is not None and (best is None or scores[number] > best[0]):
                best = float(scores[number]), at
        if best is None:
            return symbols
        symbols[best[1] : best[1] + 2] = ["".join(symbols[best[1] : best[1] + 2])]


def test_pieces_of_text_never_steer(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "<", "s", ">", "<s", "s>", "/", "</"]
    types = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    fields = fields_of("llama", tokens, types, scores=np.zeros(10, np.float32))
    own = vocabulary(tmp_path, {**fields, "tokenizer.ggml.add_space_prefix": False})
    assert own.encode("<s>") == [1]
    assert own.encode("<s>", special=False) == [6, 5]
    assert own.encode("é<unk>", special=False) == [0, 3, 0, 0, 0, 5]


def test_a_space_before_a_text_and_after_special_tokens(tmp_path: Path) -> None:
    fields = scored(30, 1, crossing=False, of_bytes=False)
    del fields["tokenizer.ggml.add_space_prefix"]
    own = vocabulary(tmp_path, fields)
    plain = vocabulary(tmp_path, {**fields, "tokenizer.ggml.add_space_prefix": False})
    assert own.encode("ab", framed=True) == [1, *plain.encode(" ab")]
    assert own.encode("ab</s>ab") == [*plain.encode(" ab"), 2, *plain.encode(" ab")]
    assert own.decode(own.encode("ab")) == "ab"
    assert own.encode("") == []


def test_long_words_take_time_in_proportion(tmp_path: Path) -> None:
    own = vocabulary(tmp_path, scored(60, 3, crossing=False, of_bytes=False))
    assert own.decode(own.encode("abcab" * 5_000)) == "abcab" * 5_000


# -- words and probabilities ---------------------------------------------------------------------


def test_pieces_of_words(tmp_path: Path) -> None:
    special = {"[PAD]": CONTROL, "[UNK]": CONTROL, "[CLS]": CONTROL, "[SEP]": CONTROL}
    tokens = [*special, "▁un", "▁the", "aff", "able", "▁,", "▁中", "▁cafe", "s"]
    fields = fields_of(
        "bert", tokens, special, bos_token_id=2, seperator_token_id=3, unknown_token_id=1
    )
    own = vocabulary(tmp_path, fields)
    text = "The unaffable, 中 CAFÉS unx [SEP]"
    assert own.encode(text, framed=True) == [2, 5, 4, 6, 7, 8, 9, 10, 11, 1, 3, 3]
    assert own.encode("", framed=True) == [2, 3]
    assert own.decode([5, 4, 6, 7, 8]) == "the unaffable ,"
    cased = vocabulary(tmp_path, {**fields, "tokenizer.ggml.normalizer.lowercase": False})
    assert cased.encode("The the") == [1, 5]


def test_the_most_probable_pieces(tmp_path: Path) -> None:
    rng = random.Random(5)
    pieces = {letter: -6 - rng.random() for letter in LETTERS}
    while len(pieces) < 40:
        piece = "".join(rng.choice(LETTERS) for _ in range(rng.choice((2, 3, 4))))
        pieces[piece] = -4 - 6 * rng.random()
    special = {"<pad>": CONTROL, "</s>": CONTROL, "<unk>": UNKNOWN}
    scores = np.array([0, 0, 0, *pieces.values()], np.float32)
    fields = fields_of("t5", [*special, *pieces], special, scores=scores, eos_token_id=1)
    own = vocabulary(tmp_path, fields)
    values = {text: float(np.float32(score)) for text, score in pieces.items()}
    for _ in range(50):
        text = "".join(rng.choice("aabbcc ") for _ in range(rng.randrange(1, 9)))
        ids = own.encode(text, framed=True)
        assert ids[-1] == 1
        total = sum(values[own.text(number)] for number in ids[:-1])
        assert total == pytest.approx(most_probable(text.replace(" ", "▁"), values))
    assert own.encode("aéa")[1] == 2
    assert own.encode("<unk>", special=False)[0] == 2


def test_characters_are_mapped_before(tmp_path: Path) -> None:
    special = {"<unk>": UNKNOWN}
    charsmap = np.frombuffer(character_map({"A": "b", "é": "cc"}), np.uint8)
    fields = fields_of(
        "t5", ["<unk>", "b", "c", "▁"], special, scores=np.zeros(4, np.float32),
        unknown_token_id=0, precompiled_charsmap=charsmap, remove_extra_whitespaces=True,
    )  # fmt: skip
    own = vocabulary(tmp_path, fields)
    assert own.encode("  Aé   c ") == [3, 1, 2, 2, 3, 2]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_maps_of_characters_lead_nowhere(seed: int) -> None:
    rng, content = random.Random(seed), character_map({"A": "b", "é": "cc"})
    text = "".join(map(chr, range(1, 0x300)))
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 4, 20))):
            at = rng.choice((0, 4, 5, 6, 7, -1, rng.randrange(len(damaged))))
            damaged[at] = rng.randrange(256)
        try:
            check_character_map(bytes(damaged))
        except ModelFileError:
            refused += 1
            continue
        tokenizers.normalizers.Precompiled(bytes(damaged)).normalize_str(text)
    assert 20 < refused < 300


def most_probable(text: str, values: Mapping[str, float]) -> float:
    best = [0.0] + [-np.inf] * len(text)
    for end in range(1, len(text) + 1):
        for start in range(end):
            best[end] = max(best[end], best[start] + values.get(text[start:end], -np.inf))
    return best[-1]


# -- texts as they come --------------------------------------------------------------------------


def test_bytes_wait_until_they_are_a_character(tmp_path: Path) -> None:
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    types = dict.fromkeys(names, BYTE) | {"<unk>": UNKNOWN}
    fields = fields_of("llama", ["<unk>", *names], types, scores=np.zeros(257, np.float32))
    own = vocabulary(tmp_path, {**fields, "tokenizer.ggml.add_space_prefix": False})
    detokenizer = own.detokenizer()
    ids = own.encode("é🙂")
    assert [detokenizer.push(n) for n in ids] == ["", "é", "", "", "", "🙂"]
    assert detokenizer.push(1 + 0xE2) == ""
    assert detokenizer.push(1 + ord("a")) == "\ufffda"
    assert detokenizer.push(1 + 0xF0) == ""
    assert detokenizer.finish() == "\ufffd"
    assert own.piece(1 + 0xF0) == b"\xf0"


# -- what is wrong -------------------------------------------------------------------------------


PAIRS = fields_of("gpt2", ["a", "b", "ab"], merges=["a b"], pre="gpt-2")
PIECES = fields_of("llama", ["a", "b", "c"], scores=np.zeros(3, np.float32))
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({}, "no field 'tokenizer.ggml.model'"),
    "no vocabulary": ({"tokenizer.ggml.model": "no_vocab"}, "it has no vocabulary"),
    "rwkv": ({"tokenizer.ggml.model": "rwkv"}, "tokenizer is of the kind 'rwkv'.*gpt2, llama"),
    "pre": ({**PAIRS, "tokenizer.ggml.pre": "qwen22"}, "'qwen22'.*did you mean 'qwen2'"),
    "no tokens": ({"tokenizer.ggml.model": "llama"}, "no field 'tokenizer.ggml.tokens'"),
    "empty": ({**PAIRS, "tokenizer.ggml.tokens": []}, "vocabulary has no tokens"),
    "numbers": ({**PAIRS, "tokenizer.ggml.tokens": np.zeros(3, np.int32)}, "not an array of str"),
    "twice": ({**PAIRS, "tokenizer.ggml.tokens": ["a", "b", "a"]}, "tokens 0 and 2 are both 'a'"),
    "types": (
        {**PAIRS, "tokenizer.ggml.token_type": np.zeros(2, np.int32)},
        "token_type has 2 elements of int32 for 3 tokens",
    ),
    "bos": ({**PAIRS, "tokenizer.ggml.bos_token_id": 3}, "bos_token_id is 3, and there are 3"),
    "merge": ({**PAIRS, "tokenizer.ggml.merges": ["ab"]}, "merges is no pair"),
    "unknown part": ({**PAIRS, "tokenizer.ggml.merges": ["a c"]}, "tokens and merges do not fit"),
    "no scores": (fields_of("llama", ["a"]), "no field 'tokenizer.ggml.scores'"),
    "nan": (
        {**PIECES, "tokenizer.ggml.scores": np.array([0, np.nan, 0], np.float32)},
        "score of token 1 is nan",
    ),
    "scores": ({**PIECES, "tokenizer.ggml.scores": np.zeros(2, np.float32)}, "scores has 2 elem"),
    "template": ({**PAIRS, "tokenizer.chat_template": 3}, "chat_template' is 3, not a string"),
    "charsmap": (
        {
            **fields_of("t5", ["a", "b", "c"], scores=np.zeros(3, np.float32)),
            "tokenizer.ggml.precompiled_charsmap": np.full(3, 255, np.uint8),
        },
        "character map states another size than it has",
    ),
    "long special": (
        fields_of("gpt2", ["a", "<" * 300], {"<" * 300: CONTROL}, merges=[]),
        "special token .* has 300 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_vocabulary_is_an_error_that_says_where(name: str, tmp_path: Path) -> None:
    fields, message = WRONG[name]
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=message) as error:
        vocabulary(tmp_path, fields)
    assert "a.gguf" in str(error.value)


def test_numbers_and_texts_that_are_none(pairs: dict[str, Any], tmp_path: Path) -> None:
    own = vocabulary(tmp_path, pairs)
    calls: list[Callable[[int], Any]] = [
        own.text, own.piece, lambda n: own.decode([n]), own.detokenizer().push,
    ]  # fmt: skip
    for call, number in itertools.product(calls, (-1, len(own), 1 << 40)):
        with pytest.raises(DataError, match="is no token's number"):
            call(number)
    with pytest.raises(InputError, match="character 2 of the text is a lone surrogate"):
        own.encode("ab\ud800")


def test_sentence_pieces_need_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    fields = scored(30, 1, crossing=False, of_bytes=False)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert vocabulary(tmp_path, fields).encode("abc")
    with pytest.raises(UnsupportedOperatorError, match="'tokenizers' is not installed"):
        vocabulary(tmp_path, PAIRS)
