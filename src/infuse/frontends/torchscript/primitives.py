"""What programs call besides ATen's operators: questions about tensors, numbers, lists,
dictionaries, texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import infuse.frontends.torchscript.tensors  # noqa: F401  registers its entries
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.pickles import Member
from infuse.frontends.torchscript import numbers, operators
from infuse.frontends.torchscript.lists import of_lists
from infuse.frontends.torchscript.operators import World, is_tensor
from infuse.frontends.torchscript.registry import PRIMITIVES
from infuse.frontends.torchscript.values import List, Undecided
from infuse.tracing.aten.calls import TABLE
from infuse.tracing.aten.writing import SAME


def apply(world: World, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of `torch.name(...)`."""
    for argument in (*arguments, *options.values()):
        if isinstance(argument, Undecided):
            raise UnsupportedOperatorError(f"a value cannot be told: {argument.reason}")
    function = PRIMITIVES.get(name)
    if function is not None:
        made = function(world, *arguments, **options)
        if made is not NotImplemented:
            return made
    operands = [*arguments, *options.values()]
    if name in ("eq", "ne") and len(operands) == 2 and isinstance(operands[0], Member):
        return (operands[0] == operands[1]) == (name == "eq")
    if name in numbers.NAMES and operands and all(numbers.is_number(x) for x in operands):
        return numbers.calculate(world.g, name, operands)
    if isinstance(arguments[0] if arguments else None, (List, tuple, str)) and not is_tensor(
        arguments[0]
    ):
        made = of_lists(world, name, arguments)
        if made is not NotImplemented:
            return made
    return operators.call(world, name, arguments, options)


def is_read(name: str) -> bool:
    """Whether calls of this name can be carried out, with some arguments."""
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in PRIMITIVES or name in numbers.NAMES or plain in SAME:
        return True
    return any(t == f"aten.{plain}" or t.startswith(f"aten.{plain}.") for t in TABLE)
