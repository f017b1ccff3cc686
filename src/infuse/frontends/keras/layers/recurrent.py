"""Recurrent layers: operators of ONNX where they compute the same, else a Scan of the cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.layers.cells import CELLS, Cell
from infuse.frontends.keras.layers.networks import network
from infuse.ir.graph import Value
from infuse.ir.types import TensorType


@dataclass(frozen=True)
class Computed:
    """What a recurrent layer computes: results in the order of the times, the last one that was
    computed, and the states after it.
    """

    sequence: Value
    last: Value
    states: list[Value]


def cell_of(call: KerasCall) -> Cell:
    """The cell of a recurrent layer; a list of them counts as stacked ones."""
    inner = call.layer.children["cell"]
    if isinstance(inner, list):
        return Cell.stacked([KerasCall(call.runner, each) for each in inner])
    child = KerasCall(call.runner, inner)
    if inner.kind not in CELLS:
        raise call.unsupported(f"a cell of the class {inner.kind}")
    return CELLS[inner.kind](child)


def computed(
    call: KerasCall, x: Value, initial: Sequence[Value] | None, mask: Value | None
) -> Computed:
    """What a recurrent layer computes from these states on; zeros where there are none."""
    config, cell = call.config, cell_of(call)
    if config.flag("stateful"):
        raise call.unsupported("a stateful layer, whose states stay from run to run,")
    if x.rank < 3:
        raise ModelFileError(f"its operand has {x.rank} axes")
    backward = config.flag("go_backwards")
    x = call.floats(x)
    states = list(initial or ()) or _zeros(call, cell, x)
    if len(states) != len(cell.sizes(x.shape[2:])):
        raise ModelFileError(f"it gets {len(states)} states")
    states = [call.floats(state) for state in states]
    if mask is None:
        made = network(call, cell, x, states, backward)
        if made is not None:
            sequence, last = made
            return Computed(sequence, last[0], last)
    return _scanned(call, cell, x, states, mask, backward)


def _zeros(call: KerasCall, cell: Cell, x: Value) -> list[Value]:
    batch = call.g.size_of(x, 0)
    return [call.zeros([batch, *sizes], x.dtype) for sizes in cell.sizes(x.shape[2:])]


def _scanned(
    call: KerasCall, cell: Cell, x: Value, states: list[Value], mask: Value | None, backward: bool
) -> Computed:
    g = call.g
    inner = g.body("body")
    first = call.zeros([g.size_of(x, 0), *cell.sizes(x.shape[2:])[cell.shown]], x.dtype)
    carried = [first, *states]
    insides = [inner.typed_input(f"state_{i}", value.type) for i, value in enumerate(carried)]
    scanned = [x] if mask is None else [x, call.boolean(mask)]
    parts = [
        inner.typed_input(f"x_{i}", TensorType(v.dtype, (v.shape[0], *v.shape[2:])))
        for i, v in enumerate(scanned)
    ]
    call.runner.g = inner
    try:
        y, made = cell.step(parts[0], insides[1:])
        if mask is not None:
            zero = call.config.flag("zero_output_for_mask")
            other = inner.number(0, y.dtype) if zero else insides[0]
            y = _chosen(inner, parts[1], y, other)
            made = [_chosen(inner, parts[1], a, b) for a, b in zip(made, insides[1:])]
    finally:
        call.runner.g = g
    for number, value in enumerate([y, *made, y]):
        inner.output(f"output_{number}", inner("Identity", value))
    last, *results, sequence = g.control(
        len(carried) + 1,
        "Scan",
        *carried,
        *scanned,
        bodies={"body": inner},
        num_scan_inputs=len(scanned),
        scan_input_axes=(1,) * len(scanned),
        scan_output_axes=(1,),
        scan_input_directions=(int(backward),) * len(scanned),
        scan_output_directions=(int(backward),),
    )
    return Computed(sequence, last, results)


def _chosen(g: Any, mask: Value, value: Value, other: Value) -> Value:
    for _ in range(value.rank - mask.rank):
        mask = g("Unsqueeze", mask, g.ints(mask.rank))
    result: Value = g("Where", mask, value, other)
    return result


# -- layers ----------------------------------------------------------------------------------------


def arguments(
    call: KerasCall, x: Any, initial_state: Any, mask: Any
) -> tuple[Value, list[Value], Value | None]:
    """The sequence, the states, and the mask of a call; Keras 2 has states behind the sequence."""
    states = initial_state
    if isinstance(x, (list, tuple)):
        x, *behind = x
        states = behind or states
    mask = mask[0] if isinstance(mask, (list, tuple)) and mask else mask
    mask = mask if mask is not None else call.mask(x)
    flat: list[Value] = []
    pending = [states]
    while pending:
        each = pending.pop(0)
        if isinstance(each, (list, tuple)):
            pending[:0] = each
        elif each is not None:
            flat.append(each)
    return x, flat, mask


def _recurrent(
    call: KerasCall, x: Any, initial_state: Any = None, mask: Any = None, constants: Any = None
) -> Any:
    if constants:
        raise call.unsupported("constants of a cell")
    sequences, states, mask = arguments(call, x, initial_state, mask)
    made = computed(call, sequences, states, mask)
    y = made.last
    if call.config.flag("return_sequences"):
        backward = call.config.flag("go_backwards")
        y = call.reversed(made.sequence, 1) if backward else made.sequence
        call.set_mask(y, mask)
    return (y, *made.states) if call.config.flag("return_state") else y


def _own_cell(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda config: {
        "cell": {"class_name": kind, "config": {**config.fields, "name": "cell"}}
    }


for _name in ("SimpleRNN", "LSTM", "GRU", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"):
    layer(_name, children=_own_cell(f"{_name}Cell"))(_recurrent)
layer("RNN", children=lambda config: {"cell": config.get("cell")})(_recurrent)


def _both(config: Any) -> dict[str, Any]:
    forward = config.get("layer")
    backward = config.get("backward_layer")
    if backward is None:
        fields = forward["config"]
        turned = {**fields, "go_backwards": not fields.get("go_backwards")}
        backward = {**forward, "config": {**turned, "name": f"backward_{fields.get('name')}"}}
    return {"forward_layer": forward, "backward_layer": backward}


@layer("Bidirectional", children=_both)
def bidirectional(
    call: KerasCall, x: Any, initial_state: Any = None, mask: Any = None, constants: Any = None
) -> Any:
    """A layer in the order of the times, and one against it."""
    if constants:
        raise call.unsupported("constants of a cell")
    x, states, mask = arguments(call, x, initial_state, mask)
    half = len(states) // 2
    sides = [call.child("forward_layer"), call.child("backward_layer")]
    made = [
        computed(side, x, part, mask) for side, part in zip(sides, (states[:half], states[half:]))
    ]
    first = sides[0].config
    if first.flag("return_sequences"):
        ys = [made[0].sequence, made[1].sequence]
        ys = [
            y if side.config.flag("go_backwards") == bool(number) else call.reversed(y, 1)
            for number, (y, side) in enumerate(zip(ys, sides))
        ]
    else:
        ys = [made[0].last, made[1].last]
    y = _joined(call, ys)
    if first.flag("return_sequences"):
        for each in y if isinstance(y, tuple) else (y,):
            call.set_mask(each, mask)
    if not first.flag("return_state"):
        return y
    results = y if isinstance(y, tuple) else (y,)
    return (*results, *made[0].states, *made[1].states)


def _joined(call: KerasCall, ys: Sequence[Value]) -> Value | tuple[Value, ...]:
    g, mode = call.g, call.config.get("merge_mode", "concat")
    a, b = ys
    if mode is None:
        return a, b
    if mode == "concat":
        return g("Concat", a, b, axis=a.rank - 1)
    if mode == "mul":
        return g("Mul", a, b)
    if mode in ("sum", "ave"):
        total = g("Add", a, b)
        return g("Div", total, 2.0) if mode == "ave" else total
    raise ModelFileError(f"there is no merge_mode {mode!r}")
