"""What `run` is called with: arrays by name, one array for a model of one input, or a table for a
model with an input for each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infuse.errors import InputError
from infuse.runtime.shapes import TensorSpec
from infuse.runtime.tables import columns_of, is_table


def by_name(inputs: Any, specs: Sequence[TensorSpec]) -> Mapping[str, Any]:
    """The arrays by name: a mapping as it is, an array as that of the only input without a default,
    a table by its columns where one has the name of an input. InputError for others, with what to
    give.
    """
    if isinstance(inputs, Mapping):
        return inputs
    needed = [spec for spec in specs if not spec.optional]
    takes = f"the model takes {', '.join(map(str, specs))}"
    kind = type(inputs).__name__
    if is_table(inputs):
        if any(spec.name in inputs.columns for spec in needed):
            return columns_of(inputs, specs)
        raise InputError(f"the inputs are a {kind}, not arrays by name", hint=_table(takes, needed))
    if hasattr(inputs, "__array__"):
        if len(needed) == 1:
            return {needed[0].name: inputs}
        raise InputError(
            f"the inputs are one array, and the model needs {len(needed)}",
            hint=f"call model.run({_call(needed)}); {takes}",
        )
    raise InputError(
        f"the inputs are {'None' if inputs is None else f'a {kind}'}, not arrays by name",
        hint=f"call model.run({_call(needed)}), or model(…) with arrays in order; {takes}",
    )


def _call(specs: Sequence[TensorSpec]) -> str:
    """Arrays by name, as a program would write them."""
    return f"{{{', '.join(f'{spec.name!r}: …' for spec in specs)}}}"


def _table(takes: str, specs: Sequence[TensorSpec]) -> str:
    """How a table is handed over that has no column of the name of an input."""
    if len(specs) == 1:
        spec = specs[0]
        rows = f"table.to_numpy({spec.dtype.name!r})" if len(spec.shape) == 2 else "…"
        return (
            f"call model.run({{{spec.name!r}: {rows}}}), with the columns in the order that"
            f" the model was fitted to; {takes}"
        )
    return f"give a table whose columns have the names of the inputs; {takes}"


def not_an_array(spec: TensorSpec, value: Any, error: Exception) -> InputError:
    """The error for what NumPy makes no array of, such as a tensor of torch that has gradients."""
    hint = f"the model takes {spec}"
    if hasattr(value, "requires_grad"):
        if value.requires_grad:
            hint += "; give x.detach()"
        elif str(value.device) != "cpu":
            hint += "; give x.cpu()"
        elif str(value.dtype) == "torch.bfloat16":
            hint += "; give x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)"
    return InputError(f"the input {spec.name} is not an array: {error}", hint=hint)
