"""Texts to the numbers of tokens, and back, by a tokenizer that is an attribute. Both need the
package tokenizers.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Final

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, fresh_dim
from infuse.ops.core.tokenizing import RowOptions, Tokenizer, shared
from infuse.ops.core.traits import Trait
from infuse.ops.domains.ml import as_texts
from infuse.ops.text import require_text, texts

WORDS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "猫")
"""The tokens of the samples, by number."""


def sample_tokenizer() -> str:
    """A small tokenizer of words and their ends, for samples."""
    frame = [{"SpecialToken": {"id": t, "type_id": 0}} for t in ("[CLS]", "[SEP]")]
    first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    again = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    special = {t: {"id": t, "ids": [WORDS.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": t, "special": True, **flags} for i, t in enumerate(WORDS[:4])]
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [frame[0], first, frame[1]],
            "pair": [frame[0], first, frame[1], second, again],
            "special_tokens": special,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(WORDS)},
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


class Tokenize(Op):
    """The numbers of the tokens of texts, 1 where there is a token and 0 where a row was filled up,
    and the types (1 in the second texts of pairs), each int64 [texts, length].

    `tokenizer` is the content of a tokenizer.json. The other attributes are those of RowOptions
    (`ops/core/tokenizing.py`); `max_length` is 0 for rows of any length.
    """

    traits = Trait.ZERO_FLOPS

    tokenizer: str
    max_length: int = 0
    truncation: str = "longest_first"
    truncation_side: str = "right"
    padding: str = "longest"
    padding_side: str = "right"
    multiple: int = 1
    pad_id: int = 0
    pad_type_id: int = 0
    special_tokens: int = 1

    domain = "infuse"
    samples = (
        cases(
            text=[texts("The cat sat", "cats", "", "a 猫"), texts("sat"), texts()],
            pair=[None, texts("the cats"), None],
            tokenizer=[sample_tokenizer()],
            padding_side=["right", "left"],
            special_tokens=[1, 0],
        ),
        cases(
            text=[texts("the cat sat sat", "cat")],
            pair=[texts("the", "")],
            tokenizer=[sample_tokenizer()],
            max_length=[6],
            truncation=["longest_first", "only_first"],
            truncation_side=["right", "left"],
            padding=["longest", "max_length"],
            multiple=[1, 3],
            pad_id=[8],
            pad_type_id=[1],
        ),
    )

    @cached_property
    def row_options(self) -> RowOptions:
        """How rows are made."""
        values = dict(self.attributes())
        del values["tokenizer"]
        return RowOptions(**{**values, "special_tokens": bool(self.special_tokens)})

    @cached_property
    def _read(self) -> Tokenizer:
        return shared(self.tokenizer, self.row_options)

    def infer(self, text: Value, pair: Value | None = None) -> Inferred:
        count = count_of_texts(self.name, text)
        if pair is not None:
            other = count_of_texts(self.name, pair)
            agree(count, other, f"the texts and the second texts of {self.name}")
        self._read.check_room(pair is not None)
        options = self._read.options
        length = options.max_length if options.padding == "max_length" else fresh_dim("tokens")
        return (TensorType(dtypes.int64, (count, length)),) * 3

    def eval(self, text: Array, pair: Array | None = None) -> tuple[Array, Array, Array]:
        if pair is not None and pair.shape != text.shape:
            raise ShapeError(f"{self.name} has {text.size} texts and {pair.size} second texts")
        return self._read.encode(decoded(text), None if pair is None else decoded(pair))


class Detokenize(Op):
    """The texts [texts] of rows of numbers of tokens, int64 or int32 [texts, length], without
    special tokens where `skip_special_tokens` is 1.

    `tokenizer` is the content of a tokenizer.json. A number that is no token's is an error.
    """

    traits = Trait.ZERO_FLOPS

    tokenizer: str
    skip_special_tokens: int = 1

    domain = "infuse"
    samples = (
        cases(
            ids=[Ints((3, 5), 0, len(WORDS)), Ints((1, 4), 0, len(WORDS), dtypes.int32)],
            tokenizer=[sample_tokenizer()],
            skip_special_tokens=[0, 1],
        ),
        cases(ids=[Ints((0, 3)), Ints((2, 0))], tokenizer=[sample_tokenizer()]),
    )

    @cached_property
    def _read(self) -> Tokenizer:
        return shared(self.tokenizer, RowOptions())

    def infer(self, ids: Value) -> Inferred:
        if ids.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeMismatchError(f"{self.name} takes int32 or int64, found {ids.dtype}")
        shape = ids.tensor.shape
        if shape is not None and len(shape) != 2:
            raise ShapeError(f"{self.name} takes rows [texts, length], found {ids.type}")
        self._read  # noqa: B018  bad content is an error here, and not of the first run
        return TensorType(dtypes.string, (fresh_dim("texts") if shape is None else shape[0],))

    def eval(self, ids: Array) -> Array:
        return as_texts(self._read.decode(ids, bool(self.skip_special_tokens)))


def count_of_texts(op: str, x: Value) -> Dim:
    """How many texts there are; an error unless they are a list of strings."""
    require_text(op, x)
    shape = x.tensor.shape
    if shape is not None and len(shape) != 1:
        raise ShapeError(f"{op} takes a list of strings, found {x.type}")
    return fresh_dim("texts") if shape is None else shape[0]


def decoded(x: Array) -> list[str]:
    """The texts of a list; bytes are UTF-8. DataError says which element is none."""
    listed: list[Any] = x.tolist()
    if set(map(type, listed)) <= {str}:
        return listed
    return [item if isinstance(item, str) else _decoded(item, i) for i, item in enumerate(listed)]


def _decoded(item: object, number: int) -> str:
    if not isinstance(item, bytes):
        what = f"it is not text but {type(item).__name__}"
        raise DataError(what, where=f"element {number}")
    try:
        return item.decode()
    except UnicodeDecodeError as error:
        what = f"it is not UTF-8 (at byte {error.start})"
        raise DataError(what, where=f"element {number}") from error
