"""README.md of packages: what all languages say of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infuse.bindings.interface import Interface, Tensor
from infuse.bindings.names import shown
from infuse.bindings.templates import filled


def readme(
    interface: Interface,
    language: str,
    names: Sequence[tuple[Tensor, str, str]],
    fields: Mapping[str, str],
) -> str:
    """The text of a package's README.md. `names`: every tensor with its name and its type in the
    language.
    """
    rows = [
        f"| {_kind(interface, tensor)} | `{name}` | `{kind}` | {shown(tensor.name)} | "
        f"{shown(tensor.signature)} |"
        for tensor, name, kind in names
    ]
    weights = (
        "`weights.bin` holds the weights"
        if interface.weights_bytes
        else "the weights are a part of the library"
    )
    return filled(
        f"{language}/README.md",
        {
            "ROWS": "\n".join(rows),
            "WEIGHTS": weights,
            "MODEL": shown(interface.metadata.get("name") or "model"),
            "TARGET": shown(interface.metadata.get("target") or "native"),
            **fields,
        },
    )


def _kind(interface: Interface, tensor: Tensor) -> str:
    if tensor in interface.inputs:
        return "input, optional" if tensor.optional else "input"
    return "output"
