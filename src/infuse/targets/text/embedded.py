"""Weights as a part of a library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from infuse.options import PREFIX
from infuse.runtime.folder import EMBEDDED, WEIGHTS

_WEIGHTS: Final = """// The content of weights.bin, as a part of the library.
#if defined(__APPLE__)
#define PLACE(name) ".section __TEXT,__const\\n.private_extern _" name "\\n.globl _" name "\\n"
#define START(name) "_" name ":\\n"
#define END(name)
#elif defined(_WIN32)
#define PLACE(name) ".section .rdata,\\"dr\\"\\n.globl " name "\\n"
#define START(name) name ":\\n"
#define END(name)
#else
#if defined(__wasm__)
#define PLACE(name) ".section .rodata." name ",\\"\\",@\\n.hidden " name "\\n.globl " name "\\n"
#else
#define PLACE(name) ".section .rodata\\n.hidden " name "\\n.globl " name "\\n"
#endif
#define START(name) name ":\\n"
#define END(name) ".size " name ", . - " name "\\n"
#endif
__asm__(PLACE("@NAME@") ".balign 64\\n" START("@NAME@") ".incbin \\"@FILE@\\"\\n.byte 0\\n"
        END("@NAME@") ".text\\n");
"""


def embedded_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What makes the file of weights beside it a part of a library, in C and in C++; nothing for a
    model whose weights are a file alone.
    """
    if not metadata.get("embedded"):
        return {}
    name = f"{metadata.get('prefix', PREFIX)}_embedded_weights"
    return {EMBEDDED: _WEIGHTS.replace("@NAME@", name).replace("@FILE@", WEIGHTS)}
