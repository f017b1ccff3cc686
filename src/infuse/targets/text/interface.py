"""The C interface of a compiled model: its header, and what lies beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infuse.options import PREFIX
from infuse.runtime.folder import BUNDLED, DECRYPT, HEADER
from infuse.targets import KERNELS
from infuse.targets.text.embedded import embedded_files
from infuse.targets.text.example import EXAMPLE, SIZE, command, example
from infuse.targets.text.names import plain, prefixed

_REFUSED: Final = {
    "OR_REFUSED": (
        ", or where the processor lacks\n * instructions@TILES@: infuse_error(NULL) tells"
    ),
    "WHY_REFUSED": (
        '\n * For NULL: why the process may not open a context, "" where it is out of memory.'
    ),
}
"""What a header says of code for processors of some kind."""
_TILES: Final = ", or the system does not let the process use tile registers (AMX)"


_OPENED: Final = (
    "infuse_open(weights, 4);        // the content of weights.bin, 64-byte aligned; 4 threads",
    "infuse_open(NULL, 1);           // the weights are a part of the source",
)
_BARE: Final = """
/*
 * There is no heap, and there are no threads. infuse_open opens one context at a time, in memory of
 * the source's own; infuse_create opens any number, each in memory that the options name: `arena`,
 * at a multiple of 64, with `arena_bytes` of @PREFIX@_ARENA_BYTES or more.
 */"""
_EMBEDDED: Final = (
    "\n * The weights are a part of the library, too: NULL stands for these, without weights.bin."
)


def interface_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """`model.h`, a program in C that runs the model, its weights as a source where they are a part
    of the library, and what decrypts them where they are encrypted; the header of programs of a
    bundle is that of its library.
    """
    if metadata.get("bundled"):
        return {EXAMPLE: example(metadata)}
    files = {HEADER: header(metadata), EXAMPLE: example(metadata), **embedded_files(metadata)}
    if metadata.get("encrypted"):
        files[DECRYPT] = Path(__file__).with_name(DECRYPT).read_text("utf-8")
    return files


def program_header() -> str:
    """The header of a library that runs programs."""
    text = Path(__file__).with_name(BUNDLED).read_text("utf-8")
    return text.replace("@TYPES@", _types())


def header(metadata: Mapping[str, Any]) -> str:
    """`model.h` of a model with this metadata."""
    prefix = metadata.get("prefix", PREFIX)
    inputs, outputs, symbols = (metadata.get(key, ()) for key in ("inputs", "outputs", "symbols"))
    values = ", ".join([str(SIZE)] * len(symbols)) or "0"
    fields = {
        "TYPES": _types(),
        "NEEDS": _needs(metadata),
        "OPENED": _OPENED[bool(metadata.get("single"))],
        "GUARD": f"{prefix.upper()}_MODEL_H",
        "VALUES": values,
        "PAD": " " * max(1, 24 - len(values)),
        "SYMBOLS": ", ".join(map(plain, symbols))
        or "the model has no symbols: NULL will do as well",
        "INPUTS": ", ".join(f"input{i}" for i in range(len(inputs))) or "0",
        "OUTPUTS": ", ".join("0" if e.get("late") else f"output{i}" for i, e in enumerate(outputs))
        or "0",
        "TENSORS": "\n".join([*_tensors("inputs", inputs), *_tensors("outputs", outputs)]) or " *",
        "COMMAND": command(metadata),
        "NUMBERS": _bytes_text(metadata),
        "EMBEDDED": _EMBEDDED if metadata.get("embedded") else "",
        **(dict.fromkeys(_REFUSED, "") if metadata.get("single") else _REFUSED),
        "TILES": _TILES if metadata.get("tiles") else "",
    }
    text = Path(__file__).with_name("model.h").read_text("utf-8")
    for key, value in fields.items():
        text = text.replace(f"@{key}@", value)
    return prefixed(text, prefix)


def _needs(metadata: Mapping[str, Any]) -> str:
    """What code needs where it runs."""
    if metadata.get("bare"):
        return "Its code needs nothing but memcpy, memmove and memset."
    if metadata.get("single"):
        return "Its code needs nothing but the C library."
    return "The library needs nothing but the C library and threads."


def _bytes_text(metadata: Mapping[str, Any]) -> str:
    """Sizes of memory as definitions, of a model whose weights are a part of its source."""
    if not metadata.get("single"):
        return ""
    prefix, arena = metadata.get("prefix", PREFIX).upper(), metadata.get("context_bytes")
    lines = [f"\n#define {prefix}_WEIGHTS_BYTES {metadata['weights_bytes']}"]
    if arena is not None:
        lines += [f"#define {prefix}_ARENA_BYTES {arena}", _BARE.replace("@PREFIX@", prefix)]
    return "\n".join(lines) + "\n"


def _types() -> str:
    """What the interfaces of all models share."""
    text = (KERNELS / "interface.h").read_text("utf-8")
    return text[text.index("#ifndef INFUSE_ABI") :]


def _tensors(kind: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f" * {kind}[{i}]: {plain(e['name'])}, {plain(e['dtype'])}{_sizes(e)}"
        for i, e in enumerate(entries)
    ]
    lines = [f"{line} (optional)" if e.get("optional") else line for line, e in zip(lines, entries)]
    return [
        f"{line}, its elements in order; its sizes: {kind}[{e['sizes']}]" if "sizes" in e else line
        for line, e in zip(lines, entries)
    ]


def _sizes(entry: Mapping[str, Any]) -> str:
    return "".join(f"[{plain(size)}]" for size in entry["shape"])
