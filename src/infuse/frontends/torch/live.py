"""Live modules and exported programs of torch, by way of the file that torch.export.save writes."""

from __future__ import annotations

import io
from typing import Any

from infuse.errors import InputError, UnsupportedOperatorError
from infuse.frontends.archives import Archive
from infuse.frontends.torch.exported import load
from infuse.ir.graph import Graph


def from_torch(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Graph:
    """The graph of a module, traced by torch.export on these arguments, or of a program that was
    exported before (see `infuse.from_torch`).
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            "torch is not installed", hint="save the program to a .pt2 file where it is"
        ) from error
    program = module
    if isinstance(module, torch.nn.Module):
        if module.training:
            raise InputError(
                "the module is in training mode", hint="call module.eval() before exporting it"
            )
        if not args and not kwargs:
            raise InputError(
                "a module is traced on arguments, and there are none",
                hint="call infuse.from_torch(module, (x,))",
            )
        program = torch.export.export(
            module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )
    if not isinstance(program, torch.export.ExportedProgram):
        raise InputError(
            f"{type(module).__name__} is neither a torch.nn.Module nor an ExportedProgram"
        )
    devices = {str(t.device) for t in program.state_dict.values()} - {"cpu"}
    if devices:
        raise UnsupportedOperatorError(
            f"the module lies on {', '.join(sorted(devices))}", hint="call module.cpu()"
        )
    buffer = io.BytesIO()
    # An empty table makes what is done in place functional and leaves operators whole.
    torch.export.save(program.run_decompositions({}), buffer)
    where = type(module).__name__
    return load(Archive(memoryview(buffer.getvalue()), where))
