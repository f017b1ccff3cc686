"""Caches of a test's own that need not compile what all models have in common."""

import os
from pathlib import Path

from infuse.build.objects import OBJECTS


def new_cache(folder: Path) -> str:
    """The path of a cache, in this folder, that holds no models and no records; its compiled
    objects are those of `$INFUSE_CACHE`.
    """
    usual = Path(os.environ["INFUSE_CACHE"]).absolute() / OBJECTS
    usual.mkdir(0o700, parents=True, exist_ok=True)
    folder.mkdir(0o700)
    (folder / OBJECTS).symlink_to(usual)
    return str(folder)
