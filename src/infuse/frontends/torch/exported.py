"""The reader of exported programs."""

from __future__ import annotations

from collections.abc import Mapping

from infuse.frontends.archives import Archive
from infuse.frontends.malformed import wellformed
from infuse.frontends.torch.archive import PT2
from infuse.frontends.torch.reader import ExportReader
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering


def load(archive: Archive, names: Mapping[str, str] | None = None) -> Graph:
    """The graph of the exported program in an archive; `names` are those of its sizes by torch's
    symbols (`s0`). Weights stay in the mapped file.

    Parameters and buffers are constants; a buffer or input that the program changes is an input
    with a default, and an output called `NAME.out`.
    """
    hint = "export it again with torch.export.save"
    with wellformed(archive.where, "the program", hint):
        reader = ExportReader(PT2(archive), archive.folder or "model", names)
        with uncollected(), numbering(reader.taken):
            return reader.graph()
