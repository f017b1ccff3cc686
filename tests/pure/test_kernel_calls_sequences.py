"""What kernels that work along rows are called with, done in NumPy by what their families mean:
normalization, reductions and attention.
"""

import pytest

from infuse import immutable
from infuse.lowering.expressions import Aggregate, Calculated
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.reduction import ReduceSizes
from infuse.targets.cpu.lower import rotary
from tests.pure.kernel_runs import TARGETS, run, run_all
from tests.pure.kernel_sequences import ATTENTIONS, NORMALIZATIONS, REDUCTIONS
from tests.support.epilogues import EpilogueError
from tests.support.kernel_calls import KernelError

pytestmark = pytest.mark.row("R1")
ROWS = {**NORMALIZATIONS, **REDUCTIONS}


@pytest.mark.parametrize("target", TARGETS[1:3])
@pytest.mark.parametrize("name", ROWS)
def test_a_kernel_of_rows_is_given_what_makes_its_node(name: str, target: str) -> None:
    case = ROWS[name]
    assert run_all(case.graph, target, "fp32", feeds=case.feeds) == {case.calls}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_given_what_makes_its_node(name: str, target: str, precision: str) -> None:
    case = ATTENTIONS[name]
    assert run_all(case.graph, target, precision, feeds=case.feeds) == {case.calls}


# -- what is wrong is seen -------------------------------------------------------------------------


def test_strides_that_are_exchanged_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    strided = FunctionWriter.strided

    def exchanged(f: FunctionWriter, type: str, tensor: Tensor) -> Aggregate:
        pointer, batch, head, row = strided(f, type, tensor).items
        return Aggregate((pointer, batch, row, head), type)

    monkeypatch.setattr(FunctionWriter, "strided", exchanged)
    with pytest.raises(KernelError, match=r"attention in step .* of Attention node .* leaves"):
        run(ATTENTIONS["heads"].graph, TARGETS[1], "fp32")


def test_a_cache_of_other_sizes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case, sizes = ATTENTIONS["grouped, with a past"], rotary.CacheSizes
    monkeypatch.setattr(
        rotary, "CacheSizes", lambda *fields: sizes(*fields)._replace(stored=fields[2])
    )
    with pytest.raises(KernelError, match=r"count_keys .* leaves its operands: .* keys of 4"):
        run(case.graph, TARGETS[1], "fp32", feeds=case.feeds)


def test_a_place_that_is_written_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    write = FunctionWriter.write

    def behind(f: FunctionWriter, tensor: Tensor) -> str:
        return write(f, immutable.replace(tensor, offset=tensor.offset + 1))

    monkeypatch.setattr(FunctionWriter, "write", behind)
    with pytest.raises(KernelError, match=r"arg_extreme .* leaves its operands: byte .* it writes"):
        run(REDUCTIONS["largest"].graph, TARGETS[1], "fp32")


def test_results_in_other_rows_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(fields: list[int]) -> ReduceSizes:
        outer, size, inner, _ = fields
        return ReduceSizes(outer, size, inner, 1)

    monkeypatch.setattr(ReduceSizes, "_make", staticmethod(narrow))
    with pytest.raises(EpilogueError, match=r"leaves elements elsewhere than in its result"):
        run(REDUCTIONS["turned, inner"].graph, TARGETS[1], "fp32")


def test_results_in_rows_that_are_cut_elsewhere_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def long(fields: list[int]) -> ReduceSizes:
        outer, size, inner, _ = fields
        return ReduceSizes(outer, size, inner, outer * inner)

    monkeypatch.setattr(ReduceSizes, "_make", staticmethod(long))
    with pytest.raises(KernelError, match=r"reduce in step .* of ReduceSum node"):
        run(REDUCTIONS["ReduceSum"].graph, TARGETS[1], "fp32")


def test_a_size_that_is_told_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    first, case = rotary._first, ATTENTIONS["grouped, counted"]

    def more(pointer: str, cast: str = "") -> Calculated:
        made = first(pointer, cast)
        return immutable.replace(made, meaning=lambda elements: made.meaning(elements) + 1)

    monkeypatch.setattr(rotary, "_first", more)
    with pytest.raises(KernelError, match=r"GroupQueryAttention: sizes tells 4 for 3"):
        run(case.graph, TARGETS[1], "fp32", feeds=case.feeds)
