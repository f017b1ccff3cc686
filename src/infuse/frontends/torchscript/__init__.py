"""Programs of TorchScript, as torch.jit.save writes them, read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infuse.errors import InfuseError, ModelFileError
from infuse.frontends import pickles
from infuse.frontends.archives import Archive
from infuse.frontends.malformed import wellformed
from infuse.frontends.torchscript.archive import ScriptFile
from infuse.frontends.torchscript.reader import ScriptReader
from infuse.frontends.torchscript.specs import described
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph


def load(archive: Archive, inputs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of the program in an archive; weights stay in the mapped file. `inputs`: what its
    inputs are, by name (see `infuse.from_torchscript`).

    A field of a module that the program changes is an input with a default, and an output called
    `NAME.out`. What is certain for these inputs is decided: branches, loops, lists.
    """
    said = described(inputs or {})
    with wellformed(archive.where, "the program", "save it again by torch.jit.save"), uncollected():
        return ScriptReader(ScriptFile(archive), archive.folder or "model", said).graph()


def refuse_weights(archive: Archive) -> Graph:
    """ModelFileError that says what a file of torch.save without code has in it."""
    hint = "make the module, load the weights into it, and call infuse.from_torch(module, (x,))"
    try:
        content = pickles.read(archive.read("data.pkl"), f"{archive.where}: data.pkl")
    except InfuseError as error:
        raise ModelFileError(
            f"it is a pickle of Python objects, and has no graph ({error.what})",
            where=archive.where,
            hint=hint,
        ) from error
    count = sum(isinstance(x, pickles.StoredTensor) for x in content.values()) if isinstance(
        content, dict
    ) else 0  # fmt: skip
    raise ModelFileError(
        f"it has weights only ({count} tensors of a state_dict), and no graph",
        where=archive.where,
        hint=hint,
    )


__all__ = ["load", "refuse_weights"]
