"""Live modules and exported programs of torch, by way of the file that torch.export.save writes."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from infuse.errors import InputError, OptionError, UnsupportedOperatorError
from infuse.frontends.archives import Archive
from infuse.frontends.signatures import required_arguments
from infuse.frontends.torch.exported import load
from infuse.frontends.torch.naming import named_sizes, with_dims
from infuse.frontends.torch.reader import is_read
from infuse.ir.graph import Graph

_DEEPEST: Final = 8
"""How often what torch takes apart is taken apart again."""


def from_torch(
    module: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
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
        args = _arguments(torch, module, args, kwargs)
        dynamic_shapes = with_dims(dynamic_shapes)
        try:
            program = torch.export.export(
                module, args, dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
            )
        except Exception as error:
            if recurrent := [m for m in module.modules() if isinstance(m, torch.nn.RNNBase)]:
                raise _not_traced(recurrent[0], error) from error
            raise
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
    signature = program.graph_signature
    mutated = len(signature.buffers_to_mutate) + len(signature.user_inputs_to_mutate)
    _name(graph, mutated, input_names, output_names)
    return graph


def _not_traced(layer: Any, error: Exception) -> UnsupportedOperatorError:
    """The error for a module that torch.export does not trace, as it has this layer."""
    first = str(error).strip().partition("\n")[0]
    return UnsupportedOperatorError(
        f"torch.export does not trace a module with {type(layer).__name__}: {first}",
        hint="leave the length of sequences fixed, go by torch.jit.script and"
        " infuse.from_torchscript, or where sequences are packed by"
        " torch.onnx.export(module, (x, lengths), 'model.onnx', dynamo=False)",
    )


def _arguments(
    torch: Any, module: Any, args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[Any, ...]:
    """The positional arguments that a module is traced on: a tensor alone stands for a tuple of
    it. InputError for those that torch.export does not take.
    """
    call = f"infuse.from_torch(module, ({required_arguments(module.forward)}))"
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            "the module is a program of TorchScript",
            hint="save it with torch.jit.save(module, 'model.pt'), and call"
            " infuse.from_torchscript('model.pt')",
        )
    if isinstance(args, torch.Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise InputError(
            f"the arguments are {type(args).__name__}, not a tuple",
            hint=f"call {call} with tensors; arguments by name are kwargs={{…}}",
        )
    if not args and not kwargs:
        raise InputError("a module is traced on arguments, and there are none", hint=f"call {call}")
    try:
        inspect.signature(module.forward).bind(*args, **(kwargs or {}))
    except TypeError as error:
        raise InputError(
            f"the arguments do not fit {type(module).__name__}.forward: {error}",
            hint=f"call {call}",
        ) from error
    for each in torch.utils._pytree.tree_leaves((tuple(args), dict(kwargs or {}))):
        if hasattr(each, "__array__") and not isinstance(each, torch.Tensor):
            raise InputError(
                f"an argument is a {type(each).__module__}.{type(each).__name__}, not a tensor",
                hint="convert it with torch.from_numpy or torch.as_tensor",
            )
    return tuple(args)


def _name(
    graph: Graph,
    mutated: int,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> None:
    """Name the first inputs and outputs, in order, but for buffers that the program changes: those
    come in front, `mutated` in number among the outputs.
    """
    for what, names in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(names, str):
            raise OptionError(f"{what} is a text, not a list", hint=f"give [{names!r}]")
    arguments = [value for value in graph.inputs if value.default is None]
    results = range(mutated, len(graph.outputs))
    for what, names, places in (
        ("input_names", input_names or (), arguments),
        ("output_names", output_names or (), results),
    ):
        if len(names) > len(places):
            raise OptionError(f"{what} has {len(names)} names, and the module {len(places)}")
    for value, name in zip(arguments, input_names or ()):
        value.name = name
    for place, name in zip(results, output_names or ()):
        graph.output_names[place] = name
    names = [value.name for value in graph.inputs] + graph.output_names
    if (input_names or output_names) and len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"two inputs or outputs are called {double!r}", hint="give other names")


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
