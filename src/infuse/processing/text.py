"""Text: tokenizers as a part of the model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from infuse import dtypes
from infuse.errors import ModelFileError, OptionError, TypeMismatchError
from infuse.ir.registry import make_operator
from infuse.ops.core.tokenizing import RowOptions, Tokenizer, padding_of, shared
from infuse.processing.block import block
from infuse.tracing.arrays.array import Array, importer, lifted, source_line

__all__ = ["RowOptions", "Tokenizer", "detokenize", "padding_of", "tokenize"]

FILE: Final = "tokenizer.json"
Source = bytes | str | os.PathLike[str]


@block
def tokenize(
    text: Any,
    pair: Any = None,
    *,
    tokenizer: Source,
    max_length: int | None = None,
    truncation: str = "longest_first",
    truncation_side: str = "right",
    padding: str = "longest",
    padding_side: str = "right",
    multiple: int = 1,
    pad_token: str = "",
    special_tokens: bool = True,
) -> tuple[Any, Any, Any]:
    """The numbers of the tokens of texts, the attention mask (0 where a row was filled up) and the
    types (1 in the second texts of pairs), int64 [n, length] each.

    `text` and `pair`: strings [n]. `tokenizer`: a `tokenizer.json` of Hugging Face, its folder, or
    its content as bytes; it becomes a part of the model, which needs the package tokenizers where
    it runs. `max_length`: longer rows are cut by `truncation` from the longer (`longest_first`),
    the first (`only_first`) or the second text (`only_second`) on the side `truncation_side`, or
    refused (`none`). `padding`: up to the `longest` row, to `max_length`, or `none` (rows must then
    be equally long), on the side `padding_side`, to a multiple of `multiple`, with `pad_token`,
    which is taken from the tokenizer's files if it is left out. `special_tokens`: add those that
    frame a text. What the file itself says of truncation and padding is not applied.

    OptionError, ModelFileError for a file that is no tokenizer, and UnsupportedOperatorError
    without the package.
    """
    content, path = _content(tokenizer)
    rows = {
        "max_length": max_length or 0,
        "truncation": truncation,
        "truncation_side": truncation_side,
        "padding": padding,
        "padding_side": padding_side,
        "multiple": multiple,
    }
    if max_length is not None and max_length < 1:
        raise OptionError(f"`max_length` is {max_length}", where="tokenize", hint="at least 1")
    try:
        RowOptions(**rows).check()  # type: ignore[arg-type]
        read = shared(content, RowOptions())
        fill = (0, 0) if padding == "none" else padding_of(read, pad_token, path)
    except (OptionError, ModelFileError) as error:
        error.within("tokenize")
        raise
    operands = [_strings(text), *([] if pair is None else [_strings(pair)])]
    attributes = {
        **rows,
        "tokenizer": content,
        "pad_id": fill[0],
        "pad_type_id": fill[1],
        "special_tokens": int(special_tokens),
    }
    ids, mask, kinds = _own("Tokenize", operands, attributes, 3)
    return ids, mask, kinds


@block
def detokenize(ids: Any, *, tokenizer: Source, skip_special_tokens: bool = True) -> Any:
    """The texts, strings [n], of rows of numbers of tokens, int64 or int32 [n, length]; without
    those that frame a text if `skip_special_tokens`.

    `tokenizer`: see `tokenize`. DataError at run time for a number that is no token's.
    """
    attributes = {
        "tokenizer": _content(tokenizer)[0],
        "skip_special_tokens": int(skip_special_tokens),
    }
    return _own("Detokenize", [lifted(ids)], attributes, 1)[0]


def _content(source: Source) -> tuple[str, Path | None]:
    """A tokenizer's JSON, as compact as it can be, and its file, where it is one."""
    path = None
    if isinstance(source, bytes):
        data, where = source, "tokenizer"
    else:
        path = Path(source)
        path = path / FILE if path.is_dir() else path
        where = str(path)
        try:
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            raise ModelFileError(f"cannot be read: {error}", where=where) from error
    try:
        content = json.loads(data)
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")), path
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"it is not JSON: {error}", where=where) from error


def _strings(x: Any) -> Array:
    if isinstance(x, (str, bytes)):
        raise TypeMismatchError(
            "a text alone is not an array of texts", where=source_line(), hint="give a list of one"
        )
    array = lifted(x)
    if array.value.dtype != dtypes.string:
        raise TypeMismatchError(f"tokenize takes strings, not {array.dtype}", where=source_line())
    return array


def _own(
    kind: str, operands: list[Array], attributes: dict[str, Any], count: int
) -> tuple[Array, ...]:
    """The outputs of a new node of an operator of our own."""
    g = importer()
    op = make_operator("infuse", kind, attributes)
    with g.scope(source=source_line()):
        return tuple(Array(v) for v in g.apply(op, [x.value for x in operands], count))
