"""Where Infuse keeps what it makes: compiled models, copies of served ones, and the state of
servers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import platformdirs

FOLDER_VARIABLE: Final = "INFUSE_CACHE"


def cache_root() -> Path:
    """`$INFUSE_CACHE`, else the user's cache folder; nothing is made."""
    chosen = os.environ.get(FOLDER_VARIABLE, "").strip()
    root = Path(chosen) if chosen else platformdirs.user_cache_path("infuse", appauthor=False)
    return root.expanduser().absolute()
