"""Live modules and exported programs of torch, by way of the file that torch.export.save writes."""

from __future__ import annotations

import io
from typing import Any, Final

from infuse.errors import InputError, UnsupportedOperatorError
from infuse.frontends.archives import Archive
from infuse.frontends.torch.exported import load
from infuse.frontends.torch.naming import named_sizes, with_dims
from infuse.frontends.torch.reader import is_read
from infuse.ir.graph import Graph

_DEEPEST: Final = 8
"""How often what torch takes apart is taken apart again."""


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
    program, names = module, {}
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
        dynamic_shapes = with_dims(dynamic_shapes)
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
    program = _functional(program)
    if dynamic_shapes is not None and program is not module:
        names = named_sizes(program, module.forward, tuple(args), kwargs or {}, dynamic_shapes)
    for entry in program.module_call_graph:
        entry.signature = None  # classes around outputs; they cannot always be written
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    where = type(module).__name__
    graph = load(Archive(memoryview(buffer.getvalue()), where), names)
    graph.name = where
    return graph


def _functional(program: Any) -> Any:
    """The program without what is done in place. Operators are left whole, but for those that
    Infuse does not read and torch can take apart.
    """
    import torch
    from torch._decomp import decomposition_table

    program = program.run_decompositions({})
    for _ in range(_DEEPEST):
        unread = {
            node.target
            for part in program.graph_module.modules()
            if isinstance(part, torch.fx.GraphModule)
            for node in part.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload) and not is_read(str(node.target))
        }
        if not unread:
            break
        usual = torch.export.default_decompositions()
        table = {
            op: usual[op] if op in usual else decomposition_table[op]
            for op in unread
            if op in usual or op in decomposition_table
        }
        if not table:
            break
        program = program.run_decompositions(table)
    return program
