"""The .pt2 archive that torch.export.save writes: the program as JSON, and its tensors in their
places of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.archives import Archive
from infuse.ir.graph import Array
from infuse.tracing.semantics.strided import strided

VERSION: Final = 8
"""Of the schema (`torch/_export/serde/schema.py`): its major number."""
DTYPES: Final[Mapping[int, DType]] = {
    1: dtypes.uint8,
    2: dtypes.int8,
    3: dtypes.int16,
    4: dtypes.int32,
    5: dtypes.int64,
    6: dtypes.float16,
    7: dtypes.float32,
    8: dtypes.float64,
    10: dtypes.complex64,
    11: dtypes.complex128,
    12: dtypes.bool_,
    13: dtypes.bfloat16,
    28: dtypes.uint16,
    29: dtypes.float8e4m3fn,
    30: dtypes.float8e5m2,
    31: dtypes.float8e4m3fnuz,
    32: dtypes.float8e5m2fnuz,
    33: dtypes.float8e8m0,
    34: dtypes.uint32,
    35: dtypes.uint64,
}
"""By torch's ScalarType."""
_HINT: Final = "export it again with torch.export.save"


def dtype_of(number: Any) -> DType:
    """The element type of a ScalarType; ModelFileError for one that tensors cannot have here."""
    dtype = DTYPES.get(number)
    if dtype is None:
        raise ModelFileError(f"element type {number!r} of torch is not known")
    return dtype


class PT2:
    """One exported program of an archive, the only one or the one called `model`."""

    def __init__(self, archive: Archive, model: str = "") -> None:
        self._archive = archive
        names = [
            name.removeprefix("models/").removesuffix(".json")
            for name in archive.names
            if name.startswith("models/") and name.endswith(".json")
        ]
        if not names:
            raise ModelFileError(
                "the archive has no exported program (models/*.json)",
                where=archive.where,
                hint=_HINT,
            )
        chosen = model or ("model" if "model" in names else names[0])
        if chosen not in names or (not model and len(names) > 1 and chosen != "model"):
            raise ModelFileError(
                f"the archive has the programs {', '.join(sorted(names))}",
                where=archive.where,
                hint="keep one of them in it",
            )
        self.program = self._json(f"models/{chosen}.json")
        version = self.program["schema_version"]["major"]
        if version != VERSION:
            raise ModelFileError(
                f"its schema is of version {version}, Infuse reads version {VERSION}",
                where=archive.where,
                hint="export it again with torch 2.8 or later",
            )
        self._tensors: dict[str, tuple[str, dict[str, Any]]] = {}
        for kind in ("weights", "constants"):
            config = f"data/{kind}/{chosen}_{kind}_config.json"
            if config in archive:
                entries = self._json(config)["config"]
                self._tensors |= {
                    n: (f"data/{kind}/{e['path_name']}", e) for n, e in entries.items()
                }

    def tensor(self, name: str) -> Array:
        """The elements of a parameter, buffer or constant, in their place of the file."""
        if name not in self._tensors:
            raise ModelFileError(f"the archive has no tensor {name!r}", where=self._archive.where)
        member, entry = self._tensors[name]
        if entry["use_pickle"] or entry["tensor_meta"] is None:
            raise ModelFileError(
                f"{name!r} is stored as a Python pickle, which is not read",
                where=self._archive.where,
                hint="give the module plain tensors as parameters",
            )
        meta = entry["tensor_meta"]
        sizes, strides = ([_static(name, n) for n in meta[key]] for key in ("sizes", "strides"))
        offset, dtype = _static(name, meta["storage_offset"]), dtype_of(meta["dtype"])
        return strided(name, self._archive.read(member), dtype, offset, sizes, strides)

    def _json(self, member: str) -> dict[str, Any]:
        try:
            content = json.loads(bytes(self._archive.read(member)))
        except (ValueError, RecursionError) as error:
            raise ModelFileError(
                f"member {member!r} is not JSON: {error}", where=self._archive.where, hint=_HINT
            ) from error
        if not isinstance(content, dict):
            raise ModelFileError(f"member {member!r} is not an object", where=self._archive.where)
        return content


def _static(name: str, size: Mapping[str, Any]) -> int:
    if "as_int" not in size or not isinstance(size["as_int"], int):
        raise ModelFileError(f"tensor {name!r} has a size that is not a number")
    return size["as_int"]
