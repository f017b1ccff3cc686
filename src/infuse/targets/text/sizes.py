"""Sizes as C: symbols are fields of a struct that each call fills."""

from __future__ import annotations

import hashlib


def symbol_field(name: str) -> str:
    """A C identifier for a symbol, different for different names."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if clean == name and not name[:1].isdigit() and len(name) < 40:
        return f"s_{name}"
    return f"s_{clean[:24]}_{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
