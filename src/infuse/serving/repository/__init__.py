"""Where models come from: a folder or an object store, listed, checked, and copied into a cache by
content.
"""

from __future__ import annotations

from infuse.serving.repository.configs import ModelText, parse_config
from infuse.serving.repository.files import (
    FileEntry,
    Labels,
    LocalVersion,
    ModelFiles,
    VersionFiles,
    check_name,
    identity_of,
)
from infuse.serving.repository.repository import Repository

__all__ = [
    "FileEntry",
    "Labels",
    "LocalVersion",
    "ModelFiles",
    "ModelText",
    "Repository",
    "VersionFiles",
    "check_name",
    "identity_of",
    "parse_config",
]
