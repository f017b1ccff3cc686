"""Faults of PyTorch's exporter: seen in its files at the line of source that made the call, real in
ONNX Runtime, and repaired files equal eager mode.
"""

import contextlib
import inspect
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import infuse
from infuse.doctor.warning import ExporterWarning
from infuse.ops.core.evaluate import evaluate
from tests.cli_tools import Cli

INF = float("inf")
X = torch.tensor([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0]])
IMAGE = torch.arange(162.0).reshape(1, 2, 9, 9) ** 2 / 1000
LOW = torch.tensor([-200.0, -120.0, -20.0, 0.0, 30.0])
OPEN = torch.tensor([[True, False], [False, False]])
QUERY = torch.linspace(-1, 1, 16).reshape(1, 2, 2, 4)


class Smoothed(torch.nn.Module):
    def forward(self, x, target):
        return F.cross_entropy(x, target, label_smoothing=0.1)


class SmoothedWeights(torch.nn.Module):
    def forward(self, x, target):
        weight = torch.tensor([1.0, 2.0, 0.5])
        return F.cross_entropy(x, target, weight, label_smoothing=0.2, reduction="sum")


class ScatterMean(torch.nn.Module):
    def forward(self, x, index, source):
        return x.scatter_reduce(0, index, source, "mean")


class Pooled(torch.nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 2, divisor_override=3)


class Masked(torch.nn.Module):
    def forward(self, q, mask):
        return F.scaled_dot_product_attention(q, q, q, mask)


class Antialiased(torch.nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=0.4, mode="bilinear", antialias=True)


class FloorDivided(torch.nn.Module):
    def forward(self, x, y):
        return x // y


class Remainder(torch.nn.Module):
    def forward(self, x, y):
        return x % y


class DividedDown(torch.nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="floor")


class LogSigmoid(torch.nn.Module):
    def forward(self, x):
        return F.logsigmoid(x)


class Loss(torch.nn.Module):
    def forward(self, x, y):
        return F.binary_cross_entropy_with_logits(x, y, reduction="none")


class Angle(torch.nn.Module):
    def forward(self, y, x):
        return torch.atan2(y, x)


class Anything(torch.nn.Module):
    def forward(self, x):
        return x.any(dim=1)


class LogSum(torch.nn.Module):
    def forward(self, x, y):
        return torch.logaddexp(x, y)


class LogSum2(torch.nn.Module):
    def forward(self, x, y):
        return torch.logaddexp2(x, y)


class Step(torch.nn.Module):
    def forward(self, x, y):
        return torch.heaviside(x, y)


class Sign(torch.nn.Module):
    def forward(self, x):
        return torch.signbit(x)


class Guarded(torch.nn.Module):
    def forward(self, x):
        y = torch.log(x + 1e-8)
        return x / (y.abs() + 1e-12)


class Plain(torch.nn.Module):
    """What looks alike, and is exported rightly."""

    def forward(self, x, target, image, counts):
        loss = F.cross_entropy(x, target, ignore_index=0)
        pooled = F.avg_pool2d(image, 2)
        resized = F.interpolate(image, size=[3, 3], mode="bilinear", antialias=True)
        summed = x.scatter_reduce(1, target[:, None], x[:, :1], "sum")
        down = torch.div(x, 0.5, rounding_mode="trunc")
        kept = torch.log(x.abs() + 1e-7) + 1 + x.mean()
        return loss, pooled, kept, resized, summed, down, counts // 2, counts % 2, F.softplus(x)


@dataclass(frozen=True)
class Case:
    """A module, what it is exported with, and what shows the fault."""

    module: type[torch.nn.Module]
    fault: str
    args: tuple[torch.Tensor, ...]
    shown: tuple[torch.Tensor, ...] | None = None
    dynamic: Any = None
    note: bool = False


