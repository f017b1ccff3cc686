"""Where tests keep the records of the models that servers have built."""

import os
from pathlib import Path


def shared_cache() -> Path:
    """The folder of a server's cache that all tests have in common, for what was built alone."""
    folder = Path(os.environ["INFUSE_CACHE"]).absolute() / "serving"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def share_builds(cache: Path) -> None:
    """Let the server whose cache this will be find what others have built."""
    built = shared_cache() / "built"
    built.mkdir(0o700, exist_ok=True)
    cache.mkdir(0o700)
    (cache / "built").symlink_to(built)
