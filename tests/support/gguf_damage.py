"""Damaged GGUF files: each is an error of ours, or is read; `python -m tests.support.gguf_damage
SEED COUNT` reads many in a process of its own.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse.errors import InfuseError
from infuse.frontends.gguf import GgufFile
from infuse.frontends.gguf.vocabulary import Vocabulary
from tests.support.gguf_vocabularies import BYTE, CONTROL, UNKNOWN, fields_of
from tests.support.gguf_writer import gguf_bytes, tensor
from tests.support.mutation import mutated_bytes

LONGEST: Final = 5.0
"""Seconds that a file of a few kilobytes may take, on a busy machine."""
_TEXT: Final = "Ab c<s>\n 12é🙂</s> "


def samples() -> list[bytes]:
    """Files with all that the format has: types of values, formats of tensors, vocabularies."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 256), np.float32)
    tensors = {form: tensor(weights, form) for form in ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "F16")}
    general: dict[str, Any] = {
        "general.architecture": "llama", "general.alignment": 32, "a.ratio": 0.5, "a.on": True,
        "a.words": ["one", "two", "三"], "a.nested": [["x"], ["y", "z"]],
        "split.count": np.uint16(1), "a.numbers": np.arange(9, dtype=np.int16),
        "a.flags": np.array([True, False]),
    }  # fmt: skip
    return [gguf_bytes(general, tensors), *(gguf_bytes(each) for each in _vocabularies())]


def character_map(texts: dict[str, str]) -> bytes:
    """SentencePiece's map of characters for texts of one byte, and of two that begin alike."""
    units, contents = np.full(1024, 0xFF, np.uint32), b""
    units[0] = 256 << 10
    for number, (text, replacement) in enumerate(texts.items()):
        first, *rest = text.encode()
        node, block = 256 ^ first, 512 + 256 * number
        if rest:
            units[node] = (node ^ block) << 10 | first
            node, block = block ^ rest[0], 768
        units[node] = (node ^ block) << 10 | 1 << 8 | text.encode()[-1]
        units[block] = 1 << 31 | len(contents)
        contents += replacement.encode() + b"\0"
    return struct.pack("<I", 4 * len(units)) + units.astype("<u4").tobytes() + contents


def _vocabularies() -> Sequence[dict[str, Any]]:
    special = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    letters = [*special, "A", "b", "c", "▁", "Ġ", "bc", "▁c", "Ġc", "1", "2", "12"]
    scores = -np.arange(len(letters), dtype=np.float32)
    names = [f"<0x{byte:02X}>" for byte in range(16)]
    charsmap = np.frombuffer(character_map({"A": "b", "é": "1"}), np.uint8)
    return (
        fields_of("gpt2", letters, special, merges=["b c", "Ġ c", "1 2"], pre="llama-bpe"),
        fields_of("llama", letters, special, scores=scores, bos_token_id=1, eos_token_id=2),
        fields_of("llama", [*letters, *names], special | dict.fromkeys(names, BYTE),
                  scores=np.zeros(len(letters) + 16, np.float32)),
        fields_of("bert", letters, special, unknown_token_id=0, bos_token_id=1),
        fields_of("t5", letters, special, scores=scores, unknown_token_id=0),
        fields_of("t5", letters, special, scores=scores, unknown_token_id=0,
                  precompiled_charsmap=charsmap, remove_extra_whitespaces=True),
    )  # fmt: skip


def read_all(path: Path) -> None:
    """Everything in a file; InfuseError where something is wrong."""
    file = GgufFile(path)
    for value in file.metadata.values():
        if not isinstance(value, (int, float, str)):
            list(value)
    for each in file.tensors.values():
        each.array()
    if "tokenizer.ggml.model" in file.metadata:
        vocabulary = Vocabulary(file.metadata)
        for special in (True, False):
            ids = vocabulary.encode(_TEXT, special=special, framed=True)
            vocabulary.decode(ids, special=special)


def read_damaged(folder: Path, seed: int, count: int) -> int:
    """Read damaged files; the number of those that were read nevertheless. AssertionError for one
    that takes long, and whatever a reader raises that is no error of ours.
    """
    rng, files, good = random.Random(seed), samples(), 0
    path = folder / "damaged.gguf"
    for number in range(count):
        path.write_bytes(mutated_bytes(rng.choice(files), files, rng))
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                read_all(path)
            good += 1
        except InfuseError:
            pass
        except BaseException as error:
            raise AssertionError(f"file {number} of seed {seed}") from error
        taken = time.perf_counter() - start
        assert taken < LONGEST, f"file {number} of seed {seed} took {taken:.1f} s"
    return good


def main(seed: int, count: int) -> None:
    """Read damaged files within two gigabytes of memory."""
    limit = 2 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        print(read_damaged(Path(folder), seed, count))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
