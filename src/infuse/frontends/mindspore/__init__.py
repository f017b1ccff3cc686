"""Models of MindSpore: MindIR files (`.mindir`), read without MindSpore.

MindSpore names what its models compute much as torch does, so that most primitives are built as
torch's operators are (`tracing/aten`), with the element types that the file gives for
results. Graphs that call each other become branches and loops; monads and what they order are
left out, and models with side effects, such as assignments of parameters, are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infuse.errors import ModelFileError
from infuse.frontends.files import ExternalFiles
from infuse.frontends.malformed import wellformed
from infuse.frontends.mindspore.messages import MESSAGES
from infuse.frontends.mindspore.model import MindModel
from infuse.frontends.mindspore.reader import MindReader
from infuse.frontends.protobuf import parse
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

_HINT: Final = "the file was damaged, or is not a MindIR file; export it again"
_ENCRYPTED: Final = b"\xd8\x5e\x3a\x7f"
"""How files begin that are encrypted."""


def load(data: memoryview, where: str, path: Path | None = None) -> Graph:
    """The graph of a model. Large parameters lie in files beside `path`."""
    if bytes(data[:4]) == _ENCRYPTED:
        raise ModelFileError(
            "the MindIR file is encrypted",
            where=where,
            hint="export the model without enc_key",
        )
    with wellformed(where, "the model", _HINT):
        proto = parse(MESSAGES["Model"], data, where, "the MindIR file")
        if proto.HasField("little_endian") and not proto.little_endian:
            raise ModelFileError("its numbers are big-endian", where=where)
        if proto.preprocessor.op:
            raise ModelFileError(
                "it has steps of preprocessing (a dataset), which are not read",
                where=where,
                hint="export it without `dataset=`",
            )
        reader = MindReader(MindModel(proto, ExternalFiles(path)))
        with uncollected(), numbering(reader.g.sizes.taken):
            return reader.graph()


def is_mindir(head: bytes) -> bool:
    """Whether a file that begins like this is of MindIR."""
    named = head[:1] == b"\n" and b"\x12\x09MindSpore" in head[:64]
    return named or head[:4] == _ENCRYPTED


__all__ = ["is_mindir", "load"]
