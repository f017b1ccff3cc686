"""Texts to tokens and back, held against a tokenizer written out here, and against transformers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from infuse.errors import ConfigurationError, RequestError, TooLargeError
from infuse.serving.engine.pipelines.builtins import create
from infuse.serving.engine.pipelines.steps import Builtin

pytestmark = pytest.mark.row("S1")

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "grüße",
    "##s",
    "猫",
]
NAMES = {"input_ids", "attention_mask", "token_type_ids"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens(WORDS[:4])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def expected_of(
    text: str, second: str | None = None, special: bool = True
) -> tuple[list[int], list[int]]:
    """Numbers and types of the tokens, by hand."""

    def numbers(part: str) -> list[int]:
        found: list[int] = []
        for word in part.lower().split():
            if word in WORDS:
                found.append(WORDS.index(word))
            elif word.endswith("s") and word[:-1] in WORDS:
                found += [WORDS.index(word[:-1]), WORDS.index("##s")]
            else:
                found.append(1)
        return found

    ids = [2, *numbers(text), 3] if special else numbers(text)
    kinds = [0] * len(ids)
    if second is not None:
        more = [*numbers(second), 3] if special else numbers(second)
        return ids + more, kinds + [1] * len(more)
    return ids, kinds


def built(folder: Path | None, name: str = "tokenize", **options: Any) -> Builtin:
    options = {"pad_token": "[PAD]", **options} if name == "tokenize" else options
    return create(name, options, [folder] if folder else [], "step 1")


def texts(*parts: str | bytes) -> Any:
    data = np.empty(len(parts), object)
    data[:] = [part.encode() if isinstance(part, str) else part for part in parts]
    return data


def tokenize(
    folder: Path, *parts: str | bytes, pair: tuple[str, ...] | None = None, **options: Any
) -> dict[str, Any]:
    inputs = {"text": texts(*parts)}
    if pair is not None:
        inputs["pair"] = texts(*pair)
    return built(folder, **options).run(inputs, NAMES)


SENTENCES = ("The cat sat on a mat", "cats", "Grüße an 猫", "")


@pytest.mark.parametrize("dtype", ["INT64", "INT32"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("special", [True, False])
def test_texts_become_rows_of_tokens(dtype: str, side: str, special: bool, folder: Path) -> None:
    found = tokenize(folder, *SENTENCES, dtype=dtype, padding_side=side, special_tokens=special)
    rows = [expected_of(text, special=special)[0] for text in SENTENCES]
    width = max(map(len, rows))
    for number, row in enumerate(rows):
        fill = [0] * (width - len(row))
        ids, mask = (
            (row + fill, [1] * len(row) + fill)
            if side == "right"
            else (fill + row, fill + [1] * len(row))
        )
        assert found["input_ids"][number].tolist() == ids
        assert found["attention_mask"][number].tolist() == mask
    assert not found["token_type_ids"].any()
    assert {part.dtype.name for part in found.values()} == {dtype.lower()}


def test_pairs_have_types(folder: Path) -> None:
    seconds = ("a mat", "the", "", "sat")
    found = tokenize(folder, *SENTENCES, pair=seconds)
    for number, (text, second) in enumerate(zip(SENTENCES, seconds)):
        ids, kinds = expected_of(text, second)
        assert found["input_ids"][number, : len(ids)].tolist() == ids
        assert found["token_type_ids"][number, : len(ids)].tolist() == kinds
        assert found["attention_mask"][number].sum() == len(ids)
    with pytest.raises(RequestError, match="'text' and 'pair' have 4 and 1 elements"):
        tokenize(folder, *SENTENCES, pair=("a",))


@pytest.mark.parametrize(("side", "kept"), [("right", [4, 5, 6]), ("left", [7, 8, 9])])
def test_long_texts_are_cut(side: str, kept: list[int], folder: Path) -> None:
    found = tokenize(folder, SENTENCES[0], "cat", max_length=5, truncation_side=side)
    assert found["input_ids"].tolist() == [[2, *kept, 3], [2, 5, 3, 0, 0]]
    assert found["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("longest_first", [2, 4, 5, 3, 8, 9, 3]),
        ("only_first", [2, 4, 3, 8, 9, 8, 3]),
        ("only_second", None),
    ],
)
def test_pairs_are_cut_as_asked_for(
    truncation: str, expected: list[int] | None, folder: Path
) -> None:
    """Of 'the cat sat on' and 'a mat a', 7 tokens with the three that frame them."""
    arguments: dict[str, Any] = {"pair": ("a mat a",), "max_length": 7, "truncation": truncation}
    if expected is None:
        with pytest.raises(
            RequestError, match="element 0 of input 'text': it cannot be made tokens of"
        ):
            tokenize(folder, "the cat sat on", **arguments)
    else:
        assert tokenize(folder, "the cat sat on", **arguments)["input_ids"].tolist() == [expected]


def test_too_long_texts_can_be_refused(folder: Path) -> None:
    assert tokenize(folder, "a mat", max_length=4, truncation="none")["input_ids"].shape == (1, 4)
    with pytest.raises(
        RequestError, match="element 1 of input 'text': it has 5 tokens, 4 are allowed"
    ):
        tokenize(folder, "a", "a mat a", max_length=4, truncation="none")


def test_rows_are_filled_up_as_asked_for(folder: Path) -> None:
    assert tokenize(folder, "a", max_length=12, padding="max_length")["input_ids"].tolist() == [
        [2, 8, 3] + [0] * 9
    ]
    assert tokenize(folder, "a", "a mat", multiple=8)["input_ids"].shape == (2, 8)
    assert tokenize(folder, "a mat", multiple=4)["input_ids"].shape == (1, 4)
    assert tokenize(folder, "a", "mat", padding="none")["input_ids"].shape == (2, 3)
    with pytest.raises(
        RequestError, match="element 1 of input 'text': it has 4 tokens and the first text 3"
    ):
        tokenize(folder, "a", "a mat", padding="none")
    assert tokenize(folder, "a", "a mat", pad_token="[UNK]")["input_ids"][0].tolist() == [
        2,
        8,
        3,
        1,
    ]


def test_the_padding_token_is_found(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not say which token.*set `pad_token`"):
        built(folder, pad_token="")
    with pytest.raises(ConfigurationError, match=r"it has no token '<pad>'"):
        built(folder, pad_token="<pad>")
    settings = folder / "tokenizer_config.json"
    for named in ("[SEP]", {"content": "[SEP]"}):
        settings.write_text(json.dumps({"pad_token": named}))
        found = built(folder, pad_token="").run({"text": texts("a", "a mat")}, NAMES)
        assert found["input_ids"][0].tolist() == [2, 8, 3, 3]
    settings.write_text("{")
    with pytest.raises(ConfigurationError, match=r"'tokenizer_config.json' cannot be read"):
        built(folder, pad_token="")
    settings.unlink()
    file = folder / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.enable_padding(length=20, pad_id=1, pad_token="[UNK]", pad_type_id=7)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(file))
    # The options say how far rows are filled and cut, not the file.
    found = built(folder, pad_token="").run({"text": texts("a", "a mat")}, NAMES)
    assert found["input_ids"].tolist() == [[2, 8, 3, 1], [2, 8, 9, 3]]
    assert found["token_type_ids"].tolist() == [[0, 0, 0, 7], [0, 0, 0, 0]]


def test_no_texts_and_columns_of_texts(folder: Path) -> None:
    assert tokenize(folder)["input_ids"].shape == (0, 0)
    step = built(folder)
    assert step.run({"text": texts("a", "mat").reshape(2, 1)}, NAMES)["input_ids"].shape == (2, 3)
    with pytest.raises(RequestError, match="shape"):
        step.run({"text": texts("a", "mat").reshape(1, 2)}, NAMES)


def test_bytes_that_are_no_text_are_named(folder: Path) -> None:
    with pytest.raises(
        RequestError, match=r"element 1 of input 'text': it is not UTF-8 \(at byte 3\)"
    ):
        tokenize(folder, "a", b"abc\xff")
    with pytest.raises(
        TooLargeError, match="element 0 of input 'text': it has 11 bytes, 10 are allowed"
    ):
        tokenize(folder, "a" * 11, max_bytes=10)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"padding": "max_length"}, "needs a `max_length`"),
        ({"max_length": 10, "multiple": 8}, "not a multiple"),
        ({"max_length": 2}, "leaves no room beside 3 special tokens"),
        ({"max_length": 0}, "max_length"),
        ({"truncation": "some"}, "some"),
        ({"tokenizer": "words.json"}, r"no file 'words.json'"),
        ({"tokenizer": "../tokenizer.json"}, "not a name of a file"),
        ({"tokenizer": "broken.json"}, "not a file of the tokenizers library"),
    ],
)
def test_options_without_meaning_are_refused(
    options: dict[str, Any], text: str, folder: Path
) -> None:
    (folder / "broken.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=text):
        built(folder, **options)


def test_without_a_folder_there_is_no_tokenizer() -> None:
    with pytest.raises(ConfigurationError, match="looked in no folder"):
        built(None)


@pytest.mark.parametrize("name", ["tokenize", "detokenize"])
def test_without_the_library_it_says_what_to_install(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        ConfigurationError, match=r"'tokenizers' is not installed.*pip install tokenizers"
    ):
        built(folder, name)


def test_tokens_become_texts(folder: Path) -> None:
    ids = tokenize(folder, *SENTENCES)["input_ids"]
    found = built(folder, "detokenize").run({"ids": ids}, {"text"})["text"]
    assert [part.decode() for part in found] == ["the cat sat on a mat", "cats", "grüße 猫", ""]
    whole = built(folder, "detokenize", skip_special_tokens=False).run(
        {"ids": ids[1:2, :4]}, {"text"}
    )["text"]
    assert whole.tolist() == [b"[CLS] cats [SEP]"]
    assert built(folder, "detokenize").run({"ids": ids[:0]}, {"text"})["text"].shape == (0,)


@pytest.mark.parametrize("number", [-1, -100, len(WORDS), 2**40])
def test_numbers_that_are_no_tokens_are_named(number: int, folder: Path) -> None:
    ids = np.array([[4, 5], [6, number]])
    with pytest.raises(
        RequestError, match=f"row 1 of input 'ids': {number} is not a token's number"
    ):
        built(folder, "detokenize").run({"ids": ids}, {"text"})
    with pytest.raises(RequestError, match="shape"):
        built(folder, "detokenize").run({"ids": ids[0]}, {"text"})


@pytest.mark.parametrize("length", [None, 6, 16])
def test_transformers_agrees(length: int | None, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", unk_token="[UNK]"
    )
    seconds = ("a mat on a mat", "the", "cat cat", "sat")
    for pair in (None, seconds):
        second = None if pair is None else list(pair)
        expected = theirs(
            list(SENTENCES),
            second,
            padding="max_length" if length else True,
            truncation=length is not None,
            max_length=length,
            return_token_type_ids=True,
        )
        found = tokenize(
            folder,
            *SENTENCES,
            pair=pair,
            max_length=length,
            padding="max_length" if length else "longest",
        )
        for name in NAMES:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_a_folder_of_a_version_comes_first(folder: Path) -> None:
    version = folder / "1"
    version.mkdir()
    shutil.move(folder / "tokenizer.json", version / "tokenizer.json")
    step = create("tokenize", {"padding": "none"}, [version, folder], "step 1")
    assert step.run({"text": texts("mat")}, NAMES)["input_ids"].tolist() == [[2, 9, 3]]
