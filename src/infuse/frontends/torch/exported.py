"""The reader of exported programs."""

from __future__ import annotations

from collections.abc import Mapping

from infuse.errors import ModelFileError
from infuse.frontends.archives import Archive
from infuse.frontends.torch.archive import PT2
from infuse.frontends.torch.reader import Reader
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a program with impossible contents may raise."""


def load(archive: Archive, names: Mapping[str, str] | None = None) -> Graph:
    """The graph of the exported program in an archive; `names` are those of its sizes by torch's
    symbols (`s0`). Weights stay in the mapped file.

    Parameters and buffers are constants; a buffer or input that the program changes is an input
    with a default, and an output called `NAME.out`.
    """
    try:
        reader = Reader(PT2(archive), archive.folder or "model", names)
        with uncollected(), numbering(reader.taken):
            return reader.graph()
    except RecursionError as error:
        raise ModelFileError("the program is nested too deeply", where=archive.where) from error
    except _MALFORMED as error:
        raise ModelFileError(
            f"the program is not well formed: {type(error).__name__}: {error}",
            where=archive.where,
            hint="export it again with torch.export.save",
        ) from error
