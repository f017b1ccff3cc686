"""Small GGUF files for tests: any fields and tensors, and decoders of random weights."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from infuse.frontends.gguf.quantize import quantize
from infuse.ops.core.weight_formats import FORMATS

_NUMBERS: Final = {
    "uint8": 0, "int8": 1, "uint16": 2, "int16": 3, "uint32": 4, "int32": 5, "float32": 6,
    "bool": 7, "uint64": 10, "int64": 11, "float64": 12,
}  # fmt: skip
_STRING, _ARRAY = 8, 9
Tensors = Mapping[str, tuple[str, Sequence[int], np.ndarray]]
"""By name: format, shape (outermost axis first), and bytes of rows."""
_PRINTABLE: Final = [chr(i) for i in (*range(33, 127), *range(161, 173), *range(174, 256))]
BYTE_VOCABULARY: Final[Mapping[str, Any]] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": [*_PRINTABLE, *map(chr, range(256, 256 + 68)), "ab", "<|end|>"],
    "tokenizer.ggml.token_type": np.array([1] * 257 + [3], np.int32),
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 257,
    "tokenizer.chat_template": "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}>",
}
"""Fields of a tokenizer whose tokens are the bytes, `ab` and one that ends answers."""
_NONE: Final[Tensors] = MappingProxyType({})


def gguf_bytes(
    fields: Mapping[str, Any], tensors: Tensors = _NONE, *, version: int = 3, alignment: int = 32
) -> bytes:
    """A file of these fields and tensors. Fields: int (uint32), float (float32), bool, str, NumPy
    scalars and arrays, and lists of strings or of such values.
    """
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(fields))
    header += b"".join(_text(key) + _typed(value) for key, value in fields.items())
    offset, contents = 0, []
    for name, (form, shape, rows) in tensors.items():
        block = FORMATS[form]
        data = np.ascontiguousarray(rows).tobytes()
        assert len(data) == math.prod(shape) // block.weights * block.bytes
        header += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        header += struct.pack("<IQ", block.id, offset)
        contents.append(_padded(data, alignment))
        offset += len(contents[-1])
    return _padded(header, alignment) + b"".join(contents)


def tensor(weights: np.ndarray, form: str = "F32") -> tuple[str, tuple[int, ...], np.ndarray]:
    """Weights as a tensor of a format."""
    rows = weights.astype(np.float32).reshape(-1, weights.shape[-1])
    packed = rows.view(np.uint8) if form == "F32" else quantize(rows, form)
    return form, weights.shape, packed


def decoder(
    architecture: str = "llama",
    *,
    form: str = "Q8_0",
    vocabulary: Mapping[str, Any] | None = None,
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    groups: int = 2,
    hidden: int = 128,
    seed: int = 0,
    **fields: Any,
) -> bytes:
    """A file of a decoder with random weights: `architecture` is llama, qwen2, qwen3, gemma, gemma2
    or gemma3; `vocabulary` are its tokenizer's fields, `fields` further ones, without prefix.
    """
    rng = np.random.default_rng(seed)
    words = {"tokenizer.ggml.model": "no_vocab"} if vocabulary is None else dict(vocabulary)
    size = len(words.get("tokenizer.ggml.tokens", range(96)))
    head = width // heads
    settings = {
        "context_length": 512, "embedding_length": width, "block_count": layers,
        "feed_forward_length": hidden, "attention.head_count": heads,
        "attention.head_count_kv": groups, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0, "attention.key_length": head, "attention.value_length": head,
        "vocab_size": size, **fields,
    }  # fmt: skip

    def random(*shape: int) -> Any:
        weights = rng.standard_normal(shape, np.float32) / math.sqrt(shape[-1])
        return tensor(weights, form if len(shape) > 1 else "F32")

    def norm(length: int) -> Any:
        return tensor(1 + rng.standard_normal(length, np.float32) / 8)

    tensors = {"token_embd.weight": random(size, width), "output_norm.weight": norm(width)}
    if not architecture.startswith("gemma"):
        tensors["output.weight"] = random(size, width)
    for number in range(layers):
        shapes = {
            "attn_q": (heads * head, width), "attn_k": (groups * head, width),
            "attn_v": (groups * head, width), "attn_output": (width, heads * head),
            "ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden),
        }  # fmt: skip
        own = {f"{name}.weight": random(*shape) for name, shape in shapes.items()}
        own |= {f"{name}.weight": norm(width) for name in ("attn_norm", "ffn_norm")}
        if architecture == "qwen2":
            own |= {f"{n}.bias": random(shapes[n][0]) for n in ("attn_q", "attn_k", "attn_v")}
        if architecture in ("qwen3", "gemma3"):
            own |= {f"{name}_norm.weight": norm(head) for name in ("attn_q", "attn_k")}
        if architecture in ("gemma2", "gemma3"):
            own |= {f"post_{name}.weight": norm(width) for name in ("attention_norm", "ffw_norm")}
        tensors |= {f"blk.{number}.{name}": content for name, content in own.items()}
    prefixed = {f"{architecture}.{name}": value for name, value in settings.items()}
    general = {"general.architecture": architecture, "general.name": "random"}
    return gguf_bytes({**general, **prefixed, **words}, tensors)


def written(path: Path, content: bytes) -> Path:
    """The path, once it has this content."""
    path.write_bytes(content)
    return path


def _typed(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, (list, tuple)):
        items = [_typed(each) for each in value]
        kind = items[0][:4] if items else struct.pack("<I", _STRING)
        head = struct.pack("<I", _ARRAY) + kind + struct.pack("<Q", len(items))
        return head + b"".join(item[4:] for item in items)
    if isinstance(value, np.ndarray):
        head = struct.pack("<IIQ", _ARRAY, _NUMBERS[value.dtype.name], len(value))
        return head + value.tobytes()
    dtype = {bool: np.bool_, int: np.uint32, float: np.float32}.get(type(value), type(value))
    number: np.ndarray = np.asarray(value, dtype)
    return struct.pack("<I", _NUMBERS[number.dtype.name]) + number.tobytes()


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes, alignment: int) -> bytes:
    return data + bytes(-len(data) % alignment)


def random_rows(form: str, rows: int, blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of random blocks whose weights are numbers up to 50, uint8 (rows, bytes)."""
    block = FORMATS[form]
    data = rng.integers(0, 256, (32 * rows * blocks + 64, block.bytes), np.uint8)
    with np.errstate(invalid="ignore"):
        largest = np.abs(block.dequantize(data)).max(1)
    usable = data[(largest < 50) & (largest > 1e-4)]
    picked: np.ndarray = usable[: rows * blocks].reshape(rows, -1)
    return picked
