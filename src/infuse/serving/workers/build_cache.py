"""What was compiled before, found again by the content of the model's files: no process is started
to build it anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from infuse.errors import CompiledModelError
from infuse.runtime.folder import check_cpu, read_metadata, verify
from infuse.runtime.records import Records
from infuse.serving.workers.build import Signature, described, signature_of

_MOST: Final = 4096  # records; each is a few hundred bytes


class BuildCache:
    """Records in a folder of the cache: which compiled model came of which content and options.

    A record counts only while its compiled folder is whole, and made for this processor. Models of
    which the interpreter runs a part are not recorded, and nothing is under an empty key.
    """

    def __init__(self, cache: Path) -> None:
        self._records = Records(cache / "built", _MOST)

    def find(self, key: str) -> Signature | None:
        """The model that was built for this key; None: build it."""
        if not key:
            return None
        try:
            signature = signature_of(self._records.read(key), 0.0)
            metadata = read_metadata(signature.folder)
            verify(signature.folder, metadata)
            check_cpu(metadata, signature.folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, CompiledModelError):
            # no record, or one of what is there no more: building says what is wrong, if anything
            # is
            return None
        with suppress(OSError):  # a read-only cache does not keep the time of use
            os.utime(signature.folder)
        return signature

    def keep(self, key: str, signature: Signature) -> None:
        """Record what was built. A cache that cannot be written holds no records."""
        if signature.host_steps or not key:
            return
        self._records.write(key, described(signature))
