"""What was measured on this machine, kept in files of the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from infuse.build.build import kernels_hash
from infuse.build.cache import Cache
from infuse.build.toolchain import Toolchain
from infuse.runtime.cpus import cpu_description
from infuse.targets import Target

_Content = TypeVar("_Content")


class CacheRecord:
    """A file of plain data that belongs to these kernels, this compiler, this processor and the
    `facts`; others have files of their own. `what` it holds is named where it is broken.
    """

    def __init__(self, folder: str, what: str, target: Target, facts: Sequence[str]) -> None:
        machine = (
            cpu_description(),
            target.fingerprint,
            Toolchain.find(target).identity,
            kernels_hash(),
        )
        self.identity = "; ".join((*machine, *facts))
        self._what = what
        name = hashlib.sha256(self.identity.encode()).hexdigest()[:16]
        self.file: Path = Cache().root / folder / f"{name}.json"

    def load(self, parse: Callable[[Mapping[str, Any]], _Content]) -> _Content | None:
        """What `parse` makes of the content, None where there is no file. One that is broken is
        named in a warning and counts as none.
        """
        try:
            text = self.file.read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = str(error)
        else:
            try:
                content = json.loads(text)
                if content["identity"] == self.identity:
                    return parse(content)
                why = "it belongs to another machine"
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                why = str(error)
        warnings.warn(
            f"{self._what} in {self.file} are not used and measured again: {why}", stacklevel=4
        )
        return None

    def write(self, content: Mapping[str, Any]) -> None:
        """Keep this. The file is replaced as a whole; where it cannot be, all is measured again."""
        temporary = self.file.with_name(f".{self.file.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"identity": self.identity, **content}), "utf-8")
            temporary.replace(self.file)
