"""What kernels that move, find or sample elements are called with, done in NumPy."""

import numpy as np
import pytest

from infuse.lowering.expressions import Aggregate
from infuse.lowering.tensors import natural
from infuse.targets.cpu.lower import indexing, integer_convolution, recurrent, resize, vision
from tests.pure import kernel_runs
from tests.pure.kernel_graphs_data import CASES, SAMPLED
from tests.pure.kernel_runs import calls
from tests.support.kernel_calls import KernelError

pytestmark = [pytest.mark.row("R1"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]
TARGETS = (kernel_runs.TARGETS[0], *kernel_runs.TARGETS[2:])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_given_what_makes_its_node(name: str, target: str) -> None:
    assert CASES[name].run(target).calls > 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", SAMPLED)
def test_samples_of_operators_are_what_their_kernels_make(kind: str, target: str) -> None:
    assert calls(kind, target) > 0


# -- what is wrong is seen -------------------------------------------------------------------------


def test_filters_with_another_zero_point_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    shifted = integer_convolution._shifted_filters
    monkeypatch.setattr(
        integer_convolution, "_shifted_filters", lambda node: shifted(node) + np.int16(1)
    )
    with pytest.raises(KernelError, match=r"integer_conv in step .* of ConvInteger node"):
        CASES["bytes, from 7"].run(TARGETS[0])
    with pytest.raises(KernelError, match=r"integer_depthwise in step"):
        CASES["bytes, one channel"].run(TARGETS[1])


def test_operands_in_another_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "row_major", lambda low, value: low.storage.tensor(value))
    with pytest.raises(KernelError, match="does not leave"):
        CASES["rows of another order"].run(TARGETS[0])


def test_gates_in_another_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = recurrent.pack_gates
    monkeypatch.setattr(recurrent, "pack_gates", lambda w, *how: pack(w[:, :, ::-1], *how))
    with pytest.raises(KernelError, match="step LSTM does not leave"):
        CASES["memory"].run(TARGETS[0])


def test_strides_of_another_layout_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    strides = recurrent.Layer._state_strides
    monkeypatch.setattr(recurrent.Layer, "_state_strides", lambda layer: strides(layer)[::-1])
    with pytest.raises(KernelError, match="step LSTM"):
        CASES["memory, both ways"].run(TARGETS[1])


def test_sides_that_are_exchanged_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = resize._shape
    monkeypatch.setattr(
        resize, "_shape", lambda op, lead, plane, *how: shape(op, lead, plane[::-1], *how)
    )
    with pytest.raises(KernelError, match=r"resize(_planes)? in step"):
        CASES["planes"].run(TARGETS[0])


def test_places_in_another_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision, "channels_last", natural)
    with pytest.raises(KernelError, match="GridSample does not leave"):
        CASES["images of channels"].run(TARGETS[0])


def test_edges_of_regions_that_are_exchanged_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = vision._regions

    def exchanged(*how: object) -> Aggregate:
        made = regions(*how)
        names = {"rows": "columns", "columns": "rows"}
        return Aggregate(tuple((names.get(n, n), v) for n, v in made.items), made.type)

    monkeypatch.setattr(vision, "_regions", exchanged)
    with pytest.raises(KernelError, match="RoiAlign"):
        calls("RoiAlign", TARGETS[0])
