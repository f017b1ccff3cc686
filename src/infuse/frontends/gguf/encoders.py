"""From the tables of a GGUF file to what makes tokens of plain text, for each kind of tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np

from infuse.errors import InputError, ModelFileError
from infuse.frontends.gguf.character_map import check_character_map
from infuse.frontends.gguf.metadata import Metadata
from infuse.frontends.gguf.pieces import SPACE, PieceEncoder
from infuse.frontends.gguf.pretokenizers import pre_tokenizer
from infuse.frontends.gguf.tokens import BYTE, CONTROL, UNKNOWN, Tokens
from infuse.ops.core.tokenizing import library_errors, tokenizers_library

_NOT_WRITTEN: Final = (CONTROL, UNKNOWN, BYTE)
"""Types of tokens that plain text never becomes."""
_LONGEST_WORD: Final = 100
"""Characters up to which BERT looks for the pieces of a word."""


class Encoder(Protocol):
    """Makes tokens of plain text; `first` where nothing, or a special token, is before it."""

    def __call__(self, text: str, first: bool) -> list[int]: ...


def of_pairs(metadata: Metadata, tokens: Tokens) -> Encoder:
    """Byte-level merging of pairs, as GPT-2 does."""
    library = tokenizers_library()
    split = pre_tokenizer(metadata.text("tokenizer.ggml.pre", "default"))
    numbers = tokens.numbers
    lines = metadata.texts("tokenizer.ggml.merges").all()
    merges = list(dict.fromkeys([tuple(line.split(" ", 1)) for line in lines]))
    if not all(len(pair) == 2 and all(pair) for pair in merges):
        raise ModelFileError("a line of tokenizer.ggml.merges is no pair")
    with library_errors(ModelFileError, "its tokens and merges do not fit"):
        model = library.models.BPE(vocab=numbers, merges=merges, ignore_merges=split.whole_words)
        tokenizer = library.Tokenizer(model)
        steps = [
            library.pre_tokenizers.Split(library.Regex(each), "isolated") for each in split.patterns
        ]
        steps.append(library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence(steps)
    return _of_library(tokenizer)


def of_pieces(metadata: Metadata, tokens: Tokens) -> Encoder:
    """SentencePiece's merging of pairs by scores."""
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix", True)
    pieces = dict(tokens.numbers)
    for number in np.isin(tokens.types, _NOT_WRITTEN).nonzero()[0].tolist():
        pieces.pop(tokens.texts[number], None)
    of_bytes = [tokens.numbers.get(f"<0x{byte:02X}>", -1) for byte in range(256)]
    encoder = PieceEncoder(
        pieces,
        tokens.required_scores().tolist(),
        of_bytes if min(of_bytes) >= 0 else (),
        tokens.special("unknown", 0),
    )

    def encode(text: str, first: bool) -> list[int]:
        text = f" {text}" if prefix and first else text
        return encoder.encode(text.replace(" ", SPACE))

    return encode


def of_words(metadata: Metadata, tokens: Tokens) -> Encoder:
    """WordPiece, as BERT does: the file marks pieces that begin a word, not those that go on."""
    library = tokenizers_library()
    unknown = tokens.special("unknown", 100)
    if unknown is None:
        raise ModelFileError("it names no token for unknown words")
    vocabulary = {
        _continued(text) if tokens.types[number] not in _NOT_WRITTEN else text: number
        for text, number in tokens.numbers.items()
    }
    lower = metadata.flag("tokenizer.ggml.normalizer.lowercase", True)
    accents = metadata.flag("tokenizer.ggml.normalizer.strip_accents", lower)
    with library_errors(ModelFileError, "its tokens do not fit"):
        model = library.models.WordPiece(
            vocabulary, unk_token=tokens.texts[unknown], max_input_chars_per_word=_LONGEST_WORD
        )
        tokenizer = library.Tokenizer(model)
        tokenizer.normalizer = library.normalizers.BertNormalizer(
            strip_accents=accents, lowercase=lower
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    return _of_library(tokenizer)


def of_probabilities(metadata: Metadata, tokens: Tokens) -> Encoder:
    """SentencePiece's unigram model, as T5 has it."""
    library = tokenizers_library()
    scores = tokens.required_scores()
    chosen: list[int] = (~np.isin(tokens.types, _NOT_WRITTEN)).nonzero()[0].tolist()
    written = [number for number in chosen if tokens.texts[number]]
    unknown = tokens.special("unknown", 2)
    if unknown is None:
        raise ModelFileError("it names no token for unknown characters")
    pieces = [("", 0.0), *((tokens.texts[each], float(scores[each])) for each in written)]
    numbers = [unknown, *written]
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix", False)
    with library_errors(ModelFileError, "its tokens, scores and character map do not fit"):
        tokenizer = library.Tokenizer(library.models.Unigram(pieces, 0, False))
        tokenizer.normalizer = library.normalizers.Sequence(_normalizers(metadata, prefix))
    encode = _of_library(tokenizer)

    def renumbered(text: str, first: bool) -> list[int]:
        return [numbers[each] for each in encode(text, first)]

    return renumbered


def _normalizers(metadata: Metadata, prefix: bool) -> list[Any]:
    """What a unigram model does to texts: its map of characters, then spaces."""
    library = tokenizers_library().normalizers
    charsmap = metadata.numbers("tokenizer.ggml.precompiled_charsmap", None)
    merged = metadata.flag("tokenizer.ggml.remove_extra_whitespaces", False)
    steps = []
    if charsmap is not None and len(charsmap):
        content = charsmap.view(np.uint8).tobytes()
        check_character_map(content)
        steps.append(library.Precompiled(content))
    if merged:
        steps += [library.Strip(), library.Replace(tokenizers_library().Regex(" {2,}"), " ")]
    if prefix or merged:
        steps.append(library.Prepend(" "))
    return [*steps, library.Replace(" ", SPACE)]


ENCODERS: Final[Mapping[str, Callable[[Metadata, Tokens], Encoder]]] = {
    "gpt2": of_pairs,
    "llama": of_pieces,
    "bert": of_words,
    "t5": of_probabilities,
}
"""By `tokenizer.ggml.model`."""


def _of_library(tokenizer: Any) -> Encoder:
    def encode(text: str, first: bool) -> list[int]:
        with library_errors(InputError, "the text cannot be made tokens of"):
            return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return encode


def _continued(text: str) -> str:
    """A piece as the library writes it: those that begin a word bare, others after `##`."""
    return text[len(SPACE) :] if text.startswith(SPACE) else f"##{text}"