_TENTHS = (torch.tensor([1.0, 3.0, 0.6, -0.3]), torch.tensor([0.1, INF, 0.2, 0.1]))
CASES = [
    Case(Smoothed, "drops-label-smoothing", (X, torch.tensor([0, 2]))),
    Case(SmoothedWeights, "drops-label-smoothing", (X, torch.tensor([0, -100]))),
    Case(
        ScatterMean,
        "scatter-mean-overwrites",
        (torch.ones(3), torch.tensor([0, 0, 2]), torch.tensor([4.0, 1.0, 5.0])),
    ),
    Case(Pooled, "ignores-pooling-divisor", (IMAGE,)),
    Case(Masked, "averages-masked-out-queries", (QUERY, OPEN), note=True),
    Case(
        Masked,
        "averages-masked-out-queries",
        (QUERY, torch.where(OPEN, 0.0, -INF)),
        note=True,
    ),
    Case(Antialiased, "antialias-by-factor-shifts", (IMAGE,)),
    Case(FloorDivided, "floor-division-by-rounded-quotient", _TENTHS),
    Case(Remainder, "floor-division-by-rounded-quotient", _TENTHS),
    Case(DividedDown, "floor-division-by-rounded-quotient", _TENTHS),
    Case(LogSigmoid, "logsigmoid-underflows", (LOW,)),
    Case(Loss, "logsigmoid-underflows", (LOW, torch.full((5,), 0.25))),
    Case(LogSum, "logaddexp-overflows", (LOW, LOW + 1)),
    Case(LogSum2, "logaddexp-overflows", (LOW * 2, LOW)),
    Case(
        Step,
        "heaviside-of-nan-is-one",
        (torch.tensor([torch.nan, 0.0, 2.0]), torch.tensor([0.5, 0.5, 0.5])),
        note=True,
    ),
    Case(Sign, "signbit-of-negative-zero-is-false", (torch.tensor([-0.0, 0.0, -1.0]),), note=True),
    Case(
        Angle,
        "atan2-flips-at-half-turn",
        (torch.tensor([0.0, 1.0]), torch.tensor([-1.0, -1.0])),
        note=True,
    ),
    Case(
        Anything,
        "any-of-nothing-is-true",
        (torch.ones(2, 3, dtype=torch.bool),),
        (torch.ones(2, 0, dtype=torch.bool),),
        ({1: torch.export.Dim("n", min=0)},),
        note=True,
    ),
]
_NAMES = [f"{case.module.__name__}-{number}" for number, case in enumerate(CASES)]


def exported(module: torch.nn.Module, args: tuple[Any, ...], path: Path, **options: Any) -> Path:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module.eval(), args, dynamo=True, verbose=False, **options)
        program.save(path)
    return path


def in_onnxruntime(path: Path, args: tuple[torch.Tensor, ...]) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {each.name: a.numpy() for each, a in zip(session.get_inputs(), args, strict=True)}
    result: np.ndarray[Any, Any] = session.run(None, feeds)[0]
    return result


def line_of(module: type[torch.nn.Module]) -> str:
    lines, start = inspect.getsourcelines(module.forward)
    return f"{__file__}:{start + len(lines) - 1}"


@pytest.mark.parametrize("case", CASES, ids=_NAMES)
def test_a_fault_is_seen_is_real_and_is_repaired(case: Case, tmp_path: Path) -> None:
    path = exported(case.module(), case.args, tmp_path / "m.onnx", dynamic_shapes=case.dynamic)
    diagnosis = infuse.diagnose(path, [])
    assert [d.fault.name for d in diagnosis.diagnostics] == [f"torch-exporter-{case.fault}"]
    (seen,) = diagnosis.diagnostics
    assert seen.line == line_of(case.module)
    assert (diagnosis.notes if case.note else diagnosis.faults) == [seen]
    assert seen.difference or case.note
    shown = case.shown or case.args
    right = case.module()(*shown).numpy()
    assert not np.allclose(in_onnxruntime(path, shown), right, rtol=1e-4, equal_nan=True)
    graph, left = diagnosis.repaired()
    assert not left
    infuse.save(graph, tmp_path / "repaired.onnx")
    after = infuse.diagnose(tmp_path / "repaired.onnx", [])
    assert not after.diagnostics
    for result in (
        in_onnxruntime(tmp_path / "repaired.onnx", shown),
        evaluate(graph, {v.name: a.numpy() for v, a in zip(graph.inputs, shown)})[
            graph.output_names[0]
        ],
    ):
        np.testing.assert_allclose(result, right, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES[::3], ids=_NAMES[::3])
def test_renamed_inputs_are_followed(case: Case, tmp_path: Path) -> None:
    """Recorded calls name inputs as the module does, not as input_names has it."""
    names = [f"in_{number}" for number in range(len(case.args))]
    path = exported(
        case.module(),
        case.args,
        tmp_path / "m.onnx",
        input_names=names,
        dynamic_shapes=case.dynamic,
    )
    graph, left = infuse.diagnose(path, []).repaired()
    assert not left
    assert [value.name for value in graph.inputs] == names


