"""A model for WebAssembly as a package of JavaScript: a module with types, an example, a page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infuse.ir import dim_text
from infuse.options import PREFIX
from infuse.targets.text.example import parsed_size
from infuse.targets.text.names import plain

_HERE: Final = Path(__file__).parent
ARRAYS: Final = {
    "bool": "Uint8Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
    "int16": "Int16Array",
    "uint16": "Uint16Array",
    "int32": "Int32Array",
    "uint32": "Uint32Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
    "float32": "Float32Array",
    "float64": "Float64Array",
}
"""What elements lie in; halves as their bits."""
_WITH_THREADS: Final = ("threads.mjs", "worker.mjs", "serve.mjs")
"""Files of a model with threads alone."""


def javascript_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The files of the package by name; none where a type of an element has no array there."""
    specs = [*metadata.get("inputs", ()), *metadata.get("outputs", ())]
    if any(spec["dtype"] not in ARRAYS for spec in specs):
        return {}
    copied = ("example.mjs", *_WITH_THREADS) if _has_threads(metadata) else ("example.mjs",)
    return {
        "model.mjs": _module(metadata),
        "model.d.mts": _types(metadata),
        **{name: (_HERE / name).read_text("utf-8") for name in copied},
        "index.html": (_HERE / "index.html")
        .read_text("utf-8")
        .replace("@TITLE@", html.escape(plain(metadata.get("name") or "model"))),
        "package.json": _package(metadata),
    }


def _has_threads(metadata: Mapping[str, Any]) -> bool:
    return str(metadata.get("target", "")).partition("+")[0].endswith("-threads")


def _module(metadata: Mapping[str, Any]) -> str:
    symbols = metadata.get("symbols", ())
    fields = {
        "INPUTS": _listed(metadata.get("inputs", ())),
        "OUTPUTS": _listed(metadata.get("outputs", ())),
        "SYMBOLS": _json(list(symbols)),
        "SHAPES": ", ".join(_shape(e["shape"], symbols) for e in metadata.get("inputs", ())),
        "WEIGHTS_BYTES": str(metadata.get("weights_bytes", 0)),
        "WEIGHTS_HASH": str(metadata.get("weights_hash", "")),
        "EMBEDDED": "true" if metadata.get("embedded") else "false",
        "THREADS": "true" if _has_threads(metadata) else "false",
        "RELAXED": "true" if "+relaxed_simd" in str(metadata.get("target", "")) else "false",
        "PREFIX": metadata.get("prefix", PREFIX),
        "WASM": metadata.get("library", "model.wasm"),
    }
    text = (_HERE / "model.mjs").read_text("utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: fields[match[1]], text)


def _listed(entries: Sequence[Mapping[str, Any]]) -> str:
    keys = ("name", "dtype", "shape", "late", "optional")
    return _json([{key: entry[key] for key in keys if key in entry} for entry in entries])


def _json(value: Any) -> str:
    """JSON that is also a literal of JavaScript, in ASCII."""
    return json.dumps(value, ensure_ascii=True)


def _shape(shape: Sequence[Any], symbols: Sequence[str]) -> str:
    places = {name: f"symbols[{i}]" for i, name in enumerate(symbols)}
    sizes = (size if isinstance(size, int) else parsed_size(size, symbols) for size in shape)
    return f"[{', '.join(dim_text.c_text(size, places.__getitem__, '') for size in sizes)}]"


def _types(metadata: Mapping[str, Any]) -> str:
    inputs = "".join(
        f"  {_json(e['name'])}{'?' if e.get('optional') else ''}: "
        f"{ARRAYS[e['dtype']]} | Input<{ARRAYS[e['dtype']]}>;\n"
        for e in metadata.get("inputs", ())
    )
    outputs = "".join(
        f"  {_json(e['name'])}: Output<{ARRAYS[e['dtype']]}>;\n"
        for e in metadata.get("outputs", ())
    )
    symbols = "".join(f"  {_json(name)}?: number;\n" for name in metadata.get("symbols", ()))
    text = (_HERE / "model.d.mts").read_text("utf-8")
    for key, value in {"INPUTS": inputs, "OUTPUTS": outputs, "SYMBOLS": symbols}.items():
        text = text.replace(f"  @{key}@\n", value)
    return text


def _package(metadata: Mapping[str, Any]) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", str(metadata.get("name") or "model").lower()).strip("-")
    files = ["model.mjs", "model.d.mts", metadata.get("library", "model.wasm")]
    if _has_threads(metadata):
        files += ["threads.mjs", "worker.mjs"]
    if metadata.get("weights_bytes") and not metadata.get("embedded"):
        files.append("weights.bin")
    content = {
        "name": name or "model",
        "version": "1.0.0",
        "description": "A model compiled by Infuse",
        "type": "module",
        "exports": {".": {"types": "./model.d.mts", "default": "./model.mjs"}},
        "files": files,
    }
    return f"{json.dumps(content, indent=2)}\n"
