"""`python sanitized_start.py LIBRARY PROGRAM ARGUMENT…`: becomes a program that has a sanitizer's
library in it, at addresses that are not random where the system grants that: ThreadSanitizer needs
parts of the memory for itself.

It imports nothing of the package, and runs by its path.
"""

from __future__ import annotations

import ctypes
import os
import sys

_ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF


def main(library: str, *command: str) -> None:
    """Replace this process by the command."""
    personality = ctypes.CDLL(None).personality
    personality.argtypes = [ctypes.c_ulong]
    personality(personality(_ASK) | _ADDR_NO_RANDOMIZE)
    os.environ["LD_PRELOAD"] = library
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