def test_what_is_exported_rightly_is_no_fault(tmp_path: Path) -> None:
    args = (X, torch.tensor([1, 2]), IMAGE, torch.tensor([3, 4]))
    path = exported(Plain(), args, tmp_path / "m.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infuse.load(path)
    assert not infuse.diagnose(path).faults


class Chain(torch.nn.Module):
    def forward(self, x, y):
        return F.logsigmoid(F.avg_pool2d(x, 2, divisor_override=3) // y) * y


def test_calls_that_read_each_other_are_repaired(tmp_path: Path) -> None:
    args = (IMAGE, torch.tensor(0.1))
    path = exported(Chain(), args, tmp_path / "m.onnx", input_names=["y", "x"])
    graph, left = infuse.diagnose(path, []).repaired()
    assert not left
    infuse.save(graph, tmp_path / "repaired.onnx")
    np.testing.assert_allclose(
        in_onnxruntime(tmp_path / "repaired.onnx", args), Chain()(*args), rtol=1e-5, atol=1e-6
    )


def test_additions_that_are_left_out_are_seen_where_they_are_read(tmp_path: Path) -> None:
    path = exported(Guarded(), (X,), tmp_path / "m.onnx")
    diagnosis = infuse.diagnose(path, [])
    assert {d.fault.name for d in diagnosis.faults} == {"torch-exporter-drops-small-additions"}
    assert [d.kind for d in diagnosis.faults] == ["Log", "Div"]
    with pytest.warns(ExporterWarning, match="the addition is left out"):
        infuse.load(path)
    last = line_of(Guarded)
    assert diagnosis.faults[1].line == last
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert not np.allclose(in_onnxruntime(path, (x,)), Guarded()(x), equal_nan=True)
    _, left = diagnosis.repaired()
    assert {*left} == {d.node for d in diagnosis.faults}
    assert all("does not say which value" in why for why in left.values())


class Many(torch.nn.Module):
    """Calls that agree and one that does not, with a size that is read."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = torch.tanh(self.linear(x)) - x
        return y.view(-1, x.shape[1]) % 0.1


def test_every_recorded_call_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dynamic = ({0: torch.export.Dim("batch")},)
    path = exported(Many(), (X,), tmp_path / "m.onnx", dynamic_shapes=dynamic)
    report = infuse.diagnose(path).compare_calls()
    assert report.agree >= 3
    assert [each.target for each in report.differ] == ["aten.remainder.Scalar"]
    assert not report.differ[0].special
    model = onnx.load(path)
    (tanh,) = (n for n in model.graph.node if n.op_type == "Tanh")
    tanh.op_type = "Sin"
    onnx.save(model, path)
    report = infuse.diagnose(path).compare_calls()
    assert sorted(each.target for each in report.differ) == [
        "aten.remainder.Scalar",
        "aten.tanh.default",
    ]
    answer = Cli(capsys)("doctor", path, "--calls")
    assert "calls that differ in trials" in answer.out
    facts = Cli(capsys)("doctor", path, "--calls", "--json").json["calls"]
    assert facts["agree"] == report.agree


def test_newer_opsets_mask_rightly(tmp_path: Path) -> None:
    path = exported(Masked(), (QUERY, OPEN), tmp_path / "m.onnx", opset_version=23)
    assert not infuse.diagnose(path, []).diagnostics


def test_load_warns_with_the_line(tmp_path: Path) -> None:
    path = exported(Pooled(), (IMAGE,), tmp_path / "m.onnx")
    with pytest.warns(ExporterWarning, match="window") as caught:
        infuse.load(path)
    (warning,) = caught
    assert line_of(Pooled) in str(warning.message)
    assert warning.filename == __file__
    for source in (onnx.load(path), path.read_bytes()):
        with pytest.warns(ExporterWarning, match="the model: the exporter"):
            infuse.load(source)


def test_check_lists_what_the_exporter_got_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(Pooled(), (IMAGE,), tmp_path / "m.onnx")
    cli = Cli(capsys)
    answer = cli("check", path)
    assert answer.status == 0
    assert "infuse doctor says more" in " ".join(answer.out.split())
    assert "warning" not in answer.err
    (fault,) = cli("check", path, "--json").json["faults"]
    assert fault["line"] == line_of(Pooled)
    report = tmp_path / "report.json"
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        answer = cli("optimize", path, "-o", tmp_path / "o.onnx", "--report", report)
    assert "the exporter did not write what PyTorch computes" in answer.err
    (text,) = json.loads(report.read_text())["faults"]
    assert line_of(Pooled) in text


@pytest.mark.parametrize("edit", ["no metadata", "half a call", "another language"])
def test_what_is_not_recorded_is_no_error(
    edit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = exported(Pooled(), (IMAGE,), tmp_path / "m.onnx")
    model = onnx.load(path)
    replaced: dict[str, Callable[[str], str]] = {
        "no metadata": lambda text: "",
        "half a call": lambda text: text[: len(text) // 2],
        "another language": lambda text: "%x : [num_users=1] = call_function[target=x.y](",
    }
    for entry in model.graph.node[0].metadata_props:
        entry.value = replaced[edit](entry.value)
    onnx.save(model, path)
    assert not infuse.diagnose(path, []).diagnostics
