"""Tokenizers, texts and tokens that are refused, and in which words."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import processing
from infuse.errors import (
    DataError,
    InfuseError,
    ModelFileError,
    OptionError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ops.core.evaluate import evaluate
from infuse.ops.tokens import WORDS
from tests.pure.text_programs import SMALL, program, small, strings
from tests.pure.traced_blocks import traced

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.row("C10")


def broken(**changes: Any) -> bytes:
    return json.dumps({**json.loads(SMALL), **changes}).encode()


def other_model(**model: Any) -> bytes:
    return broken(model={**json.loads(SMALL)["model"], **model})


PANICS = [
    broken(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    # A prefix that is longer than what is merged.
    broken(
        model={
            **{"type": "BPE", "vocab": {"h": 0, "e": 1}, "merges": [["h", "e"]]},
            "continuing_subword_prefix": "##",
        }
    ),
]
BAD = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
    b"[]",
    b"{}",
    b'{"version": NaN}',
    broken(model={"type": "Markov", "vocab": {}}),
    broken(model=None),
    broken(version="9.9"),
    other_model(max_input_chars_per_word=10**30),
    other_model(vocab={"a": 2**40}),
    other_model(vocab={"a": -1}),
    broken(model={"type": "Unigram", "unk_id": 5, "vocab": [["a", -1.0]]}),
    broken(model={"type": "Unigram", "unk_id": 0, "vocab": []}),
    broken(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}),
    broken(model={"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}),
    broken(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated"}),
    *PANICS,
]


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_what_is_no_tokenizer_is_refused(content: bytes) -> None:
    x = strings("the cat")
    with pytest.raises(
        ModelFileError, match=r"not a file of the tokenizers library|not JSON|random"
    ):
        processing.tokenize(x, tokenizer=content, pad_token="[PAD]")
    with pytest.raises(ModelFileError):
        processing.detokenize(np.array([[1]]), tokenizer=content)


def test_a_broken_tokenizer_in_a_file_is_told_when_a_model_is_made(tmp_path: Path) -> None:
    graph = infuse.trace(program, {"text": infuse.Spec("string", ("batch",))})
    bad = parse(print_graph(graph).replace("WordPiece", "Words"))
    infuse.save(bad, tmp_path / "bad.infuse")
    loaded = infuse.load(tmp_path / "bad.infuse")
    what = r"Tokenize.*not a file of the tokenizers library"
    with pytest.raises(InfuseError, match=what):
        infuse.InferenceSession(tmp_path / "bad.infuse")
    with pytest.raises(InfuseError, match=what):
        infuse.compile(loaded)
    with pytest.raises(ModelFileError, match=what):
        evaluate(loaded, {"text": strings("a")})


def test_texts_that_a_tokenizer_cannot_cut_are_named() -> None:
    missing = other_model(vocab={"the": 0, "[CLS]": 2, "[SEP]": 3})
    panic = broken(
        post_processor={
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    )
    for content in (missing, panic):
        with pytest.raises(DataError, match=r"element \d: it cannot be made tokens of"):
            processing.tokenize(strings("the", "xyz"), tokenizer=content, padding="none")
    for options, what in (
        ({"max_length": 3, "truncation": "none"}, "element 1: it has 4 tokens, 3 are allowed"),
        ({"padding": "none"}, "element 1: it has 4 tokens and the first text 3"),
        ({"max_length": 3, "truncation": "only_second"}, "element 1: it cannot be made tokens of"),
    ):
        named = {"pad_token": "[PAD]", **options}
        with pytest.raises(DataError, match=what):
            processing.tokenize(strings("cat", "the cat"), tokenizer=SMALL, **named)  # type: ignore[arg-type]
    graph = traced(small, [strings("a")], ())
    for item, what in ((b"\xff", "not UTF-8"), (5, "not text but int")):
        bad = np.array([item], dtype=object)
        with pytest.raises(InfuseError, match=what):
            evaluate(graph, {"text": bad})
    whole = evaluate(graph, {"text": np.array(["猫".encode()], dtype=object)})
    assert whole["output_0"].tolist() == [[2, 8, 3]]


@pytest.mark.parametrize("number", [-1, len(WORDS), 2**32, 2**62, -(2**63)])
def test_numbers_of_no_token_are_named(number: int) -> None:
    with pytest.raises(DataError, match=f"row 1: {number} is not a token's number"):
        processing.detokenize(np.array([[4, 5], [6, number]]), tokenizer=SMALL)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_length": 0}, "`max_length` is 0"),
        ({"max_length": 10**12}, "`max_length` is 1000000000000"),
        ({"max_length": 3}, "leaves no room beside 3 special tokens"),
        ({"multiple": 0}, "`multiple` is 0"),
        ({"max_length": 10, "multiple": 8}, "not a multiple"),
        ({"padding": "max_length"}, "needs a `max_length`"),
        ({"padding": "all"}, "`padding` is 'all'"),
        ({"padding_side": "top"}, "`padding_side` is 'top'"),
        ({"truncation": "some"}, "`truncation` is 'some'"),
        ({"truncation_side": "middle"}, "`truncation_side` is 'middle'"),
        ({"pad_token": "<none>"}, "no token '<none>'"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], what: str) -> None:
    named = {"tokenizer": SMALL, "pad_token": "[PAD]", **options}
    with pytest.raises(OptionError, match=what):
        processing.tokenize(strings("a"), strings("b"), **named)


def test_operands_of_other_types_are_refused() -> None:
    options: dict[str, Any] = {"tokenizer": SMALL, "pad_token": "[PAD]"}
    with pytest.raises(TypeMismatchError, match="a text alone is not an array"):
        processing.tokenize("the cat", **options)
    for text, pair, what in (
        (np.arange(3), None, "takes strings, not int64"),
        (strings("a").reshape(1, 1), None, "a list of strings"),
        (strings("a", "b"), strings("a", "b", "c"), "second texts"),
    ):
        with pytest.raises(InfuseError, match=what):
            processing.tokenize(text, pair, **options)
    for ids, what in ((np.ones((2, 2)), "int32 or int64"), (np.array([1]), "rows")):
        with pytest.raises(InfuseError, match=what):
            processing.detokenize(ids, tokenizer=SMALL)
    graph = traced(
        lambda a, b: processing.tokenize(a, b, **options), [strings("a", "b"), strings("c")], ()
    )
    with pytest.raises(InfuseError, match="2 texts and 3 second texts"):
        evaluate(graph, {"a": strings("a", "b"), "b": strings("a", "b", "c")})


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = infuse.trace(program, {"text": infuse.Spec("string", ("batch",))})
    text = print_graph(graph).replace("sat", "dog")  # a tokenizer that nobody else has read
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    what = r"'tokenizers' is not installed.*pip install tokenizers"
    content = other_model(max_input_chars_per_word=77)
    with pytest.raises(UnsupportedOperatorError, match=what):
        processing.tokenize(strings("a"), tokenizer=content, pad_token="[PAD]")
    with pytest.raises(UnsupportedOperatorError, match=what):
        evaluate(parse(text), {"text": strings("a")})
    with pytest.raises(UnsupportedOperatorError, match=what):
        infuse.compile(parse(text))
