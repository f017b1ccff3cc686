"""Functional FX graphs, as torch.compile hands them to its backends after AOTAutograd."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any

from infuse.frontends.archives import Archive
from infuse.frontends.torch.exported import load
from infuse.frontends.torch.reader import is_read
from infuse.ir.graph import Graph


def from_fx(module: Any, name: str) -> Graph:
    """The graph of an FX GraphModule of ATen operators without changes in place. Inputs and outputs
    are in its order; numbers among its inputs that are sizes of other inputs are read off those,
    and are no inputs of the graph.
    """
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    for node in module.graph.nodes:
        stack = node.meta.get("nn_module_stack", {})
        node.meta["nn_module_stack"] = {k: (path, _name(of)) for k, (path, of) in stack.items()}
    _read_sizes_off_tensors(module)
    _sums_by_two(module)
    buffer = io.BytesIO()
    with unset_fake_temporarily():  # that of torch.compile, in which constants have no elements
        torch.export.save(_exported(module), buffer)
    graph = load(Archive(memoryview(buffer.getvalue()), name))
    graph.name = name
    return graph


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Torch's decompositions of the operators that Infuse does not read."""
    from torch._decomp import decomposition_table

    return {op: part for op, part in decomposition_table.items() if not is_read(str(op))}


def _name(of: Any) -> str:
    return of if isinstance(of, str) else f"{of.__module__}.{of.__qualname__}"


def _read_sizes_off_tensors(module: Any) -> None:
    import torch

    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    places: dict[str, tuple[Any, int]] = {}
    for node in inputs:
        if isinstance(node.meta["val"], torch.Tensor):
            for axis, size in enumerate(node.meta["val"].shape):
                places.setdefault(str(size), (node, axis))
    for node in inputs:
        symbol = node.meta["val"]
        if not isinstance(symbol, torch.SymInt) or str(symbol) not in places:
            continue
        with module.graph.inserting_after(inputs[-1]):
            size = module.graph.call_function(torch.ops.aten.sym_size.int, places[str(symbol)])
        size.meta["val"] = symbol
        node.replace_all_uses_with(size)
        module.graph.erase_node(node)
    module.recompile()


def _sums_by_two(module: Any) -> None:
    """torch.sym_sum of many numbers, which files do not have, becomes additions."""
    import torch

    for node in list(module.graph.nodes):
        if node.target is not torch.sym_sum:
            continue
        (terms,) = node.args
        total = terms[0]
        number = int(total) if isinstance(total, int) else total.meta["val"]
        with module.graph.inserting_before(node):
            for term in terms[1:]:
                number = number + (term if isinstance(term, int) else term.meta["val"])
                total = module.graph.call_function(operator.add, (total, term))
                total.meta["val"] = number
        node.replace_all_uses_with(total)
        module.graph.erase_node(node)
    module.recompile()


def _exported(module: Any) -> Any:
    from torch.export import ExportedProgram
    from torch.export.exported_program import ModuleCallEntry
    from torch.export.graph_signature import (
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
    )
    from torch.utils._sympy.value_ranges import ValueRanges

    constants = _constants_as_inputs(module)
    inputs = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            constant = node.name in constants
            kind = InputKind.CONSTANT_TENSOR if constant else InputKind.USER_INPUT
            inputs.append(InputSpec(kind, _argument(node), node.name if constant else None))
    (results,) = module.graph.output_node().args
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(r), None) for r in results]
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict={},
        range_constraints={symbol: ValueRanges(0, 2**31) for symbol in _symbols(module)},
        module_call_graph=[ModuleCallEntry("")],
        constants=constants,
    )


def _symbols(module: Any) -> set[Any]:
    """Torch's symbols in the sizes of all tensors."""
    import torch

    sizes: list[Any] = []
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            sizes += value.shape
    return {
        symbol
        for size in sizes
        if not isinstance(size, int)
        for symbol in size.node.expr.free_symbols
    }


def _argument(node: Any) -> Any:
    import torch
    from torch.export import graph_signature as signature

    if not isinstance(node, torch.fx.Node):
        return signature.ConstantArgument("", node)
    if isinstance(node.meta["val"], torch.Tensor):
        return signature.TensorArgument(node.name)
    return signature.SymIntArgument(node.name)


def _constants_as_inputs(module: Any) -> dict[str, Any]:
    """The tensors that are attributes, which become inputs of these names."""
    import torch

    constants: dict[str, Any] = {}
    first = next(iter(module.graph.nodes))
    for node in list(module.graph.nodes):
        if node.op != "get_attr":
            continue
        tensor = getattr(module, node.target)
        if not isinstance(tensor, torch.Tensor):
            continue
        with module.graph.inserting_before(first):
            lifted = module.graph.placeholder(f"constant_{len(constants)}")
        lifted.meta["val"] = node.meta.get("val", tensor)
        constants[lifted.name] = tensor
        node.replace_all_uses_with(lifted)
        module.graph.erase_node(node)
    return constants
