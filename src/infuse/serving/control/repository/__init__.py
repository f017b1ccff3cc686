"""Where models come from: a folder or an object store, listed, checked, and copied into a cache by
content.
"""

from __future__ import annotations

from infuse.serving.control.repository.configs import (
    ModelText as ModelText,
    parse_config as parse_config,
)
from infuse.serving.control.repository.files import (
    FileEntry as FileEntry,
    Labels as Labels,
    LocalVersion as LocalVersion,
    ModelFiles as ModelFiles,
    VersionFiles as VersionFiles,
    check_name as check_name,
    identity_of as identity_of,
)
from infuse.serving.control.repository.repository import Repository as Repository
